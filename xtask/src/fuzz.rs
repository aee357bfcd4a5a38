//! `cargo xtask fuzz`: random expression graphs on the device against the CPU.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Draw random expression graphs, run them on the WebGPU device and on the CPU, and compare.

  cargo xtask fuzz --seconds 600           for ten minutes, from a seed that the clock chooses
  cargo xtask fuzz --seed 17 --cases 1     one graph again

The first failure is made small and printed as a program, and the exit status is 1. `cargo xtask fuzz -- --help` lists all
options. The program needs nothing else to run: target/debug/deps/fuzz-* can be copied to another machine.";

#[derive(clap::Args)]
pub struct Args {
    /// Handed on to the program
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    vulkan::ensure()?;
    let mut cargo = run::cargo();
    cargo.args(["test", "--quiet", "-p", "candle-webgpu-tests"]);
    cargo.args(["--test", "fuzz", "--", "--device", "webgpu"]);
    Ok(run::status(cargo.args(args.rest))?.success())
}
