//! What the browser knows and wgpu 30 does not pass on: the adapter's name, and subgroups, which it cannot ask for
//! (gfx-rs/wgpu#10146). And what has Firefox look for work that is done.

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

// The prototype is changed for the one call that `request` makes.
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

export function looks_seldom() {
    return globalThis.navigator?.userAgent?.includes("Firefox/") ?? false;
}

export function sleep(ms) {
    return new Promise((done) => setTimeout(done, ms));
}
"#)]
extern "C" {
    fn adapter_facts() -> Promise;
    fn with_subgroups(request: &mut dyn FnMut());
    fn looks_seldom() -> bool;
    fn sleep(ms: u32) -> Promise;
}

/// Milliseconds between two looks, and how many there are: what takes longer can wait for the browser's own.
const LOOK: u32 = 2;
const LOOKS: u32 = 500;

/// Firefox (159) looks for work that is done whenever something is submitted, and else ten times a second (bug 1870699), so a token
/// would take 100 ms. Until `ready` is over nothing is submitted to it again and again.
pub(crate) fn keep_looking(queue: &wgpu::Queue, ready: &Ready) {
    if !looks_seldom() {
        return;
    }
    let (queue, ready) = (queue.clone(), ready.clone());
    spawn_local(async move {
        for _ in 0..LOOKS {
            if JsFuture::from(sleep(LOOK)).await.is_err() || ready.done().is_some() {
                return;
            }
            crate::executor::submit::nudge(&queue);
        }
    });
}

/// What a browser tells of its adapter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub name: String,
    /// For example `nvidia`.
    pub vendor: String,
    /// Smallest and largest subgroup, where the adapter has the feature.
    pub subgroup: Option<(u32, u32)>,
    /// It computes on the CPU.
    pub software: bool,
}

/// Asks the browser; nothing where it has no adapter.
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

/// Makes a request for a device, to which subgroups are added.
pub(crate) fn asking_for_subgroups<T>(request: impl FnOnce() -> T) -> Option<T> {
    let (mut request, mut made) = (Some(request), None);
    with_subgroups(&mut || {
        if let Some(request) = request.take() {
            made = Some(request());
        }
    });
    made
}
