//! `cargo xtask llama`: from a fresh clone to a running model in one command.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Run a LLaMA model on the WebGPU device.

Applies the patches, installs a Vulkan driver if there is none (on Linux), then builds and runs the example. All
arguments are passed to the example: `cargo xtask llama -- --help` lists its options.

  cargo xtask llama \"Once upon a time\"";

#[derive(clap::Args)]
pub struct Args {
    /// The prompt and options of the example
    #[arg(
        value_name = "PROMPT AND OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    let asks = ["--help", "-h", "--version", "-V"];
    if !args.rest.iter().any(|arg| asks.contains(&arg.as_str())) {
        vulkan::ensure()?;
    }
    run::example("llama", None, &args.rest)
}
