//! A file of a pinned crate that patches change: which patch inserts which lines.

use std::path::Path;

use anyhow::{ensure, Context, Result};

use crate::fork::{Fork, BASE};
use crate::run;

pub struct ForkFile {
    /// In Candle's repository.
    pub path: String,
    /// Each line with the patch that inserts it, such as `candle-core/device`.
    lines: Vec<(Option<String>, String)>,
}

impl ForkFile {
    /// The text with the patches that `chosen` selects.
    pub fn text(&self, chosen: impl Fn(&str) -> bool) -> String {
        let lines = self.lines.iter();
        let kept = lines.filter(|(patch, _)| patch.as_deref().is_none_or(&chosen));
        kept.flat_map(|(_, line)| [line.as_str(), "\n"]).collect()
    }
}

/// The files that the patches of a fork change, but for its manifest: a published crate has another than the repository.
pub fn all(fork: &Fork) -> Result<Vec<ForkFile>> {
    let tree = fork.tree();
    let git = |args: &[&str]| run::stdout(run::git(&tree).args(args));
    let names = git(&["diff", "--name-only", BASE, "HEAD"])?;
    let mut files = Vec::new();
    for name in names.lines().filter(|name| *name != "Cargo.toml") {
        let original = git(&["show", &format!("{BASE}:{name}")])?;
        let mut lines: Vec<_> = original
            .lines()
            .map(|line| (None, line.to_owned()))
            .collect();
        for patch in fork.series()? {
            insert(&mut lines, fork, &patch, name).with_context(|| format!("{patch}: {name}"))?;
        }
        let path = format!("{}/{name}", fork.name);
        let last: String = lines.iter().flat_map(|(_, l)| [l.as_str(), "\n"]).collect();
        ensure!(
            last == git(&["show", &format!("HEAD:{name}")])?,
            "{path} differs from its patches"
        );
        files.push(ForkFile { path, lines });
    }
    Ok(files)
}

/// Inserts the lines of a patch. Patches only insert, and their line numbers are exact.
fn insert(
    lines: &mut Vec<(Option<String>, String)>,
    fork: &Fork,
    patch: &str,
    file: &str,
) -> Result<()> {
    let text = fork.patch(patch)?;
    let tag = format!("{}/{}", fork.name, patch.trim_end_matches(".patch"));
    let (mut ours, mut at) = (false, 0);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            ours = name == file;
        } else if let Some(hunk) = line.strip_prefix("@@ -").filter(|_| ours) {
            let new = hunk.split_once('+').map(|(_, new)| new).unwrap_or_default();
            let first = new.split([',', ' ']).next().unwrap_or_default();
            at = first
                .parse::<usize>()
                .context("a hunk has no line number")?
                - 1;
        } else if let Some(inserted) = line.strip_prefix('+').filter(|_| ours) {
            lines.insert(at, (Some(tag.clone()), inserted.to_owned()));
            at += 1;
        }
    }
    Ok(())
}

/// The names of a fork's patches, such as `candle-core/device`.
pub fn patches(fork: &Fork) -> Result<Vec<String>> {
    let names = fork.series()?;
    let name = |patch: &String| format!("{}/{}", fork.name, patch.trim_end_matches(".patch"));
    Ok(names.iter().map(name).collect())
}

/// A path with slashes on every system.
pub fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
