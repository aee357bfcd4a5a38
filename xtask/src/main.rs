//! The commands of this repository. `cargo xtask --help` lists them.

mod apt;
mod bench;
mod cluster;
mod docs;
mod fork;
mod fuzz;
mod model;
mod platforms;
mod publish;
mod run;
mod shaders;
mod test;
mod tidy;
mod toolchain;
mod upstream;
mod vulkan;
mod web;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

const GREETING: &str = "\
Candle with a WebGPU device. To start:

  cargo xtask llama \"Once upon a time\"  a story by a small LLaMA; downloads 60 MB
  cargo xtask chat                      a chat with an instruct model; downloads 98 MB
  cargo xtask web                       both in a browser
  cargo xtask bench                     the speed of single ops on this machine
  cargo xtask test quick                the tests for the edit loop

cargo xtask --help lists all commands; README.md tells how to use the device in a project.";

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Builds, checks and runs Candle with its WebGPU device",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Time single ops on the WebGPU device: cargo xtask bench --filter gemm
    #[command(long_about = bench::HELP)]
    Bench(bench::Args),
    /// Chat with an instruct model on the WebGPU device
    #[command(long_about = model::CHAT)]
    Chat(model::Args),
    /// Run a model on several ranks over MPI: cargo xtask cluster -n 2 --parallel pipeline "Once upon a time"
    #[command(long_about = cluster::HELP)]
    Cluster(cluster::Args),
    /// Write the generated tables of README.md and docs/performance.md
    #[command(long_about = docs::HELP)]
    Docs(docs::Args),
    /// Write the patched candle-core and candle-nn to candle-core/tree and candle-nn/tree
    #[command(long_about = fork::HELP)]
    Fork(fork::Args),
    /// Compare random expression graphs on the WebGPU device with the CPU: cargo xtask fuzz --seconds 600
    #[command(long_about = fuzz::HELP)]
    Fuzz(fuzz::Args),
    /// Run a LLaMA model on the WebGPU device: cargo xtask llama "Once upon a time"
    #[command(long_about = model::LLAMA)]
    Llama(model::Args),
    /// Check the Rust for macOS, Windows, Android and Linux on ARM
    #[command(long_about = platforms::HELP)]
    Platforms(platforms::Args),
    /// Check what a person would publish: packages, builds from them, docs, the oldest Rust
    #[command(long_about = publish::HELP)]
    Publish(publish::Args),
    /// Compile the shaders for GPUs that need not be present: AMD's, and DX12's and Metal's languages
    #[command(long_about = shaders::HELP)]
    Shaders(shaders::Args),
    /// Run the tests: all parts, or those named
    #[command(long_about = test::HELP)]
    Test(test::Args),
    /// Check the layout of the repository: imports, lengths, docs, invariants; compiles nothing
    #[command(long_about = tidy::HELP)]
    Tidy(tidy::Args),
    /// Write the fork as a git branch of commits for Candle's repository
    #[command(long_about = upstream::HELP)]
    Upstream(upstream::Args),
    /// Build the web page with its models and serve it on localhost
    #[command(long_about = web::HELP)]
    Web(web::Args),
    /// Write every linked shader to target/wgsl and validate it
    Wgsl {
        /// Passed to wgsl-dump
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

fn main() {
    let cli = Cli::parse();
    let Some(command) = cli.command else {
        println!("{GREETING}");
        return;
    };
    let done = match command {
        Command::Bench(args) => bench::main(args),
        Command::Chat(args) => model::main("chat", "webgpu,chat", args),
        Command::Cluster(args) => cluster::main(args),
        Command::Docs(args) => docs::main(args),
        Command::Fork(args) => fork::main(args),
        Command::Fuzz(args) => fuzz::main(args),
        Command::Llama(args) => model::main("llama", "webgpu", args),
        Command::Platforms(args) => platforms::main(args),
        Command::Publish(args) => publish::main(args),
        Command::Shaders(args) => shaders::main(args),
        Command::Test(args) => test::main(args),
        Command::Tidy(args) => tidy::main(args),
        Command::Upstream(args) => upstream::main(args),
        Command::Web(args) => web::main(args),
        Command::Wgsl { rest } => wgsl(&rest),
    };
    match done {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::exit(1);
        }
    }
}

fn wgsl(rest: &[String]) -> Result<bool> {
    fork::materialise_all(false)?;
    let mut cargo = run::cargo();
    cargo.args([
        "run",
        "--quiet",
        "-p",
        "candle-webgpu-tests",
        "--bin",
        "wgsl-dump",
        "--",
    ]);
    Ok(run::status(cargo.args(rest))?.success())
}

/// The root of the repository, which contains xtask/.
fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("xtask has no parent folder")?;
    Ok(root.to_path_buf())
}
