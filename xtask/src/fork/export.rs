//! Exports the commits of a tree to patches/.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::{patch, tree, Fork};
use crate::run;

/// The file names and texts of a tree's patches, in order.
pub fn patches(tree: &Path) -> Result<Vec<(String, String)>> {
    let range = format!("{}..HEAD", tree::BASE);
    let commits = run::stdout(run::git(tree).args(["rev-list", "--reverse", &range]))?;
    let mut patches: Vec<(String, String)> = Vec::new();
    for commit in commits.lines() {
        let message = run::stdout(run::git(tree).args(["log", "-1", "--format=%B", commit]))?;
        let message = message.trim();
        let parent = format!("{commit}^");
        let diff = run::stdout(run::git(tree).args([
            "diff",
            "--unified=0",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            &parent,
            commit,
        ]))?;
        let subject = message.lines().next().unwrap_or_default();
        let name = patch::file_name(message)?;
        if diff.is_empty() {
            bail!("the commit {subject:?} changes nothing");
        }
        if patches.iter().any(|(other, _)| *other == name) {
            bail!("two commits are called {name}: squash them, or rename one");
        }
        let text = format!("{message}\n\n{}", patch::body(&diff));
        patch::check(&text).with_context(|| format!("the commit {subject:?}"))?;
        patches.push((name, text));
    }
    Ok(patches)
}

pub fn export(fork: &Fork) -> Result<()> {
    let tree = fork.tree();
    if !tree.exists() {
        bail!("{} does not exist: run `cargo xtask fork`", tree.display());
    }
    if tree.join(".git/rebase-merge").exists() {
        bail!(
            "a rebase is in progress in {}: finish it first",
            tree.display()
        );
    }
    if !tree::clean(&tree)? {
        bail!(
            "{} has uncommitted changes: commit them there first (git commit --amend, or a new commit)",
            tree.display()
        );
    }
    let patches = patches(&tree)?;
    let dir = fork.patches();
    let mut written = 0;
    let mut series = String::new();
    for (name, text) in &patches {
        series.push_str(name);
        series.push('\n');
        written += usize::from(write(&dir.join(name), text)?);
    }
    written += usize::from(write(&dir.join("series"), &series)?);
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".patch") && !patches.iter().any(|(other, _)| *other == name) {
            fs::remove_file(entry.path())?;
            println!("{}: removed {name}", fork.name);
        }
    }
    tree::Stamp::write(&tree, &fork.hash()?)?;
    let count = patches.len();
    println!("{}: {count} patches, {written} files written", fork.name);
    Ok(())
}

/// Writes a file if its text differs; returns whether it did.
fn write(path: &Path, text: &str) -> Result<bool> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}
