//! `cargo xtask llama` and `cargo xtask chat`: from a fresh clone to a running model in one command.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const LLAMA: &str = "\
Continue a prompt with a LLaMA model on the WebGPU device.

Applies the patches, installs a Vulkan driver if there is none (on Linux), then builds and runs the example. All
arguments after --release are passed to the example: `cargo xtask llama -- --help` lists its options.

  cargo xtask llama \"Once upon a time\"
  cargo xtask llama --release --model TinyLlama/TinyLlama-1.1B-Chat-v1.0 --dtype f16 \"The capital of France is\"";

pub const CHAT: &str = "\
Chat with an instruct model on the WebGPU device.

Applies the patches, installs a Vulkan driver if there is none (on Linux), then builds and runs the example. All
arguments after --release are passed to the example: `cargo xtask chat -- --help` lists its options and models.

  cargo xtask chat
  cargo xtask chat --release --model llama-3.2-1b";

#[derive(clap::Args)]
pub struct Args {
    /// Optimise all of the host's code: takes about three times as long to compile, and decodes faster
    #[arg(long)]
    release: bool,

    /// Options of the example, and llama's prompt
    #[arg(
        value_name = "PROMPT AND OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

/// `features` are the features of candle-examples that the program needs.
pub fn main(program: &str, features: &str, args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    vulkan::ensure_for(&args.rest, &[])?;
    // Unoptimised kernels of the CPU backend would take minutes.
    let release = args.release || run::device(&args.rest) == Some("cpu");
    let profile = if release { "release" } else { "quick" };
    if !release {
        eprintln!("building {program} for a quick start; with --release it is built for speed");
    }
    let flags = ["--no-default-features", "--features", features];
    run::example(program, profile, &flags, &args.rest)
}
