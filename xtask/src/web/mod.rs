//! `cargo xtask web`: builds and serves a page with language models, from a fresh clone.

pub mod browser;
mod build;
mod tools;

use std::path::PathBuf;

use anyhow::Result;

use crate::{fork, run};

pub const HELP: &str = "\
Build the web page of candle-examples/web with its models and serve it on localhost.

  cargo xtask web                        build, download the models, serve, and print the address
  cargo xtask web --tests                also build the module of test.html
  cargo xtask web --no-serve             only write target/site, which any static file server can serve

The compiler is rustup's, with the target wasm32-unknown-unknown, or else Debian's rustc-web, which also has to build the
standard library. wasm-bindgen is built once, in the version of Cargo.lock. wasm-opt is used if it is installed.";

#[derive(clap::Args)]
pub struct Args {
    /// Also build the module of test.html
    #[arg(long)]
    tests: bool,

    /// A model to offer; may be repeated [default: all]
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,

    /// The port on localhost
    #[arg(long, default_value_t = 8080)]
    port: u16,

    /// Only write target/site
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

/// Builds the page in target/site, without models.
pub fn site(tests: bool) -> Result<PathBuf> {
    fork::materialise_all(false)?;
    let folder = crate::root()?.join("target/site");
    let tools = tools::Tools::find()?;
    build::page(&folder)?;
    let modules = [build::PAGE, build::TESTS];
    let count = if tests { 2 } else { 1 };
    build::modules(&tools, &modules[..count], &folder)?;
    build::list(&folder)?;
    Ok(folder)
}
