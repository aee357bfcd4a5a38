//! `cargo xtask bench`: how fast a device is at single ops.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Time single ops, with the sizes that language models use, on the best device that there is.

  cargo xtask bench                                    every op: its time, its rate, and how near that is to the best
  cargo xtask bench --device webgpu --filter gemm      the rows whose name contains this
  cargo xtask bench --device webgpu --save             and keep the result in benches/results
  cargo xtask bench compare OLD.json NEW.json          what became slower or faster
  cargo xtask bench plot FILE.json -o rates.svg        bars
  cargo xtask bench --features cuda --device cuda      Candle's own backend for CUDA; --features comes first

All other arguments are handed on to the program: `cargo xtask bench -- --help` lists its options. It is built in release.";

#[derive(clap::Args)]
pub struct Args {
    /// Features of candle-examples to build with: cuda, metal
    #[arg(long)]
    features: Option<String>,

    /// Handed on to the program
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

/// Those that ask for no device.
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

/// Not for another device, so that a machine without Vulkan can time those.
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
