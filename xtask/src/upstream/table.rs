//! The sizes of a series' commits.

use std::path::Path;

use anyhow::{Context, Result};

use super::series::Series;
use super::write::BASE;
use crate::run;

/// Lines that a commit changes.
#[derive(Default)]
pub struct Size {
    /// Lines added to existing files.
    pub existing: usize,
    pub files: usize,
    pub removed: usize,
    /// Lines of new files.
    pub new: usize,
    pub new_files: usize,
}

impl Size {
    pub fn added(&self) -> usize {
        self.existing + self.new
    }
}

/// The commits of a branch, oldest first: hash and subject.
pub fn commits(dir: &Path) -> Result<Vec<(String, String)>> {
    let range = format!("{BASE}..HEAD");
    let log = run::stdout(run::git(dir).args(["log", "--reverse", "--format=%h %s", &range]))?;
    let split = |line: &str| {
        line.split_once(' ')
            .map(|(hash, subject)| (hash.to_owned(), subject.to_owned()))
    };
    Ok(log.lines().filter_map(split).collect())
}

pub fn size(dir: &Path, commit: &str) -> Result<Size> {
    let git = |args: &[&str]| run::stdout(run::git(dir).args(args));
    let parent = format!("{commit}^");
    let new = git(&["diff", "--name-only", "--diff-filter=A", &parent, commit])?;
    let mut size = Size::default();
    for line in git(&["diff", "--numstat", &parent, commit])?.lines() {
        let mut fields = line.split('\t');
        let mut number = || {
            fields
                .next()
                .and_then(|n| n.parse::<usize>().ok())
                .unwrap_or(0)
        };
        let (added, removed) = (number(), number());
        let name = fields.next().context("git diff names no file")?;
        if new.lines().any(|other| other == name) {
            size.new += added;
            size.new_files += 1;
        } else {
            size.existing += added;
            size.removed += removed;
            size.files += 1;
        }
    }
    Ok(size)
}

pub fn print(dir: &Path, series: &Series) -> Result<()> {
    println!(
        "| commit | step | existing files | lines added | removed | new files | lines | title |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---|");
    for ((hash, title), step) in commits(dir)?.iter().zip(&series.steps) {
        let s = size(dir, hash)?;
        println!(
            "| {hash} | {} | {} | {} | {} | {} | {} | {title} |",
            step.name, s.files, s.existing, s.removed, s.new_files, s.new
        );
    }
    println!(
        "{} of upstream/series.toml: {} regions",
        series.name,
        series.regions()
    );
    Ok(())
}
