//! The WebGPU adapters of this machine and the one that Candle chooses.

use std::process::ExitCode;

#[cfg(feature = "webgpu")]
mod report;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "webgpu")]
fn run() -> anyhow::Result<()> {
    report::run()
}

#[cfg(not(feature = "webgpu"))]
fn run() -> anyhow::Result<()> {
    Err(candle_examples::Error::NotCompiled("webgpu").into())
}
