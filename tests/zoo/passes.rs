//! How many layers a model is made with, and the dispatches of each of its passes, where somebody counts them.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use candle_core::Device;

thread_local! {
    static LAYERS: Cell<usize> = const { Cell::new(2) };
    /// What the device had dispatched at the end of each pass.
    static COUNTS: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

/// Layers of a model of this thread.
pub fn layers() -> usize {
    LAYERS.get()
}

/// A pass is recorded: to be called at the end of each.
pub fn end(device: &Device) -> Result<()> {
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts {
            device.synchronize()?;
            counts.push(device.as_webgpu_device()?.stats().dispatches);
        }
        Ok(())
    })
}

/// Dispatches of the last pass of a run that makes a model with so many layers, and runs it twice at least.
pub fn dispatches<T>(layers: usize, run: impl FnOnce() -> Result<T>) -> Result<u64> {
    let usual = LAYERS.replace(layers);
    COUNTS.set(Some(Vec::new()));
    let outcome = run();
    LAYERS.set(usual);
    let counts = COUNTS.take().unwrap_or_default();
    outcome?;
    match counts[..] {
        [.., before, after] => Ok(after - before),
        _ => None.context("fewer than two passes"),
    }
}
