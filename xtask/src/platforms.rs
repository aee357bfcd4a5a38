//! `cargo xtask platforms`: type-checks the crates for systems that need not be present.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;

use crate::toolchain::Toolchain;
use crate::{fork, run};

pub const HELP: &str = "\
Check the Rust of candle-webgpu, candle-core with the feature webgpu, and the example llama for other systems, without their SDKs.

  cargo xtask platforms                          all four
  cargo xtask platforms aarch64-apple-darwin     macOS, with the feature metal beside webgpu

The compiler is rustup's, which adds the target, or else Debian's rustc-web, which also has to build the standard library.
C is not compiled: a check links nothing.";

/// The targets, and the features that are added.
const TARGETS: [(&str, &[&str]); 4] = [
    ("aarch64-apple-darwin", &["candle-examples/metal"]),
    ("aarch64-linux-android", &[]),
    ("aarch64-unknown-linux-gnu", &[]),
    ("x86_64-pc-windows-msvc", &[]),
];

#[derive(clap::Args)]
pub struct Args {
    /// The targets to check [default: all]
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.map(|(target, _)| target)))]
    targets: Vec<String>,
}

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    let tool = no_tool(&crate::root()?)?;
    let asked = |target: &str| args.targets.is_empty() || args.targets.iter().any(|t| t == target);
    let mut wrong = Vec::new();
    for (target, features) in TARGETS.into_iter().filter(|(target, _)| asked(target)) {
        let mut cargo = Toolchain::find(target)?.cargo();
        cargo.args(["check", "--target", target]);
        cargo.args(["-p", "candle-webgpu", "-p", "candle-examples"]);
        cargo.args(["--lib", "--bin", "llama"]);
        cargo.args(features.iter().flat_map(|name| ["--features", name]));
        let suffix = target.replace('-', "_");
        for name in ["CC", "AR"] {
            cargo.env(format!("{name}_{suffix}"), &tool);
        }
        if !run::status(&mut cargo)?.success() {
            wrong.push(target);
        }
    }
    match wrong.is_empty() {
        true => println!("the crates check"),
        false => println!("the crates do not check for {}", wrong.join(", ")),
    }
    Ok(wrong.is_empty())
}

/// Stands for the C compiler and the archiver, of which build scripts demand an archive: it makes an empty one.
const NO_TOOL: &str = "\
#!/bin/sh
for word; do
    case $word in *.a | *.lib) : >\"${word#-out:}\" ;; esac
done
";

fn no_tool(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/platforms");
    fs::create_dir_all(&folder)?;
    let path = folder.join("cc");
    fs::write(&path, NO_TOOL).with_context(|| path.display().to_string())?;
    make_executable(&path)?;
    Ok(path)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    anyhow::bail!("cargo xtask platforms needs a Unix shell")
}
