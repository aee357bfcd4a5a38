//! Lists the WebGPU adapters of this machine and the one that Candle selects, or writes a report on a GPU.

#[cfg(feature = "webgpu")]
mod adapters;
#[cfg(feature = "webgpu")]
mod args;
#[cfg(feature = "webgpu")]
mod child;
#[cfg(feature = "webgpu")]
mod conformance;
#[cfg(feature = "webgpu")]
#[path = "../../tests/known.rs"]
mod known;
#[cfg(feature = "webgpu")]
mod probe;
#[cfg(feature = "webgpu")]
mod report;
#[cfg(feature = "webgpu")]
#[path = "../../tests/conformance/sample.rs"]
#[allow(
    dead_code,
    reason = "the report's sample is not set by the environment"
)]
mod sample;
#[cfg(feature = "webgpu")]
mod tune;
// The conformance suite names its modules as `crate::case`.
#[cfg(feature = "webgpu")]
#[path = "../../tests/conformance/mod.rs"]
mod suite;

use std::process::ExitCode;

use candle_examples::exit;
#[cfg(feature = "webgpu")]
use suite::*;

fn main() -> ExitCode {
    exit::report(run())
}

#[cfg(feature = "webgpu")]
fn run() -> anyhow::Result<()> {
    args::run()
}

#[cfg(not(feature = "webgpu"))]
fn run() -> anyhow::Result<()> {
    Err(candle_examples::Error::NotCompiled("webgpu").into())
}
