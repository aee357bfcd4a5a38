//! Moves the pin to another release.

use std::fs;

use anyhow::{bail, Context, Result};

use super::{export, tree, upstream, Fork, Pin};
use crate::run;

/// Returns true if every patch was rebased without a conflict.
pub fn rebase(forks: &[Fork], version: &str) -> Result<bool> {
    for fork in forks {
        let tree = fork.tree();
        let exported =
            tree::Stamp::read(&tree).is_some_and(|s| tree::head(&tree).is_ok_and(|h| h == s.head));
        if !exported || !tree::clean(&tree)? {
            bail!(
                "{} has edits that are not exported: run `cargo xtask fork export` first",
                tree.display()
            );
        }
    }
    let mut done = true;
    for fork in forks {
        done &= move_one(fork, version)
            .with_context(|| format!("cannot move {} to {version}", fork.name))?;
    }
    if done {
        println!("Now build and test; the compiler reports matches that lack an arm.");
    }
    Ok(done)
}

fn move_one(fork: &Fork, version: &str) -> Result<bool> {
    let pin = repin(fork, version)?;
    let source = upstream::source(&fork.upstream(), fork.name, &pin)?;
    let tree = fork.tree();
    let worktree = fork.dir.join("tree.base");
    // Commits the new release on top of the old one, in a temporary worktree.
    run::stdout(
        run::git(&tree)
            .args(["worktree", "add", "--quiet", "--force", "--detach"])
            .arg(&worktree)
            .arg(tree::BASE),
    )?;
    let base = (|| {
        run::stdout(run::git(&worktree).args(["rm", "-r", "--quiet", "."]))?;
        tree::copy_release(&source, &worktree)?;
        tree::commit_release(&worktree, fork.name, &pin.version)?;
        tree::head(&worktree)
    })();
    run::stdout(
        run::git(&tree)
            .args(["worktree", "remove", "--force"])
            .arg(&worktree),
    )?;
    let base = base?;
    let old = run::stdout(run::git(&tree).args(["rev-parse", tree::BASE]))?;
    run::stdout(run::git(&tree).args(["tag", "--force", tree::BASE, &base]))?;
    let status = run::status(run::git(&tree).args(["rebase", "--onto", &base, old.trim()]))?;
    if !status.success() {
        println!(
            "{} {version}: a patch conflicts. In {}: resolve it (`git status` shows where), `git add` the files, `git \
             rebase --continue`, and finally `cargo xtask fork export`. To give up: `git rebase --abort`, `git \
             checkout -- {}/upstream` in the repository, and `cargo xtask fork --force`.",
            fork.name,
            tree.display(),
            fork.name
        );
        return Ok(false);
    }
    export::export(fork)?;
    Ok(true)
}

/// Writes the version to the stub's manifest and updates its lock file.
fn repin(fork: &Fork, version: &str) -> Result<Pin> {
    let path = fork.upstream().join("Cargo.toml");
    let old = fork.pin()?;
    let text = fs::read_to_string(&path)?;
    let (from, to) = (format!("\"={}\"", old.version), format!("\"={version}\""));
    if !text.contains(&from) {
        bail!("{} does not contain {from}", path.display());
    }
    fs::write(&path, text.replace(&from, &to))?;
    let mut cargo = run::cargo();
    cargo
        .args(["update", "--quiet", "--manifest-path"])
        .arg(&path);
    cargo.args(["--package", fork.name]);
    if let Err(error) = run::stdout(&mut cargo) {
        fs::write(&path, text)?;
        return Err(error);
    }
    fork.pin()
}
