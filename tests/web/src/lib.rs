//! The conformance suite in a browser: the cases of tests/conformance as they are, each below an export that suspends
//! (JSPI) where it reads back; the calls that need no suspending; and the text of every shader, for the browser to
//! compile.
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
use std::rc::Rc;

use candle_core::Device;
use candle_webgpu::kernel::catalogue;
use candle_webgpu::shader::{link, Target};
use js_sys::{Array, JsString};
use suite::*;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsError;

type Result<T> = std::result::Result<T, JsError>;

/// What needs threads, or a process of its own with a lower limit of bindings: a browser has neither.
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

/// Makes the device; gives the names of the cases.
#[wasm_bindgen]
pub async fn open() -> Result<Array> {
    console_error_panic_hook::set_once();
    let device = Device::new_webgpu_async(0).await?;
    let mut cases = cases();
    cases.retain(|case| !NATIVE.iter().any(|names| case.name.starts_with(names)));
    let names = cases.iter().map(|c| JsString::from(c.name.as_str()));
    let names = names.collect();
    let opened = Rc::new(Opened { device, cases });
    // Opened twice: the first stays.
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

/// Runs a case; gives the greatest difference of floats.
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

/// What needs no suspending: the calls to await, and the errors of those that block.
#[wasm_bindgen]
pub async fn run_asynchronous() -> Result<()> {
    let opened = opened()?;
    let done = asynchronous::check(&opened.device).await;
    done.map_err(|e| JsError::new(&format!("{e:#}")))
}

/// Names and texts of all shaders that this device can be asked for, in turn.
#[wasm_bindgen]
pub fn shaders() -> Result<Array> {
    let opened = opened()?;
    let features = opened.device.as_webgpu_device()?.runtime().features();
    let texts = Array::new();
    for spec in catalogue() {
        if features.contains(spec.features) {
            texts.push(&JsString::from(spec.name()));
            texts.push(&JsString::from(link(&spec, Target::Tint)?));
        }
    }
    Ok(texts)
}
