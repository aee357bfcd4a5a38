//! What it takes to build for browsers: a compiler with the target, wasm-bindgen, and wasm-opt where there is one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::{apt, run};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler for browsers, which has no standard library for them but its source. The last brings the name of the
/// linker, [`LINKER`], but not the linker.
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm"];
const DISTRIBUTION: &str = "/usr/bin";

/// A link to a program, `lld-22` for a compiler of LLVM 22, which is in the package of that name.
const LINKER: &str = "/usr/bin/rust-lld";

enum Compiler {
    /// The one that runs us has the target.
    Own,
    /// The distribution's, which builds the standard library, too.
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
        // All that have WebGPU have it; the CPU's products are four times as fast.
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
        // Its channel is stable, and building the standard library is not.
        other.env("RUSTC_BOOTSTRAP", "1");
        other.env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort");
        other.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        other.env("RUSTFLAGS", flags);
        other
    }

    /// Makes a module smaller where there is a wasm-opt that understands it.
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
                eprintln!("left as it is: {error:#}");
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
    let reason = "rustup gives no target for browsers; installing Debian's compiler for them";
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
        bail!("{LINKER} is a link to nothing: on Debian `apt-get install {package}`");
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

/// wasm-bindgen at the version of Cargo.lock: another does not understand the module.
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
    // Not into our own target folder: its profiles and features are others.
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
