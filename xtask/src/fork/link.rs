//! Our own files in a tree: links where the system can link, else copies that are renewed on every run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use super::files;

/// The files of src/, relative to it.
pub fn list(own: &Path) -> Result<Vec<PathBuf>> {
    if own.is_dir() {
        files(own)
    } else {
        Ok(Vec::new())
    }
}

/// Puts every file of `own` into the tree's src/ and tells the tree's git to overlook them.
pub fn make(own: &Path, tree: &Path) -> Result<()> {
    let mut exclude = String::new();
    for file in list(own)? {
        let to = tree.join("src").join(&file);
        if to.exists() {
            bail!("upstream has a file src/{} of its own", file.display());
        }
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        place(&target(own, tree, &file), &own.join(&file), &to)?;
        exclude.push_str(&format!("/src/{}\n", slashes(&file)));
    }
    let info = tree.join(".git/info");
    fs::create_dir_all(&info)?;
    fs::write(info.join("exclude"), exclude + "/Cargo.lock.new\n/target\n")?;
    Ok(())
}

/// Renews copies that are out of date; links need nothing.
pub fn refresh(own: &Path, tree: &Path) -> Result<()> {
    for file in list(own)? {
        let (from, to) = (own.join(&file), tree.join("src").join(&file));
        match fs::symlink_metadata(&to) {
            Ok(meta) if meta.is_symlink() => {}
            Ok(_) => {
                if fs::read(&from)? != fs::read(&to)? {
                    fs::copy(&from, &to)?;
                }
            }
            Err(_) => place(&target(own, tree, &file), &from, &to)?,
        }
    }
    Ok(())
}

/// What a link says: a relative path where the tree lies beside src/, so that the repository can be moved.
fn target(own: &Path, tree: &Path, file: &Path) -> PathBuf {
    if own.parent() != tree.parent() {
        return own.join(file);
    }
    let up: PathBuf = file.components().map(|_| "..").collect();
    up.join("..").join("src").join(file)
}

fn place(target: &Path, from: &Path, to: &Path) -> Result<()> {
    if symlink(target, to).is_err() {
        fs::copy(from, to)
            .with_context(|| format!("cannot put {} into the tree", from.display()))?;
    }
    Ok(())
}

#[cfg(unix)]
fn symlink(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(windows)]
fn symlink(from: &Path, to: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(from, to)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
