//! Builds trees.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::{files, link, patch, upstream, Fork};
use crate::run;

/// The tag of the commit that is upstream's release.
pub const BASE: &str = "upstream";

/// The file in which a tree stores the hash that it was built from and its head at that time.
const STAMP: &str = ".git/xtask-stamp";

pub fn materialise(fork: &Fork, force: bool) -> Result<()> {
    let tree = fork.tree();
    let stamp = Stamp::read(&tree);
    let hash = fork.hash()?;
    if !force && stamp.as_ref().is_some_and(|stamp| stamp.hash == hash) {
        return link::make(&fork.own(), &tree);
    }
    if tree.exists() && !force {
        let head = head(&tree).unwrap_or_default();
        let exported = stamp.is_some_and(|stamp| stamp.head == head);
        if !exported || !clean(&tree)? {
            bail!(
                "{} has edits that are not exported, and the patches have changed. Run `cargo xtask fork export` to \
                 keep the edits, or `cargo xtask fork --force` to discard them",
                tree.display()
            );
        }
    }
    let new = fork.dir.join("tree.new");
    build(fork, &new)?;
    let old = fork.dir.join("tree.old");
    remove(&old)?;
    if tree.exists() {
        keep_times(&tree, &new)?;
        fs::rename(&tree, &old).with_context(|| format!("cannot move {} away", tree.display()))?;
    }
    fs::rename(&new, &tree).with_context(|| format!("cannot create {}", tree.display()))?;
    remove(&old)?;
    let pin = fork.pin()?;
    let count = fork.series()?.len();
    println!("{} {} with {count} patches", fork.name, pin.version);
    Ok(())
}

/// Builds the whole tree in `into`, and replaces it if it exists.
pub fn build(fork: &Fork, into: &Path) -> Result<()> {
    remove(into)?;
    let pin = fork.pin()?;
    let source = upstream::source(&fork.upstream(), fork.name, &pin)?;
    copy_release(&source, into)?;
    run::stdout(run::git(into).args(["init", "--quiet", "--initial-branch=webgpu"]))?;
    commit_release(into, fork.name, &pin.version)?;
    run::stdout(run::git(into).args(["tag", BASE]))?;
    for name in fork.series()? {
        let text = fork.patch(&name)?;
        apply(into, &name, &text).with_context(|| format!("{}/patches/{name}", fork.name))?;
    }
    link::make(&fork.own(), into)?;
    Stamp::write(into, &fork.hash()?)
}

/// Copies a release as cargo unpacked it.
pub fn copy_release(source: &Path, into: &Path) -> Result<()> {
    for file in files(source)? {
        if file == Path::new(".cargo-ok") {
            continue; // cargo's marker
        }
        let to = into.join(&file);
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir)?;
        }
        let bytes = fs::read(source.join(&file))?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

pub fn commit_release(tree: &Path, name: &str, version: &str) -> Result<()> {
    run::stdout(run::git(tree).args(["add", "--all", "--force"]))?;
    commit(tree, &format!("{name} {version}"))
}

fn apply(tree: &Path, name: &str, text: &str) -> Result<()> {
    patch::check(text)?;
    let (header, _) = patch::split(text).context("it contains no diff")?;
    let expected = patch::file_name(header)?;
    if expected != name {
        bail!("its subject names it {expected}");
    }
    let file = tree.join(".git/xtask-patch");
    fs::write(&file, text)?;
    // Without context lines git applies no fuzz: line numbers decide.
    run::stdout(
        run::git(tree)
            .args(["apply", "--index", "--unidiff-zero", "--whitespace=nowarn"])
            .arg(".git/xtask-patch"),
    )?;
    fs::remove_file(&file)?;
    commit(tree, header)
}

/// Commits the index with a fixed date, so that equal trees have equal commits on every machine.
pub fn commit(tree: &Path, message: &str) -> Result<()> {
    let date = "2026-01-01T00:00:00Z";
    run::stdout(
        run::git(tree)
            .env("GIT_AUTHOR_DATE", date)
            .env("GIT_COMMITTER_DATE", date)
            .args(["commit", "--quiet", "--no-verify", "--cleanup=verbatim"])
            .args(["-m", message]),
    )?;
    Ok(())
}

pub fn head(tree: &Path) -> Result<String> {
    let head = run::stdout(run::git(tree).args(["rev-parse", "HEAD"]))?;
    Ok(head.trim().to_owned())
}

/// Whether git reports no changes in a tree.
pub fn clean(tree: &Path) -> Result<bool> {
    let status = run::stdout(run::git(tree).args(["status", "--porcelain"]))?;
    Ok(status.trim().is_empty())
}

/// Unchanged files keep their modification time, so that cargo does not rebuild them.
fn keep_times(old: &Path, new: &Path) -> Result<()> {
    for file in files(new)? {
        let (before, after) = (old.join(&file), new.join(&file));
        if fs::symlink_metadata(&after)?.is_symlink() {
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(&before) else {
            continue;
        };
        if !meta.is_symlink() && fs::read(&before)? == fs::read(&after)? {
            let file = fs::File::options().append(true).open(&after)?;
            file.set_modified(meta.modified()?)?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}

pub struct Stamp {
    hash: String,
    pub head: String,
}

impl Stamp {
    pub fn read(tree: &Path) -> Option<Self> {
        let text = fs::read_to_string(tree.join(STAMP)).ok()?;
        let (hash, head) = text.trim().split_once('\n')?;
        Some(Self {
            hash: hash.to_owned(),
            head: head.to_owned(),
        })
    }

    pub fn write(tree: &Path, hash: &str) -> Result<()> {
        let head = head(tree)?;
        fs::write(tree.join(STAMP), format!("{hash}\n{head}\n"))?;
        Ok(())
    }
}
