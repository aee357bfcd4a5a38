//! `cargo xtask llama`: from a fresh clone to a running model in one command.

use anyhow::Result;

use crate::{fork, run, vulkan};

pub const HELP: &str = "\
Run a LLaMA model on the WebGPU device.

Makes the patched crates, sees to it that there is a Vulkan driver (on Linux), builds the example and runs it. All
arguments are handed on to the example: `cargo xtask llama -- --help` lists its options.

  cargo xtask llama \"Once upon a time\"";

#[derive(clap::Args)]
pub struct Args {
    /// The prompt and the options of the example
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
