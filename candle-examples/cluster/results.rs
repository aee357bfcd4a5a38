//! The results of a run: rows in the order of the input, each written as soon as those before it are there. A row that comes early is kept in
//! a second file, so that a crash loses nothing.

use crate::items::Item;
use anyhow::{bail, ensure, Context, Result};
use candle_examples::generate::Stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The result of one item.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub index: usize,
    pub id: String,
    /// The rank that computed it, or the last of those that did.
    pub rank: usize,
    /// The item's key, in hexadecimal.
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logits: Option<Vec<f32>>,
    /// Why this item has no result, for example a prompt longer than the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Row {
    pub fn new(item: &Item, rank: usize) -> Self {
        Self {
            index: item.index,
            id: item.id.clone(),
            rank,
            key: key(item),
            ..Self::default()
        }
    }
}

fn key(item: &Item) -> String {
    format!("{:016x}", item.key)
}

/// The name of `stop` in results.
pub fn stop_name(stop: Stop) -> String {
    match stop {
        Stop::End => "end",
        Stop::Tokens => "tokens",
        Stop::Context => "context",
        Stop::Interrupted => "interrupted",
    }
    .to_string()
}

/// How often a file is written to the disk itself.
const SYNC: Duration = Duration::from_secs(1);

enum Output {
    /// Of a benchmark.
    Nowhere,
    Stdout,
    File {
        rows: File,
        early: File,
        early_path: PathBuf,
        synced: Instant,
    },
}

pub struct Results {
    items: Vec<Item>,
    output: Output,
    /// Rows written in order.
    next: usize,
    early: BTreeMap<usize, Row>,
    /// Which rows exist.
    done: Vec<bool>,
}

impl Results {
    /// Results that are only counted.
    pub fn counted(items: Vec<Item>) -> Self {
        Self {
            done: vec![false; items.len()],
            items,
            output: Output::Nowhere,
            next: 0,
            early: BTreeMap::new(),
        }
    }

    /// Opens the output, with `resume` with the rows that it has. Without a path it is stdout.
    pub fn open(items: Vec<Item>, path: Option<&Path>, resume: bool) -> Result<Self> {
        let mut results = Self {
            output: Output::Stdout,
            ..Self::counted(items)
        };
        let Some(path) = path else {
            return Ok(results);
        };
        let mut early_path = path.as_os_str().to_owned();
        early_path.push(".early");
        let early_path = PathBuf::from(early_path);
        let (rows, early) = match resume {
            true => (whole(path)?, whole(&early_path)?),
            false => {
                for path in [path, &early_path] {
                    let there = path.exists();
                    ensure!(
                        !there,
                        "{} exists: --resume goes on with it",
                        path.display()
                    );
                }
                (String::new(), String::new())
            }
        };
        for (at, line) in rows.lines().enumerate() {
            let row = results.check(path, line)?;
            let ordered = row.index == at;
            ensure!(ordered, "{}, line {}: not in order", path.display(), at + 1);
            results.done[at] = true;
            results.next = at + 1;
        }
        for line in early.lines() {
            let row = results.check(&early_path, line)?;
            if row.index >= results.next {
                results.done[row.index] = true;
                results.early.insert(row.index, row);
            }
        }
        let append = |path: &Path| {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(path);
            file.with_context(|| path.display().to_string())
        };
        results.output = Output::File {
            rows: append(path)?,
            early: append(&early_path)?,
            early_path,
            synced: Instant::now(),
        };
        results.write_due()?;
        Ok(results)
    }

    /// A row of a file, which must be of this job.
    fn check(&self, path: &Path, line: &str) -> Result<Row> {
        let row: Row = serde_json::from_str(line).with_context(|| path.display().to_string())?;
        let item = self.items.get(row.index);
        if item.is_none_or(|item| row.id != item.id || row.key != key(item)) {
            bail!(
                "{}: the row of `{}` is of another job: its model, options or prompt differ",
                path.display(),
                row.id
            );
        }
        Ok(row)
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The items without a row, in order.
    pub fn missing(&self) -> Vec<Item> {
        let items = self.items.iter();
        items
            .filter(|item| !self.done[item.index])
            .cloned()
            .collect()
    }

    pub fn has(&self, index: usize) -> bool {
        self.done.get(index).copied().unwrap_or(false)
    }

    pub fn count(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }

    /// Adds a row. An error if it belongs to no item, or to one that has a row.
    pub fn add(&mut self, row: Row) -> Result<()> {
        let item = self.items.get(row.index);
        let fits = item.is_some_and(|item| row.id == item.id && row.key == key(item));
        ensure!(fits, "a result of `{}` is of no item of this job", row.id);
        ensure!(!self.has(row.index), "`{}` has two results", row.id);
        self.done[row.index] = true;
        if row.index != self.next {
            if let Output::File { early, .. } = &mut self.output {
                early.write_all(line(&row)?.as_bytes())?;
            }
        }
        self.early.insert(row.index, row);
        self.write_due()
    }

    /// Writes the rows whose turn it is.
    fn write_due(&mut self) -> Result<()> {
        while let Some(row) = self.early.remove(&self.next) {
            let line = line(&row)?;
            match &mut self.output {
                Output::Nowhere => {}
                Output::Stdout => {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(line.as_bytes())?;
                    stdout.flush()?;
                }
                Output::File { rows, .. } => rows.write_all(line.as_bytes())?,
            }
            self.next += 1;
        }
        if let Output::File {
            rows,
            early,
            synced,
            ..
        } = &mut self.output
        {
            if synced.elapsed() > SYNC {
                rows.sync_data()?;
                early.sync_data()?;
                *synced = Instant::now();
            }
        }
        Ok(())
    }

    /// Ends the output. An error if rows are missing.
    pub fn finish(self) -> Result<()> {
        let (have, all) = (self.next, self.items.len());
        ensure!(have == all, "{have} of {all} results are there");
        if let Output::File {
            rows, early_path, ..
        } = self.output
        {
            rows.sync_all()?;
            std::fs::remove_file(&early_path).with_context(|| early_path.display().to_string())?;
        }
        Ok(())
    }
}

fn line(row: &Row) -> Result<String> {
    let mut line = serde_json::to_string(row)?;
    line.push('\n');
    Ok(line)
}

/// The whole lines of a file; a last line that a crash cut is removed. A file that does not exist is empty.
fn whole(path: &Path) -> Result<String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let end = end.map_or(0, |at| at + 1);
    if end < bytes.len() {
        let file = OpenOptions::new().write(true).open(path);
        let cut = file.and_then(|file| file.set_len(end as u64));
        cut.with_context(|| path.display().to_string())?;
    }
    String::from_utf8(bytes[..end].to_vec()).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::hash;

    fn items(job: u64) -> Vec<Item> {
        let item = |index: usize| Item {
            index,
            id: format!("id{index}"),
            prompt: String::new(),
            ids: None,
            key: hash(&[&job.to_le_bytes(), &index.to_le_bytes()]),
        };
        (0..4).map(item).collect()
    }

    #[test]
    fn rows_are_ordered_and_a_crash_loses_none() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("out.jsonl");
        let mut results = Results::open(items(1), Some(&path), false)?;
        for at in [2, 0] {
            results.add(Row::new(&items(1)[at], 0))?;
        }
        assert!(results.add(Row::new(&items(1)[2], 0)).is_err());
        assert!(results.add(Row::new(&items(2)[1], 0)).is_err());
        // As after a crash while row 3 was written.
        drop(results);
        let mut early = OpenOptions::new()
            .append(true)
            .open(dir.path().join("out.jsonl.early"))?;
        early.write_all(b"{\"index\":3,\"id\"")?;
        assert!(Results::open(items(1), Some(&path), false).is_err());
        let message = Results::open(items(2), Some(&path), true).map(|_| ());
        assert!(message.is_err_and(|e| e.to_string().contains("another job")));
        let mut results = Results::open(items(1), Some(&path), true)?;
        let missing: Vec<_> = results.missing().iter().map(|item| item.index).collect();
        assert_eq!(missing, [1, 3]);
        for at in [1, 3] {
            results.add(Row::new(&items(1)[at], 1))?;
        }
        results.finish()?;
        let text = std::fs::read_to_string(&path)?;
        let order = text.lines().map(serde_json::from_str::<Row>);
        let order: Vec<usize> = order.map(|row| Ok(row?.index)).collect::<Result<_>>()?;
        assert_eq!(order, [0, 1, 2, 3]);
        assert!(!dir.path().join("out.jsonl.early").exists());
        Ok(())
    }
}
