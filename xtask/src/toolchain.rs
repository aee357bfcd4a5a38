//! Finds a compiler for another target than this system.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::{apt, run};

/// Debian's compiler for wasm, with the source of the standard library, which it has to build. `rust-web-llvm` installs
/// the symlink [`LINKER`], but not the linker.
const PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm"];
const DISTRIBUTION: &str = "/usr/bin";

/// A symlink to the linker of Debian's compiler: `lld-22` for LLVM 22, from the package of that name.
pub const LINKER: &str = "/usr/bin/rust-lld";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Toolchain {
    /// The default compiler has the target.
    Own,
    /// The distribution's compiler, which also has to build the standard library.
    Distribution,
}

impl Toolchain {
    pub fn find(target: &str) -> Result<Self> {
        if has_target(target) {
            return Ok(Toolchain::Own);
        }
        if apt::on_path("rustup") {
            let added = run::stdout(Command::new("rustup").args(["target", "add", target]));
            if added.is_ok() && has_target(target) {
                return Ok(Toolchain::Own);
            }
        }
        let reason =
            format!("rustup cannot add {target}; installing Debian's compiler for other targets");
        if has_distribution() || (apt::install(&PACKAGES, &reason)? && has_distribution()) {
            return Ok(Toolchain::Distribution);
        }
        bail!(
            "the compiler has no target {target}: `rustup target add {target}`, or on Debian `apt-get install {}`",
            PACKAGES.join(" ")
        )
    }

    /// The cargo that builds for the target.
    pub fn cargo(self) -> Command {
        let cargo = run::cargo();
        if self == Toolchain::Own {
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
        other
    }
}

/// cargo of another version of Rust. rustup installs it if necessary.
pub fn cargo_of(version: &str) -> Result<Command> {
    let mut rustc = Command::new("rustup");
    if run::stdout(rustc.args(["run", version, "rustc", "--version"])).is_err() {
        let mut rustup = Command::new("rustup");
        rustup.args(["toolchain", "install", version, "--profile", "minimal"]);
        run::stdout(&mut rustup).with_context(|| format!("Rust {version} is needed"))?;
    }
    let mut cargo = Command::new("rustup");
    cargo.args(["run", version, "cargo"]);
    run::prepare(&mut cargo);
    Ok(cargo)
}

fn has_target(target: &str) -> bool {
    let sysroot = run::stdout(run::rustc().args(["--print", "sysroot"]));
    sysroot.is_ok_and(|dir| {
        let dir = Path::new(dir.trim()).join("lib/rustlib").join(target);
        dir.join("lib").exists()
    })
}

fn has_distribution() -> bool {
    let sources = Path::new("/usr/lib/rustlib/src/rust/library/std");
    let programs = ["cargo", "rustc"].map(|name| Path::new(DISTRIBUTION).join(name));
    let linker = fs::read_link(LINKER).is_ok();
    linker && sources.exists() && programs.iter().all(|p| p.exists())
}
