//! Workarounds for browsers: adapter facts that wgpu 30 does not provide (the name, and subgroups, which it cannot request:
//! gfx-rs/wgpu#10146), and browsers' slow polling.

use js_sys::futures::{spawn_local, JsFuture};
use js_sys::{Array, Promise};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

use crate::executor::ready::Ready;

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

// Patches the prototype for the single call that `request` makes.
export function with_subgroups(request) {
    const prototype = globalThis.GPUAdapter.prototype;
    const original = prototype.requestDevice;
    prototype.requestDevice = function (descriptor = {}) {
        const requiredFeatures = [...(descriptor.requiredFeatures ?? []), "subgroups"];
        return original.call(this, { ...descriptor, requiredFeatures });
    };
    try {
        request();
    } finally {
        prototype.requestDevice = original;
    }
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
    fn sleep(ms: f64) -> Promise;
}

/// Milliseconds until the first empty submit. Each further interval is longer, so that the delay stays in proportion to the work.
const FIRST: f64 = 0.1;
const GROWTH: f64 = 1.03;
const LONGEST: f64 = 50.;

/// Makes empty submits until `ready`. Browsers look for finished work after each submit, but otherwise rarely: Chromium 156 every 2.6 ms, and
/// Firefox 159 ten times a second (bug 1870699).
pub(crate) fn poll_by_submits(queue: &wgpu::Queue, ready: &Ready) {
    let (queue, ready) = (queue.clone(), ready.clone());
    spawn_local(async move {
        let mut interval = FIRST;
        while JsFuture::from(sleep(interval)).await.is_ok() && ready.result().is_none() {
            crate::executor::submit::submit_nothing(&queue);
            interval = (interval * GROWTH).min(LONGEST);
        }
    });
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
    let (mut request, mut made) = (Some(request), None);
    with_subgroups(&mut || {
        if let Some(request) = request.take() {
            made = Some(request());
        }
    });
    made
}
