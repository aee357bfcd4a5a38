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
const NO_DEVICE: [&str; 7] = [
    "--help",
    "-h",
    "--version",
    "-V",
    "--list",
    "compare",
    "plot",
];

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    if needs_vulkan(&args) {
        vulkan::ensure()?;
    }
    run::example("bench", args.features.as_deref(), &args.rest)
}

/// False for other devices, so that machines without Vulkan can time them.
fn needs_vulkan(args: &Args) -> bool {
    let mut rest = args.rest.iter().map(String::as_str);
    let other = |device: Option<&str>| device.is_some_and(|d| d != "webgpu" && d != "auto");
    while let Some(arg) = rest.next() {
        let device = match arg {
            "--device" => rest.next(),
            _ => arg.strip_prefix("--device="),
        };
        if NO_DEVICE.contains(&arg) || other(device) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vulkan_is_for_those_who_use_it() {
        let needs = |line: &str| {
            needs_vulkan(&Args {
                features: None,
                rest: line.split_whitespace().map(str::to_string).collect(),
            })
        };
        assert!(needs("") && needs("--filter add --device webgpu --json"));
        assert!(!needs("--device cpu") && !needs("--filter add --device=cuda"));
        assert!(!needs("--list") && !needs("compare a b") && !needs("--help"));
    }
}
