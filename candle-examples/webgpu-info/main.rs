//! Lists the WebGPU adapters of this machine and the one that Candle selects.

use std::process::ExitCode;

use candle_examples::exit;

#[cfg(feature = "webgpu")]
mod report;

fn main() -> ExitCode {
    exit::report(run())
}

#[cfg(feature = "webgpu")]
fn run() -> anyhow::Result<()> {
    report::run()
}

#[cfg(not(feature = "webgpu"))]
fn run() -> anyhow::Result<()> {
    Err(candle_examples::Error::NotCompiled("webgpu").into())
}
