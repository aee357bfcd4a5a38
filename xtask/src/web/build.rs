//! Builds the folder of static files that a server can serve.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use serde_json::Value;

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
    limit: 8_000_000,
};

pub const TESTS: Module = Module {
    package: "candle-webgpu-web-tests",
    folder: "pkg-tests",
    limit: u64::MAX,
};

/// Copies the static files: the page, and the npm package that it uses.
pub fn page(site: &Path) -> Result<()> {
    let web = crate::root()?.join("candle-examples/web");
    copy(&web.join("site"), site)?;
    copy(&web.join(PAGE.folder), &site.join(PAGE.folder))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let (path, to) = match entry {
            Ok(entry) => (entry.path(), to.join(entry.file_name())),
            Err(error) => return Err(error.into()),
        };
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}

/// Lists the files that the service worker keeps for use without a network: all but tests and models.
pub fn list(site: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(site).sort_by_file_name() {
        let entry = entry?;
        let name = entry.path().strip_prefix(site)?.to_string_lossy();
        let name = name.replace('\\', "/");
        let other = ["models/", "models.json", "pkg-tests/", "test", LIST];
        if entry.file_type().is_file() && !other.iter().any(|part| name.starts_with(part)) {
            files.push(name);
        }
    }
    let path = site.join(LIST);
    fs::write(&path, serde_json::to_string_pretty(&files)?).context(LIST)
}

const LIST: &str = "files.json";

/// Builds modules and puts them beside the page. One cargo command builds all, since they share their dependencies.
pub fn modules(tools: &Tools, modules: &[Module], site: &Path) -> Result<()> {
    let mut cargo = tools.cargo();
    cargo.args(["build", "--lib", "--profile", "web", "--target", TARGET]);
    cargo.args(modules.iter().flat_map(|module| ["-p", module.package]));
    if !run::status(&mut cargo)?.success() {
        bail!("the wasm modules do not build");
    }
    let built = target_dir(tools)?.join(TARGET).join("web");
    modules
        .iter()
        .try_for_each(|m| bind(tools, m, &built, site))
}

/// The folder that cargo builds in. `CARGO_TARGET_DIR` or cargo's configuration may name another one than ./target.
fn target_dir(tools: &Tools) -> Result<PathBuf> {
    let mut cargo = tools.cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&run::stdout(&mut cargo)?)?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder.context("cargo names no target directory")?.into())
}

/// Runs wasm-bindgen and wasm-opt on a built module.
fn bind(tools: &Tools, module: &Module, built: &Path, site: &Path) -> Result<()> {
    let name = module.package.replace('-', "_");
    let built = built.join(&name).with_extension("wasm");
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
