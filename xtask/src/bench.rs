//! `cargo xtask bench`: times single ops on a device.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Time single ops, at the sizes that language models use, on the best available device.

  cargo xtask bench                                    every op: time, rate, and rate relative to the device's best
  cargo xtask bench --device webgpu --filter gemm      only rows whose name contains \"gemm\"
  cargo xtask bench --device webgpu --save             also save the result in benches/results
  cargo xtask bench compare OLD.json NEW.json          show which rows became slower or faster
  cargo xtask bench plot FILE.json -o rates.svg        draw a bar chart
  cargo xtask bench --features cuda --device cuda      use Candle's CUDA backend; --features must come first

All other arguments are passed to the benchmark: `cargo xtask bench -- --help` lists them. It is built in release mode.";

#[derive(clap::Args)]
pub struct Args {
    /// Features of candle-examples to build with: cuda, metal
    #[arg(long)]
    features: Option<String>,

    /// Passed to the benchmark
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

/// Arguments with which the benchmark opens no device.
const NO_DEVICE: [&str; 3] = ["--list", "compare", "plot"];

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    vulkan::ensure_for(&args.rest, &NO_DEVICE)?;
    let features = args.features.iter();
    let flags: Vec<_> = features.flat_map(|f| ["--features", f]).collect();
    run::example("bench", "release", &flags, &args.rest)
}
