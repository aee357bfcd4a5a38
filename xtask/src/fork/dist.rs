//! Writes complete crates to a folder, to vendor the fork or to publish a branch of it.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::{files, Fork};
use crate::run;

pub fn dist(forks: &[Fork], dir: &Path) -> Result<()> {
    if dir.exists() && fs::read_dir(dir)?.next().is_some() {
        bail!("{} is not empty", dir.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for fork in forks {
        crate_of(fork, &dir.join(fork.name))?;
    }
    runtime(dir)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        for name in ["candle-core", "candle-nn", "candle-webgpu"] {
            fs::copy(crate::root()?.join(licence), dir.join(name).join(licence))?;
        }
    }
    let path = |name: &str| {
        let full = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
        full.join(name).display().to_string().replace('\\', "/")
    };
    println!("To use it, add to your Cargo.toml:\n\n[patch.crates-io]");
    for fork in forks {
        println!("{} = {{ path = \"{}\" }}", fork.name, path(fork.name));
    }
    Ok(())
}

/// Copies a tree, with links replaced by files, and adjusts its path to candle-webgpu.
fn crate_of(fork: &Fork, to: &Path) -> Result<()> {
    let tree = fork.tree();
    let skip = ["Cargo.lock", ".cargo_vcs_info.json", "Cargo.toml.orig"];
    for file in files(&tree)? {
        if file.starts_with("target") || skip.iter().any(|name| file == Path::new(name)) {
            continue;
        }
        let target = to.join(&file);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(tree.join(&file), &target)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(
        &manifest,
        text.replace("../../candle-webgpu", "../candle-webgpu"),
    )?;
    Ok(())
}

/// Unpacks candle-webgpu as packaged by cargo, which needs no workspace and contains the shaders as real files.
fn runtime(dir: &Path) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.args(["package", "--quiet", "--package", "candle-webgpu"]);
    cargo.args(["--no-verify", "--allow-dirty", "--exclude-lockfile"]);
    run::stdout(&mut cargo)?;
    let archives = crate::root()?.join("target/package");
    let archive = newest(&archives)?;
    run::stdout(
        std::process::Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(dir),
    )?;
    let name = archive.file_stem().context("an archive has no name")?;
    let to = dir.join("candle-webgpu");
    fs::rename(dir.join(name), &to)?;
    if !to.join("wgsl").is_dir() {
        bail!("the packaged candle-webgpu lacks its shaders");
    }
    Ok(())
}

fn newest(archives: &Path) -> Result<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.starts_with("candle-webgpu-") && name.ends_with(".crate")) {
            found.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    found.sort();
    let (_, path) = found.pop().context("cargo package wrote no archive")?;
    Ok(path)
}
