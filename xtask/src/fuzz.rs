//! `cargo xtask fuzz`: compares random expression graphs with the CPU, or runs a libFuzzer target (`--target`).

use std::path::Path;

use anyhow::{ensure, Result};

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Draw random expression graphs, run them on the WebGPU device and on the CPU, and compare.

  cargo xtask fuzz --seconds 600           for ten minutes, with a seed from the clock
  cargo xtask fuzz --seed 17 --cases 1     repeat one graph

The first failure is shrunk and printed as a Rust program, and the exit status is 1. `cargo xtask fuzz -- --help` lists all
options. The binary is self-contained: target/debug/deps/fuzz-* can be copied to another machine.

  cargo xtask fuzz --target all --seconds 600         run each libFuzzer target of fuzz/ for an equal share of the time
  cargo xtask fuzz --target gguf -- -max_len=4096     run one: gguf, layouts, llama2c, safetensors or tokenizer

libFuzzer uses coverage guidance and AddressSanitizer, and needs `cargo install cargo-fuzz` and a C++ compiler. It starts
from fuzz/seeds and writes new inputs to fuzz/corpus, failing ones to fuzz/artifacts. To make a failing input a test of
`cargo xtask test fuzz`, add it to fuzz/seeds.";

/// Folders of fuzz/seeds.
const TARGETS: [&str; 5] = ["gguf", "layouts", "llama2c", "safetensors", "tokenizer"];

#[derive(clap::Args)]
pub struct Args {
    /// The libFuzzer target to run instead of random graphs, or `all`
    #[arg(long)]
    target: Option<String>,
    /// How long to run, over all targets
    #[arg(long)]
    seconds: Option<u64>,
    /// Passed to the fuzzer
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
    let Some(target) = &args.target else {
        let mut cargo = run::cargo();
        cargo.args(["test", "--quiet", "-p", "candle-webgpu-tests"]);
        cargo.args(["--test", "fuzz", "--", "--device", "webgpu"]);
        if let Some(seconds) = args.seconds {
            cargo.args(["--seconds", &seconds.to_string()]);
        }
        return Ok(run::status(cargo.args(args.rest))?.success());
    };
    let chosen = |name: &&&str| target == "all" || target == **name;
    let targets: Vec<&&str> = TARGETS.iter().filter(chosen).collect();
    ensure!(!targets.is_empty(), "{target} is not one of {TARGETS:?}");
    let seconds = args.seconds.unwrap_or(60) / targets.len() as u64;
    for name in targets {
        if !bytes(name, seconds, &args.rest)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs one target. `RUSTC_BOOTSTRAP` lets the stable compiler accept the unstable flags of cargo-fuzz.
fn bytes(target: &str, seconds: u64, options: &[String]) -> Result<bool> {
    let corpus = Path::new("fuzz").join("corpus").join(target);
    std::fs::create_dir_all(crate::root()?.join(&corpus))?;
    let mut cargo = run::cargo();
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.args(["fuzz", "run", target]);
    cargo.arg(corpus).arg(Path::new("fuzz/seeds").join(target));
    // Vulkan drivers do not free all memory at exit.
    let asan = std::env::var("ASAN_OPTIONS").unwrap_or_default();
    cargo.env("ASAN_OPTIONS", format!("detect_leaks=0:{asan}"));
    cargo.args([
        "--",
        "-rss_limit_mb=8192",
        "-malloc_limit_mb=2048",
        "-timeout=60",
    ]);
    cargo.arg(format!("-max_total_time={seconds}"));
    Ok(run::status(cargo.args(options))?.success())
}
