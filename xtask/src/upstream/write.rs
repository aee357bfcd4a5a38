//! Writes a series: one commit per step.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use super::base::{self, Base};
use super::series::{covers, folder, Edit, Series, Step};
use super::source::{Change, Source};
use super::{edit, merge};
use crate::run;

/// The tag of the commit that a branch starts from.
pub const BASE: &str = "webgpu-base";

/// Conflicts by file.
pub type Conflicts = BTreeMap<String, usize>;

/// The number of commits that `dir` already has of a series; `None` if it is not a branch of it.
pub fn written(dir: &Path, series: &Series) -> Result<Option<usize>> {
    if !dir.join(".git").exists() {
        return Ok(None);
    }
    let head = run::stdout(run::git(dir).args(["branch", "--show-current"]))?;
    if head.trim() != series.branch() {
        return Ok(None);
    }
    let range = format!("{BASE}..HEAD");
    let count = run::stdout(run::git(dir).args(["rev-list", "--count", &range]))?;
    Ok(Some(count.trim().parse()?))
}

/// Writes all commits, or those that are missing. Returns false after a conflict, which stays in the working tree.
pub fn run(dir: &Path, series: &Series, base: Option<Base<'_>>) -> Result<bool> {
    let source = Source::read(series)?;
    let first = match base {
        Some(base) => {
            base.create(dir, &series.branch())?;
            0
        }
        None => written(dir, series)?
            .with_context(|| format!("{} has no branch {}", dir.display(), series.branch()))?,
    };
    let changed = run::stdout(run::git(dir).args(["status", "--porcelain"]))?;
    ensure!(
        changed.trim().is_empty(),
        "{} has changes that are not committed",
        dir.display()
    );
    for (index, step) in series.steps.iter().enumerate().skip(first) {
        let conflicts = apply(dir, series, &source, index)?;
        if !conflicts.is_empty() {
            for (file, count) in &conflicts {
                println!("{file}: {count} conflicts");
            }
            println!(
                "The commit {} of {} conflicts. In {}: resolve the marked lines, `git add --all`, `git commit`; then run this \
                 command with --continue.",
                step.name,
                series.name,
                dir.display()
            );
            fs::write(dir.join(".git/COMMIT_EDITMSG"), message(step)?)?;
            return Ok(false);
        }
        commit(dir, step)?;
    }
    Ok(true)
}

/// Brings the working tree to a step. Conflicts are marked in the files.
pub fn apply(dir: &Path, series: &Series, source: &Source<'_>, index: usize) -> Result<Conflicts> {
    let mut conflicts = Conflicts::new();
    let mut texts = BTreeMap::new();
    for Change {
        path,
        before,
        after,
    } in source.changes(index)?
    {
        let own = source.is_own(&path);
        let formatted = |text: String| match own {
            true => formatted(&path, text),
            false => Ok(text),
        };
        let (before, after) = (before.map(formatted).transpose()?, formatted(after)?);
        let current = fs::read_to_string(dir.join(&path)).ok();
        let text = match (before, current) {
            (None, None) => after,
            (Some(before), Some(current)) => {
                let scratch = dir.join(".git/xtask-merge");
                let (text, count) = merge::three_way(&current, &before, &after, &scratch)?;
                if count > 0 {
                    conflicts.insert(path.clone(), count);
                }
                text
            }
            (Some(_), None) => bail!("{path} is not in {}", dir.display()),
            (None, Some(_)) => bail!("{path} is already in {}", dir.display()),
        };
        texts.insert(path, text);
    }
    let all = base::paths(dir)?;
    for edit in series.edits(index) {
        edited(dir, edit, &all, &mut texts)?;
    }
    for (path, text) in texts {
        let to = dir.join(&path);
        // Files that were not formatted before stay so.
        let clean = match fs::read_to_string(&to) {
            Ok(old) => formatted(&path, old.clone())? == old,
            Err(_) => true,
        };
        let text = if clean { formatted(&path, text)? } else { text };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(conflicts)
}

fn formatted(path: &str, text: String) -> Result<String> {
    match path.ends_with(".rs") {
        true => merge::format(text),
        false => Ok(text),
    }
}

/// Applies an edit to the files that it names, of which one at least must match.
fn edited(
    dir: &Path,
    edit: &Edit,
    all: &[String],
    texts: &mut BTreeMap<String, String>,
) -> Result<()> {
    let known = texts.keys().cloned().collect::<Vec<_>>();
    let mut paths: Vec<&String> = all
        .iter()
        .chain(&known)
        .filter(|path| covers(&edit.file, path))
        .collect();
    paths.sort();
    paths.dedup();
    if paths.is_empty() && edit.repository {
        return Ok(()); // the workspace of the pinned crates has no such file
    }
    let (mut matched, mut last) = (false, None);
    for path in paths {
        let text = match texts.get(path) {
            Some(text) => text.clone(),
            None => match fs::read_to_string(dir.join(path)) {
                Ok(text) => text,
                Err(_) => continue, // not text
            },
        };
        match edit::replace(&text, edit) {
            Ok(text) => {
                matched = true;
                texts.insert(path.clone(), text);
            }
            Err(error) => last = Some(error),
        }
    }
    match (matched, last) {
        (true, _) => Ok(()),
        (false, Some(error)) => {
            Err(error.context(format!("upstream/series.toml: an edit of {}", edit.file)))
        }
        (false, None) => bail!(
            "upstream/series.toml: an edit names {}, which does not exist",
            edit.file
        ),
    }
}

pub fn commit(dir: &Path, step: &Step) -> Result<()> {
    run::stdout(run::git(dir).args(["add", "--all"]))?;
    let mut git = run::git(dir);
    // The commits are the person's who sends them.
    for (setting, variables) in [
        ("user.name", ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"]),
        ("user.email", ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"]),
    ] {
        if let Ok(value) = run::stdout(Command::new("git").args(["config", setting])) {
            git.envs(variables.map(|name| (name, value.trim().to_owned())));
        }
    }
    run::stdout(git.args(["commit", "--quiet", "--no-verify", "-m", &message(step)?]))?;
    Ok(())
}

/// The heading of the letter and its first paragraph.
pub fn message(step: &Step) -> Result<String> {
    let path = folder()?.join(&step.letter);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut parts = text.splitn(3, "\n\n").map(str::trim);
    let heading = parts.next().and_then(|line| line.strip_prefix("# "));
    let (Some(heading), Some(first)) = (heading, parts.next()) else {
        bail!(
            "{} does not begin with a heading and a paragraph",
            path.display()
        )
    };
    Ok(format!("{heading}\n\n{first}\n"))
}
