//! `cargo xtask web`: language models in a browser, from a fresh clone.

pub mod browser;
mod build;
mod tools;

use std::path::PathBuf;

use anyhow::Result;

use crate::{fork, run};

pub const HELP: &str = "\
Build the web page of candle-examples/web with its models and serve it on this machine.

  cargo xtask web                        build, download the models, print the address
  cargo xtask web --tests                with the module of test.html
  cargo xtask web --no-serve             only make target/site, which any server of files can serve

Takes rustup's target wasm32-unknown-unknown, or Debian's rustc-web, which it builds the standard library with; and
wasm-bindgen at the version of Cargo.lock, which it builds once. wasm-opt is used where there is one. --model NAME (more
than once) chooses models, --port N the port; they are handed on to the server, as all else that stands behind --.";

#[derive(clap::Args)]
pub struct Args {
    /// Build the module of test.html, too
    #[arg(long)]
    tests: bool,

    /// Models to offer, by their names [default: all]
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,

    /// Port on this machine
    #[arg(long, default_value_t = 8080)]
    port: u16,

    /// Only make target/site
    #[arg(long)]
    no_serve: bool,
}

pub fn main(args: Args) -> Result<bool> {
    let folder = site(args.tests)?;
    let mut cargo = run::cargo();
    cargo.args(["run", "--quiet", "-p", "candle-web", "--bin", "serve", "--"]);
    cargo.arg(folder).arg("--port").arg(args.port.to_string());
    cargo.args(args.models.iter().flat_map(|name| ["--model", name]));
    cargo.args(args.no_serve.then_some("--no-serve"));
    Ok(run::status(&mut cargo)?.success())
}

/// The page in target/site, without models.
pub fn site(tests: bool) -> Result<PathBuf> {
    fork::materialise_all(false)?;
    let folder = crate::root()?.join("target/site");
    let tools = tools::Tools::find()?;
    build::page(&folder)?;
    let modules = [build::PAGE, build::TESTS];
    let count = if tests { 2 } else { 1 };
    build::modules(&tools, &modules[..count], &folder)?;
    Ok(folder)
}
