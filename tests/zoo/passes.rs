//! The number of layers of a model, and the dispatches of each of its passes, if they are counted.

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};

thread_local! {
    static LAYERS: Cell<usize> = const { Cell::new(2) };
    /// The device's dispatches so far, at the end of each pass.
    static COUNTS: RefCell<Option<Vec<u64>>> = const { RefCell::new(None) };
}

/// The number of layers of this thread's models.
pub fn layers() -> usize {
    LAYERS.get()
}

/// Counts a pass; called at the end of each.
pub fn end(device: &Device) -> Result<()> {
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts {
            device.synchronize()?;
            counts.push(device.as_webgpu_device()?.stats().dispatches);
        }
        Ok(())
    })
}

/// Counts one pass over an input; for models that are run once.
pub fn once<T>(input: &Tensor, run: impl FnOnce() -> candle_core::Result<T>) -> Result<T> {
    end(input.device())?;
    let output = run()?;
    end(input.device())?;
    Ok(output)
}

/// The dispatches of the last pass of `run`, which builds a model with this many layers and runs it at least twice.
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
