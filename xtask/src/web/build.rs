//! Builds the folder of static files that a server can serve.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, Context, Result};

use super::tools::{Tools, TARGET};
use crate::run;

/// A wasm module.
pub struct Module {
    package: &'static str,
    /// Its folder beside the page.
    folder: &'static str,
    /// The largest accepted size, uncompressed.
    limit: u64,
}

pub const PAGE: Module = Module {
    package: "candle-web",
    folder: "pkg",
    limit: 7_100_000,
};

pub const TESTS: Module = Module {
    package: "candle-webgpu-web-tests",
    folder: "pkg-tests",
    limit: u64::MAX,
};

/// Copies the static files.
pub fn page(site: &Path) -> Result<()> {
    let from = crate::root()?.join("candle-examples/web/site");
    fs::create_dir_all(site).with_context(|| site.display().to_string())?;
    for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        fs::copy(entry.path(), site.join(entry.file_name()))?;
    }
    Ok(())
}

/// Builds modules and puts them beside the page. One cargo command builds all, since they share their dependencies.
pub fn modules(tools: &Tools, modules: &[Module], site: &Path) -> Result<()> {
    let mut cargo = tools.cargo();
    cargo.args(["build", "--lib", "--profile", "web", "--target", TARGET]);
    cargo.args(modules.iter().flat_map(|module| ["-p", module.package]));
    if !run::status(&mut cargo)?.success() {
        bail!("the wasm modules do not build");
    }
    modules.iter().try_for_each(|m| bind(tools, m, site))
}

/// Runs wasm-bindgen and wasm-opt on a built module.
fn bind(tools: &Tools, module: &Module, site: &Path) -> Result<()> {
    let name = module.package.replace('-', "_");
    let built = format!("target/{TARGET}/web/{name}.wasm");
    let built = crate::root()?.join(built);
    let folder = site.join(module.folder);
    let mut bindgen = Command::new(&tools.bindgen);
    bindgen.args([
        "--target",
        "web",
        "--no-typescript",
        "--remove-name-section",
    ]);
    bindgen.arg("--out-dir").arg(&folder).arg(&built);
    if !run::status(&mut bindgen)?.success() {
        bail!("wasm-bindgen failed on {}", built.display());
    }
    let path = folder.join(format!("{name}_bg.wasm"));
    tools.optimise(&path)?;
    let size = fs::metadata(&path)?.len();
    println!("{}: {:.2} MB", path.display(), size as f64 / 1e6);
    if size > module.limit {
        bail!("the module has {size} bytes, more than {}", module.limit);
    }
    Ok(())
}
