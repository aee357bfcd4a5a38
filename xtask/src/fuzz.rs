//! `cargo xtask fuzz`: random expression graphs on the device against the CPU; with `--target`, inputs that libFuzzer makes.

use std::path::Path;

use anyhow::{ensure, Result};

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Draw random expression graphs, run them on the WebGPU device and on the CPU, and compare.

  cargo xtask fuzz --seconds 600           for ten minutes, from a seed that the clock chooses
  cargo xtask fuzz --seed 17 --cases 1     one graph again

The first failure is made small and printed as a program, and the exit status is 1. `cargo xtask fuzz -- --help` lists all
options. The program needs nothing else to run: target/debug/deps/fuzz-* can be copied to another machine.

  cargo xtask fuzz --target all --seconds 600         bytes in place of graphs, for all targets of fuzz/ in turn
  cargo xtask fuzz --target gguf -- -max_len=4096     one of them: gguf, layouts, llama2c, safetensors, tokenizer

does so by coverage, with libFuzzer and AddressSanitizer, which needs `cargo install cargo-fuzz` and a C++ compiler. It begins with
fuzz/seeds; what it finds on the way is kept in fuzz/corpus, an input that fails in fuzz/artifacts. Added to fuzz/seeds, that is a test of
`cargo xtask test fuzz` from then on.";

/// Folders of fuzz/seeds.
const TARGETS: [&str; 5] = ["gguf", "layouts", "llama2c", "safetensors", "tokenizer"];

#[derive(clap::Args)]
pub struct Args {
    /// A target of libFuzzer's in place of graphs, or `all`
    #[arg(long)]
    target: Option<String>,
    /// How long to look for failures
    #[arg(long)]
    seconds: Option<u64>,
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
    ensure!(!targets.is_empty(), "{target} is none of {TARGETS:?}");
    let seconds = args.seconds.unwrap_or(60) / targets.len() as u64;
    for name in targets {
        if !bytes(name, seconds, &args.rest)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One target, with the compiler that builds everything else: it knows what fuzzing needs, but calls it unstable.
fn bytes(target: &str, seconds: u64, options: &[String]) -> Result<bool> {
    let corpus = Path::new("fuzz").join("corpus").join(target);
    std::fs::create_dir_all(crate::root()?.join(&corpus))?;
    let mut cargo = run::cargo();
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.args(["fuzz", "run", target]);
    cargo.arg(corpus).arg(Path::new("fuzz/seeds").join(target));
    // Vulkan's drivers keep memory to their end.
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
