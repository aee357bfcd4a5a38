//! Workarounds for browsers: what wgpu 30 does not provide (the adapter's name; subgroups, which it cannot request: gfx-rs/wgpu#10146;
//! `createComputePipelineAsync`: gfx-rs/wgpu#3794), and short waits.

use js_sys::futures::JsFuture;
use js_sys::{Array, Promise, Reflect};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

#[wasm_bindgen(inline_js = r#"
export async function adapter_facts() {
    const adapter = await globalThis.navigator?.gpu?.requestAdapter();
    if (!adapter) return null;
    const { vendor, architecture, device, description } = adapter.info ?? {};
    const subgroups = adapter.features.has("subgroups");
    const { subgroupMinSize = 0, subgroupMaxSize = 0 } = adapter.info ?? {};
    const name = description || [vendor, architecture, device].filter(Boolean).join(" ");
    return [name, vendor ?? "", subgroups ? subgroupMinSize : 0, subgroups ? subgroupMaxSize : 0,
        adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false];
}

// Replaces a method for the single call that `work` makes. `replacement` receives the original method first.
function replacing(prototype, method, replacement, work) {
    const original = prototype[method];
    prototype[method] = function (argument) {
        return replacement.call(this, original, argument);
    };
    try {
        work();
    } finally {
        prototype[method] = original;
    }
}

export function with_subgroups(request) {
    replacing(GPUAdapter.prototype, "requestDevice", function (original, descriptor = {}) {
        const requiredFeatures = [...(descriptor.requiredFeatures ?? []), "subgroups"];
        return original.call(this, { ...descriptor, requiredFeatures });
    }, request);
}

// `create` calls createComputePipeline once. Its result is a placeholder here, to be dropped.
export function start_pipeline(create) {
    let pipeline;
    replacing(GPUDevice.prototype, "createComputePipeline", function (_, descriptor) {
        pipeline = this.createComputePipelineAsync(descriptor);
        return {};
    }, create);
    return pipeline;
}

export function with_pipeline(pipeline, create) {
    replacing(GPUDevice.prototype, "createComputePipeline", () => pipeline, create);
}

// A timer cannot wait for less than 4 ms (HTML clamps nested timers), so short waits send messages to this page itself. At most one message
// is on its way: more of them would delay the browser's reply.
const messages = new MessageChannel();
let waiting = [];
messages.port1.onmessage = () => {
    const done = waiting;
    waiting = [];
    for (const wake of done) wake();
};
const turn = () => new Promise((wake) => {
    if (waiting.push(wake) === 1) messages.port2.postMessage(null);
});

export async function sleep(ms) {
    if (ms >= 4) return new Promise((done) => setTimeout(done, ms));
    const end = performance.now() + ms;
    while (performance.now() < end) await turn();
}
"#)]
extern "C" {
    fn adapter_facts() -> Promise;
    fn with_subgroups(request: &mut dyn FnMut());
    fn start_pipeline(create: &mut dyn FnMut()) -> Promise;
    fn with_pipeline(pipeline: &JsValue, create: &mut dyn FnMut());
    fn sleep(ms: f64) -> Promise;
}

/// Waits for some milliseconds, of which timers know only 4 or more.
pub(crate) async fn wait(ms: f64) {
    // The promise never rejects.
    let _ = JsFuture::from(sleep(ms)).await;
}

/// Facts that a browser provides about its adapter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub name: String,
    /// For example `nvidia`.
    pub vendor: String,
    /// Smallest and largest subgroup size, if the adapter supports subgroups.
    pub subgroup: Option<(u32, u32)>,
    /// Whether the adapter computes on the CPU.
    pub software: bool,
}

/// `None` if the browser has no adapter.
pub(crate) async fn facts() -> Option<Facts> {
    let facts: JsValue = JsFuture::from(adapter_facts()).await.ok()?;
    let facts = Array::try_from(facts).ok()?;
    let text = |i| facts.get(i).as_string().unwrap_or_default();
    let number = |i| facts.get(i).as_f64().unwrap_or_default() as u32;
    Some(Facts {
        name: text(0),
        vendor: text(1),
        subgroup: Some((number(2), number(3))).filter(|(_, most)| *most > 0),
        software: facts.get(4).is_truthy(),
    })
}

/// Runs `request`, which requests a device, and adds subgroups to the requested features.
pub(crate) fn asking_for_subgroups<T>(request: impl FnOnce() -> T) -> Option<T> {
    called_once(request, |request| with_subgroups(&mut || request()))
}

/// The pipeline that `create` creates by one call of `Device::create_compute_pipeline`, or the browser's message. The browser compiles several
/// at once. `create` runs twice: it starts the compilation, and wraps its result.
pub(crate) async fn create_pipeline_async(
    create: impl Fn() -> wgpu::ComputePipeline,
) -> Result<wgpu::ComputePipeline, String> {
    let compiling = start_pipeline(&mut || drop(create()));
    let pipeline = JsFuture::from(compiling).await.map_err(|error| {
        let message = Reflect::get(&error, &"message".into()).ok();
        message
            .and_then(|text| text.as_string())
            .unwrap_or_default()
    })?;
    called_once(&create, |create| with_pipeline(&pipeline, &mut || create()))
        .ok_or_else(|| "the browser did not wrap the pipeline".into())
}

/// Passes `work` to JavaScript, which calls it once, and returns its result.
fn called_once<T>(work: impl FnOnce() -> T, call: impl FnOnce(&mut dyn FnMut())) -> Option<T> {
    let (mut work, mut made) = (Some(work), None);
    call(&mut || {
        if let Some(work) = work.take() {
            made = Some(work());
        }
    });
    made
}
