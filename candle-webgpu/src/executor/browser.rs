//! Workarounds for browsers: adapter facts that wgpu 30 does not provide (the name, and subgroups, which it cannot request:
//! gfx-rs/wgpu#10146), and Firefox's slow polling.

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

export function polls_slowly() {
    return globalThis.navigator?.userAgent?.includes("Firefox/") ?? false;
}

export function sleep(ms) {
    return new Promise((done) => setTimeout(done, ms));
}
"#)]
extern "C" {
    fn adapter_facts() -> Promise;
    fn with_subgroups(request: &mut dyn FnMut());
    fn polls_slowly() -> bool;
    fn sleep(ms: u32) -> Promise;
}

/// Milliseconds between two empty submits, and the maximum number of submits. Longer work can wait for the browser's own polling.
const INTERVAL: u32 = 2;
const SUBMITS: u32 = 500;

/// Makes empty submits until `ready`. Firefox (159) checks for finished work after each submit, and otherwise only ten times a second (bug
/// 1870699), so that each token would take 100 ms.
pub(crate) fn poll_by_submits(queue: &wgpu::Queue, ready: &Ready) {
    if !polls_slowly() {
        return;
    }
    let (queue, ready) = (queue.clone(), ready.clone());
    spawn_local(async move {
        for _ in 0..SUBMITS {
            if JsFuture::from(sleep(INTERVAL)).await.is_err() || ready.result().is_some() {
                return;
            }
            crate::executor::submit::submit_nothing(&queue);
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
