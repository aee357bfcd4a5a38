//! The fork's files as they are at each step of a series.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;

use anyhow::{ensure, Context, Result};

use super::edit;
use super::fork_file::{self, slashes, ForkFile};
use super::imports::{prune, Place};
use super::series::{covers, Series};
use crate::fork::{self, files};

pub struct Source<'a> {
    series: &'a Series,
    forked: Vec<ForkFile>,
    /// The text of each file of ours, by its path in Candle's repository, and its step.
    own: BTreeMap<String, (usize, String)>,
}

/// The text of a file before and at a step. `None` where it does not exist.
pub struct Change {
    pub path: String,
    pub before: Option<String>,
    pub after: String,
}

impl<'a> Source<'a> {
    /// Reads the fork. An error if no step names a patch or a file.
    pub fn read(series: &'a Series) -> Result<Self> {
        let mut forked = Vec::new();
        for fork in fork::forks()? {
            for patch in fork_file::patches(&fork)? {
                ensure!(
                    series.step_of_patch(&patch).is_some()
                        || series.out.iter().any(|(out, _)| *out == patch),
                    "no step of {} brings the patch {patch}: name it in upstream/series.toml",
                    series.name
                );
            }
            forked.extend(fork_file::all(&fork)?);
        }
        let mut own = BTreeMap::new();
        let root = crate::root()?;
        for folder in &series.sources {
            for file in files(&root.join(folder))? {
                let from = root.join(folder).join(&file);
                let path = place(&format!("{folder}/{}", slashes(&file)));
                let Some(step) = series.step_of_file(&path)? else {
                    continue;
                };
                let text = fs::read_to_string(&from)
                    .with_context(|| format!("cannot read {}", from.display()))?;
                own.insert(path, (step, text));
            }
        }
        for step in &series.steps {
            for entry in &step.files {
                ensure!(
                    own.keys().any(|path| covers(entry, path)),
                    "{}: the step {} names {entry}, which does not exist",
                    series.name,
                    step.name
                );
            }
        }
        let source = Self {
            series,
            forked,
            own,
        };
        source.check_rules()?;
        Ok(source)
    }

    /// Every rule must hide something.
    fn check_rules(&self) -> Result<()> {
        let forked = self
            .forked
            .iter()
            .map(|f| (f.path.clone(), f.text(|_| true)));
        let own = self
            .own
            .iter()
            .map(|(path, (_, text))| (path.clone(), text.clone()));
        let all: Vec<_> = forked.chain(own).collect();
        for later in &self.series.later {
            let hides = |(path, text): &(String, String)| {
                covers(&later.file, path) && edit::hide(text, later).is_ok()
            };
            ensure!(
                all.iter().any(hides),
                "a rule of upstream/series.toml hides nothing: {later:?}"
            );
        }
        Ok(())
    }

    /// The files that a step changes, before edits.
    pub fn changes(&self, step: usize) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for file in &self.forked {
            let before = match step {
                0 => file.text(|_| false),
                _ => self.forked_text(file, step - 1)?,
            };
            let after = self.forked_text(file, step)?;
            if before != after {
                let (path, before) = (file.path.clone(), Some(before));
                changes.push(Change {
                    path,
                    before,
                    after,
                });
            }
        }
        for (path, (first, text)) in self.own.iter().filter(|(_, (first, _))| *first <= step) {
            let after = self.visible(path, text, step)?;
            let before = (*first < step)
                .then(|| self.visible(path, text, step - 1))
                .transpose()?;
            if before.as_ref() != Some(&after) {
                let path = path.clone();
                changes.push(Change {
                    path,
                    before,
                    after,
                });
            }
        }
        Ok(changes)
    }

    fn forked_text(&self, file: &ForkFile, step: usize) -> Result<String> {
        let text = file.text(|patch| self.series.step_of_patch(patch).is_some_and(|s| s <= step));
        self.visible(&file.path, &text, step)
    }

    /// The text without what later steps bring.
    fn visible(&self, path: &str, full: &str, step: usize) -> Result<String> {
        let mut text = full.to_owned();
        // The latest first: what an earlier step brings may contain what a later one adds to it.
        let mut rules: Vec<_> = self.series.hidden(path, step).collect();
        rules.sort_by_key(|later| Reverse(self.series.index(&later.step)));
        for later in rules {
            let exact = later.file == path && self.own.contains_key(path);
            match edit::hide(&text, later) {
                Ok(hidden) => text = hidden,
                Err(error) if exact => {
                    return Err(error.context(format!("upstream/series.toml: {path}")))
                }
                // Not every file of a folder has such a text, nor has a file before the patch that brings it.
                Err(_) => {}
            }
        }
        if path.ends_with(".rs") && self.own.contains_key(path) {
            let later = |file: &str| self.own.get(file).is_some_and(|(first, _)| *first > step);
            text = prune(&text, full, &Place::of(path), later);
        }
        Ok(text)
    }

    /// All files at the last step, before edits.
    pub fn finished(&self) -> Result<Vec<(String, String)>> {
        let last = self.series.steps.len() - 1;
        let mut all = Vec::new();
        for file in &self.forked {
            all.push((file.path.clone(), self.forked_text(file, last)?));
        }
        for (path, (_, text)) in &self.own {
            all.push((path.clone(), self.visible(path, text, last)?));
        }
        Ok(all)
    }

    pub fn is_own(&self, path: &str) -> bool {
        self.own.contains_key(path)
    }

    pub fn forked_files(&self) -> impl Iterator<Item = &str> {
        self.forked.iter().map(|file| file.path.as_str())
    }
}

/// Where a file of this repository is in Candle's.
fn place(path: &str) -> String {
    path.strip_prefix("upstream/files/")
        .unwrap_or(path)
        .to_owned()
}
