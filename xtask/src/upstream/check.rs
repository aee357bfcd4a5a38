//! Whether the series still cover the fork, and what changes on another commit of Candle.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};

use super::base::Base;
use super::series::{folder, Series, NAMES};
use super::source::Source;
use super::write::{self, BASE};
use super::{merge, table, verify};
use crate::run;

/// Returns the number of commits that are right and of series that are not.
pub fn run(only: Option<&str>, repo: Option<(&Path, &str)>) -> Result<(usize, usize)> {
    let (mut passed, mut failed) = (0, 0);
    for name in NAMES
        .iter()
        .filter(|name| only.is_none_or(|only| only == **name))
    {
        let series = Series::read(name)?;
        let scratch = crate::root()?.join("xtask/target/upstream").join(name);
        remove(&scratch)?;
        let result = match repo {
            Some((path, onto)) => moved(&scratch, &series, path, onto),
            None => complete(&scratch.join("branch"), &series),
        };
        match result {
            Ok(()) => {
                println!("{name}: {} commits", series.steps.len());
                passed += series.steps.len();
            }
            Err(error) => {
                println!("{name}: {error:#}");
                failed += 1;
            }
        }
        remove(&scratch)?;
    }
    Ok((passed, failed))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}

/// Writes the series onto the pinned crates and compares its last commit with the fork.
fn complete(dir: &Path, series: &Series) -> Result<()> {
    ensure!(
        write::run(dir, series, Some(Base::PinnedCrates))?,
        "a commit conflicts with the pinned crates"
    );
    for ((hash, _), step) in table::commits(dir)?.iter().zip(&series.steps) {
        let added = table::size(dir, hash)?.added();
        let (name, limit) = (&step.name, series.limit);
        ensure!(
            added <= limit,
            "the commit {name} adds {added} lines, more than {limit}"
        );
    }
    // What edits and lines for this repository alone leave the same must be equal.
    let source = Source::read(series)?;
    let last = source.finished()?;
    let edited = series.edited();
    let differ = |path: &str, text: &str| -> Result<bool> {
        let branch =
            fs::read_to_string(dir.join(path)).with_context(|| format!("{path} is missing"))?;
        Ok(branch != text)
    };
    let mut wrong = Vec::new();
    for (path, text) in last {
        let expected = if path.ends_with(".rs") {
            merge::format(text)?
        } else {
            text
        };
        if !edited.iter().any(|file| super::series::covers(file, &path))
            && differ(&path, &expected)?
        {
            wrong.push(path);
        }
    }
    ensure!(
        wrong.is_empty(),
        "the last commit differs from the fork in {}",
        wrong.join(", ")
    );
    letters(series)?;
    lint(dir, series)
}

/// Each commit compiles without warnings, with the tests that it has. Only candle-webgpu's: `--verify` checks the other crates, too.
fn lint(dir: &Path, series: &Series) -> Result<()> {
    let target = crate::root()?.join("target/upstream");
    let line = format!(
        "cargo clippy --package candle-webgpu --tests --target-dir {:?} -- -D warnings",
        target.display().to_string()
    );
    for ((hash, _), step) in table::commits(dir)?.iter().zip(&series.steps) {
        run::stdout(run::git(dir).args(["checkout", "--quiet", "--detach", hash]))?;
        if dir.join("candle-webgpu").exists() {
            println!("{}: {}: cargo clippy", series.name, step.name);
            let (passed, _) = verify::check(dir, &line)?;
            ensure!(passed, "the commit {} does not compile", step.name);
        }
    }
    Ok(())
}

/// Every letter is there, and belongs to a step.
fn letters(series: &Series) -> Result<()> {
    for step in &series.steps {
        write::message(step)?;
    }
    for entry in fs::read_dir(folder()?.join(&series.name))? {
        let letter = format!("{}/{}", series.name, entry?.file_name().to_string_lossy());
        ensure!(
            series.steps.iter().any(|step| step.letter == letter),
            "no step has the letter {letter}"
        );
    }
    Ok(())
}

/// Applies all commits onto another commit of Candle, through conflicts, and reports what moved.
fn moved(scratch: &Path, series: &Series, path: &Path, onto: &str) -> Result<()> {
    let (dir, pinned) = (&scratch.join("branch"), &scratch.join("pinned"));
    let source = Source::read(series)?;
    fs::create_dir_all(scratch)?;
    Base::Repository { path, onto }.create(dir, &series.branch())?;
    let mut conflicts: BTreeMap<String, usize> = BTreeMap::new();
    for (index, step) in series.steps.iter().enumerate() {
        for (file, count) in write::apply(dir, series, &source, index)? {
            println!("{}: {file}: {count} conflicts", step.name);
            *conflicts.entry(file).or_default() += count;
        }
        write::commit(dir, step)?;
    }
    write::run(pinned, series, Some(Base::PinnedCrates))?;
    let (mut same, mut offset) = (0, 0);
    for file in source.forked_files() {
        if conflicts.contains_key(file) {
            continue;
        }
        let (here, there) = (hunks(dir, file)?, hunks(pinned, file)?);
        let kept = here.iter().filter(|hunk| there.contains(hunk)).count();
        same += kept;
        offset += here.len() - kept;
    }
    let regions: usize = conflicts.values().sum();
    println!(
        "{}: {same} hunks at their lines, {offset} moved, {regions} conflicts in {} files",
        series.name,
        conflicts.len()
    );
    Ok(())
}

/// The first new line of each hunk of a file.
fn hunks(dir: &Path, file: &str) -> Result<Vec<String>> {
    let diff = run::stdout(run::git(dir).args(["diff", "--unified=0", BASE, "HEAD", "--", file]))?;
    let hunk = |line: &str| {
        line.strip_prefix("@@ -")
            .and_then(|rest| rest.split(' ').next())
            .map(str::to_owned)
    };
    Ok(diff.lines().filter_map(hunk).collect())
}
