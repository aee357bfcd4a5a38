//! The conformance suite in a browser: the cases of tests/conformance, run by an export that suspends (JSPI) during
//! readbacks; the calls that do not suspend; and the texts of shaders, for the browser to compile.
#![cfg(target_arch = "wasm32")]
#![allow(
    deprecated,
    reason = "that is how wasm-bindgen marks JSPI as experimental"
)]

mod asynchronous;
#[path = "../../known.rs"]
mod known;
#[path = "../../conformance/mod.rs"]
mod suite;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use candle_core::Device;
use candle_webgpu::kernel::catalogue;
use candle_webgpu::shader::{link, Target};
use js_sys::{Array, JsString};
use suite::*;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsError;

type Result<T> = std::result::Result<T, JsError>;

/// Cases that need threads, or a process with a lower binding limit: a browser has neither.
const NATIVE: [&str; 2] = ["upstream/concurrent_readback", "large/"];

struct Opened {
    device: Device,
    cases: Vec<case::Case>,
}

thread_local! {
    static OPENED: OnceCell<Rc<Opened>> = const { OnceCell::new() };
}

fn opened() -> Result<Rc<Opened>> {
    let opened = OPENED.with(|cell| cell.get().cloned());
    opened.ok_or_else(|| JsError::new("the suite is not open"))
}

/// Creates the device; returns the names of the cases.
#[wasm_bindgen]
pub async fn open() -> Result<Array> {
    console_error_panic_hook::set_once();
    let device = Device::new_webgpu_async(0).await?;
    let mut cases = cases();
    cases.retain(|case| !NATIVE.iter().any(|names| case.name.starts_with(names)));
    let names = cases.iter().map(|c| JsString::from(c.name.as_str()));
    let names = names.collect();
    let opened = Rc::new(Opened { device, cases });
    // If opened twice, the first device stays.
    let _ = OPENED.with(|cell| cell.set(opened));
    Ok(names)
}

#[wasm_bindgen]
pub fn adapter() -> Result<String> {
    let device = &opened()?.device;
    Ok(device.as_webgpu_device()?.adapter().name.clone())
}

/// Why a case is known to fail on this adapter; some of a group may pass.
#[wasm_bindgen]
pub fn known_failure(case: &str) -> Result<Option<String>> {
    Ok(known::reason(&adapter()?, case).map(str::to_string))
}

/// Runs a case; returns the greatest difference of floats.
#[wasm_bindgen(jspi)]
pub fn run(index: usize) -> Result<f64> {
    let opened = opened()?;
    let case = opened.cases.get(index);
    let case = case.ok_or_else(|| JsError::new("there is no such case"))?;
    bound::WORST.set(0.);
    let done = candle_webgpu::suspending(|| case.run(&opened.device));
    done.map_err(|e| JsError::new(&format!("{e:#}")))?;
    Ok(bound::WORST.get())
}

/// Runs what needs no suspension: the async calls, and the errors of blocking ones.
#[wasm_bindgen]
pub async fn run_asynchronous() -> Result<()> {
    let opened = opened()?;
    let done = asynchronous::check(&opened.device).await;
    done.map_err(|e| JsError::new(&format!("{e:#}")))
}

/// Names and texts, alternating, of the shaders that this device may need: one in `every` of each kernel, starting with the first.
#[wasm_bindgen]
pub fn shaders(every: usize) -> Result<Array> {
    let opened = opened()?;
    let features = opened.device.as_webgpu_device()?.runtime().features();
    let texts = Array::new();
    let mut seen = HashMap::<String, usize>::new();
    for spec in catalogue() {
        if !features.contains(spec.features) {
            continue;
        }
        let name = spec.name();
        let kernel = name.split('.').next().unwrap_or_default();
        let count = seen.entry(kernel.to_owned()).or_default();
        *count += 1;
        if (*count - 1).is_multiple_of(every) {
            texts.push(&JsString::from(name.as_str()));
            texts.push(&JsString::from(link(&spec, Target::Tint)?));
        }
    }
    Ok(texts)
}
