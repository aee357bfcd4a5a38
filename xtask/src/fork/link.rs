//! Links our own files into a tree. Systems without symlinks get copies, which every run updates.

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

/// Links every file of `own` into the tree's src/ and makes the tree's git ignore it. Later calls add new files, remove
/// deleted ones and update copies.
pub fn make(own: &Path, tree: &Path) -> Result<()> {
    let exclude_file = tree.join(".git/info/exclude");
    let old = fs::read_to_string(&exclude_file).unwrap_or_default();
    let mut exclude = String::from("/target\n");
    for file in list(own)? {
        let line = format!("/src/{}\n", slashes(&file));
        let (from, to) = (own.join(&file), tree.join("src").join(&file));
        match fs::symlink_metadata(&to) {
            Ok(_) if !old.contains(&line) => {
                bail!("upstream also has a file src/{}", file.display())
            }
            Ok(meta) if meta.is_symlink() => {}
            Ok(_) => {
                if fs::read(&from)? != fs::read(&to)? {
                    fs::copy(&from, &to)?;
                }
            }
            Err(_) => {
                if let Some(dir) = to.parent() {
                    fs::create_dir_all(dir)?;
                }
                place(&target(own, tree, &file), &from, &to)?;
            }
        }
        exclude.push_str(&line);
    }
    if exclude == old {
        return Ok(());
    }
    for line in old.lines().filter(|line| line.starts_with("/src/")) {
        if !exclude.lines().any(|other| other == line) {
            let gone = tree.join(&line[1..]);
            if fs::symlink_metadata(&gone).is_ok() {
                fs::remove_file(&gone)?;
            }
        }
    }
    fs::create_dir_all(tree.join(".git/info"))?;
    fs::write(&exclude_file, exclude)
        .with_context(|| format!("cannot write {}", exclude_file.display()))
}

/// The target of a link. It is relative if the tree is beside src/, so that the repository can be moved.
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
            .with_context(|| format!("cannot copy {} into the tree", from.display()))?;
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
