//! Finds the tools for browser builds: a compiler with the wasm target, wasm-bindgen and, if installed, wasm-opt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::toolchain::{Toolchain, LINKER};
use crate::{apt, run};

pub const TARGET: &str = "wasm32-unknown-unknown";

pub struct Tools {
    toolchain: Toolchain,
    pub bindgen: PathBuf,
}

impl Tools {
    pub fn find() -> Result<Self> {
        Ok(Self {
            toolchain: toolchain()?,
            bindgen: bindgen()?,
        })
    }

    /// The cargo that builds for browsers.
    pub fn cargo(&self) -> Command {
        let mut cargo = self.toolchain.cargo();
        // Every browser with WebGPU has SIMD. CPU matmuls are four times as fast with it.
        cargo.env("RUSTFLAGS", "-C target-feature=+simd128");
        cargo
    }

    /// Shrinks a module with wasm-opt, if one is installed that can read it.
    pub fn optimise(&self, path: &Path) -> Result<()> {
        if !apt::on_path("wasm-opt") {
            return Ok(());
        }
        let smaller = path.with_extension("smaller");
        let mut command = Command::new("wasm-opt");
        command.args(["-Os", "--all-features"]).arg(path);
        let done = run::stdout(command.arg("-o").arg(&smaller));
        match done {
            Ok(_) => fs::rename(&smaller, path).with_context(|| path.display().to_string()),
            Err(error) => {
                eprintln!("wasm-opt failed, so the module stays as built: {error:#}");
                Ok(())
            }
        }
    }
}

/// A toolchain with a linker.
fn toolchain() -> Result<Toolchain> {
    let found = Toolchain::find(TARGET)?;
    if found == Toolchain::Own || Path::new(LINKER).exists() {
        return Ok(found);
    }
    let package = fs::read_link(LINKER).with_context(|| LINKER.to_string())?;
    let package = package.to_string_lossy();
    apt::install(&[&package], "That compiler's linker is missing")?;
    if !Path::new(LINKER).exists() {
        bail!("{LINKER} is a dangling symlink: on Debian `apt-get install {package}`");
    }
    Ok(found)
}

/// wasm-bindgen in the version of Cargo.lock; other versions reject the module.
fn bindgen() -> Result<PathBuf> {
    let version = locked("wasm-bindgen")?;
    let has = |path: &Path| {
        run::stdout(Command::new(path).arg("--version"))
            .is_ok_and(|text| text.split_whitespace().nth(1) == Some(version.as_str()))
    };
    let own = crate::root()?.join("target/tools");
    let path = own.join("bin/wasm-bindgen");
    for path in [&path, Path::new("wasm-bindgen")] {
        if has(path) {
            return Ok(path.to_path_buf());
        }
    }
    eprintln!("installing wasm-bindgen {version} in {}", own.display());
    let mut cargo = run::cargo();
    cargo.args([
        "install",
        "--quiet",
        "wasm-bindgen-cli",
        "--version",
        &version,
    ]);
    // Not in our own target folder, whose profiles and features differ.
    cargo.arg("--root").arg(&own).env_remove("CARGO_TARGET_DIR");
    // It runs for seconds, but takes minutes to compile.
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    if !run::status(&mut cargo)?.success() || !has(&path) {
        bail!("cargo install wasm-bindgen-cli --version {version} failed");
    }
    Ok(path)
}

fn locked(name: &str) -> Result<String> {
    let path = crate::root()?.join("Cargo.lock");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let wanted = format!("name = \"{name}\"\nversion = \"");
    let rest = text.split_once(&wanted).map(|(_, rest)| rest);
    let version = rest.and_then(|rest| rest.split_once('"'));
    let version = version.with_context(|| format!("Cargo.lock has no {name}"))?;
    Ok(version.0.to_string())
}
