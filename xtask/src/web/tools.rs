//! Finds the tools for browser builds: a compiler with the wasm target, wasm-bindgen and, if installed, wasm-opt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::{apt, run};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler for wasm, with the source of the standard library, which it has to build. `rust-web-llvm` installs
/// the symlink [`LINKER`], but not the linker.
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm"];
const DISTRIBUTION: &str = "/usr/bin";

/// A symlink to the linker: `lld-22` for LLVM 22, from the package of that name.
const LINKER: &str = "/usr/bin/rust-lld";

enum Compiler {
    /// The default compiler has the target.
    Own,
    /// The distribution's compiler, which also has to build the standard library.
    Distribution,
}

pub struct Tools {
    compiler: Compiler,
    pub bindgen: PathBuf,
}

impl Tools {
    pub fn find() -> Result<Self> {
        Ok(Self {
            compiler: compiler()?,
            bindgen: bindgen()?,
        })
    }

    /// The cargo that builds for browsers.
    pub fn cargo(&self) -> Command {
        let mut cargo = run::cargo();
        // Every browser with WebGPU has SIMD. CPU matmuls are four times as fast with it.
        let flags = "-C target-feature=+simd128";
        if let Compiler::Own = self.compiler {
            cargo.env("RUSTFLAGS", flags);
            return cargo;
        }
        let mut other = Command::new(Path::new(DISTRIBUTION).join("cargo"));
        if let Some(dir) = cargo.get_current_dir() {
            other.current_dir(dir);
        }
        other.env("RUSTC", Path::new(DISTRIBUTION).join("rustc"));
        // Building the standard library is unstable, and this compiler is stable.
        other.env("RUSTC_BOOTSTRAP", "1");
        other.env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort");
        other.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        other.env("RUSTFLAGS", flags);
        other
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

fn compiler() -> Result<Compiler> {
    if has_target() {
        return Ok(Compiler::Own);
    }
    if apt::on_path("rustup") {
        let added = run::stdout(Command::new("rustup").args(["target", "add", TARGET]));
        if added.is_ok() && has_target() {
            return Ok(Compiler::Own);
        }
    }
    let reason = "rustup cannot add the wasm target; installing Debian's compiler for it";
    if has_distribution() || (apt::install(&PACKAGES, reason)? && has_distribution()) {
        if Path::new(LINKER).exists() {
            return Ok(Compiler::Distribution);
        }
        let package = fs::read_link(LINKER).with_context(|| LINKER.to_string())?;
        let package = package.to_string_lossy();
        apt::install(&[&package], "That compiler's linker is missing")?;
        if Path::new(LINKER).exists() {
            return Ok(Compiler::Distribution);
        }
        bail!("{LINKER} is a dangling symlink: on Debian `apt-get install {package}`");
    }
    bail!(
        "the compiler has no target {TARGET}: `rustup target add {TARGET}`, or on Debian `apt-get install {}`",
        PACKAGES.join(" ")
    )
}

fn has_target() -> bool {
    let sysroot = run::stdout(run::rustc().args(["--print", "sysroot"]));
    sysroot.is_ok_and(|dir| {
        let dir = Path::new(dir.trim()).join("lib/rustlib").join(TARGET);
        dir.join("lib").exists()
    })
}

fn has_distribution() -> bool {
    let sources = Path::new("/usr/lib/rustlib/src/rust/library/std");
    let programs = ["cargo", "rustc"].map(|name| Path::new(DISTRIBUTION).join(name));
    let linker = fs::read_link(LINKER).is_ok();
    linker && sources.exists() && programs.iter().all(|p| p.exists())
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
