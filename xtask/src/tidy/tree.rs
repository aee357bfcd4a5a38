//! The files that the checks read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use walkdir::WalkDir;

use super::code::Code;
use super::graph::Graph;
use super::modules::Modules;

/// Folders to check. The fork's trees and upstream folders are not ours.
const FOLDERS: [&str; 9] = [
    "candle-webgpu",
    "candle-core/src",
    "candle-nn/src",
    "candle-examples",
    "tests",
    "fuzz",
    "xtask/src",
    "benches",
    "docs",
];

/// Folders whose Rust files are parsed. The checks read other files as text.
const PARSED: [&str; 3] = ["candle-webgpu/src", "candle-core/src", "candle-nn/src"];

pub struct Tree {
    /// Texts by path from the root, with forward slashes.
    files: BTreeMap<String, String>,
    parsed: BTreeMap<String, Code>,
}

impl Tree {
    pub fn repository(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for folder in FOLDERS {
            read(root, folder, &mut files)?;
        }
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                add(root, &path, &mut files)?;
            }
        }
        Self::new(files, &PARSED)
    }

    /// The source folder of any crate.
    pub fn folder(folder: &Path) -> Result<Self> {
        ensure!(folder.is_dir(), "{} is not a folder", folder.display());
        let mut files = BTreeMap::new();
        read(folder, "", &mut files)?;
        Self::new(files, &[""])
    }

    /// Parses the Rust files below the folders `parsed`.
    pub fn new(files: BTreeMap<String, String>, parsed: &[&str]) -> Result<Self> {
        let wanted =
            |path: &str| path.ends_with(".rs") && parsed.iter().any(|folder| within(path, folder));
        let rust = files.iter().filter(|(path, _)| wanted(path));
        let parsed = rust
            .map(|(path, text)| Ok((path.clone(), Code::parse(text).context(path.clone())?)))
            .collect::<Result<_>>()?;
        Ok(Self { files, parsed })
    }

    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Files below a folder whose names end with `end`.
    pub fn below<'a>(
        &'a self,
        folder: &'a str,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files()
            .filter(move |(path, _)| within(path, folder) && path.ends_with(end))
    }

    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Parsed files below a folder, including tests.
    pub fn code<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a Code)> {
        let all = self.parsed.iter().map(|(path, code)| (path.as_str(), code));
        all.filter(move |(path, _)| within(path, folder))
    }

    /// Parsed files below a source folder, except tests.
    pub fn shipped<'a>(&'a self, folder: &'a str) -> Vec<(&'a str, &'a Code)> {
        let modules = Modules::new(self.relative(folder)).files;
        let all = self.code(folder).zip(modules);
        all.filter(|(_, file)| !file.test)
            .map(|(entry, _)| entry)
            .collect()
    }

    /// The imports among the files below a source folder.
    pub fn graph(&self, folder: &str) -> Graph {
        Graph::new(self.relative(folder))
    }

    fn relative<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a Code)> {
        let shorten = |path: &'a str| path[folder.len()..].trim_start_matches('/');
        self.code(folder)
            .map(move |(path, code)| (shorten(path), code))
    }
}

fn within(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.starts_with('/'))
}

/// Reads the files below a folder. A missing folder has none.
fn read(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) -> Result<()> {
    let start = root.join(folder);
    if !start.exists() {
        return Ok(());
    }
    // Hidden files and build output are not sources.
    let skipped = |name: &OsStr| name == "target" || name.to_string_lossy().starts_with('.');
    let entries = WalkDir::new(&start).min_depth(1).into_iter();
    for entry in entries.filter_entry(|entry| !skipped(entry.file_name())) {
        let entry = entry?;
        if entry.file_type().is_file() {
            add(root, entry.path(), files)?;
        }
    }
    Ok(())
}

fn add(root: &Path, path: &Path, files: &mut BTreeMap<String, String>) -> Result<()> {
    let extension = path.extension().and_then(OsStr::to_str);
    if !matches!(extension, Some("rs" | "wgsl" | "md")) {
        return Ok(());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path
        .strip_prefix(root)?
        .to_string_lossy()
        .replace('\\', "/");
    files.insert(name, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::tree;

    #[test]
    fn folders_are_whole_names() {
        let tree = tree(&[
            ("a/src/lib.rs", ""),
            ("a/src2/b.rs", ""),
            ("a/src/c.md", ""),
        ]);
        let names: Vec<&str> = tree.below("a/src", ".rs").map(|(path, _)| path).collect();
        assert_eq!(names, ["a/src/lib.rs"]);
    }

    #[test]
    fn tests_are_known_by_name_and_by_declaration() {
        let tree = tree(&[
            ("src/lib.rs", "mod a; #[cfg(test)] mod helpers;"),
            ("src/a/mod.rs", ""),
            ("src/a/tests.rs", ""),
            ("src/a/testing/b.rs", ""),
            ("src/helpers/mod.rs", ""),
            ("src/helpers/c.rs", ""),
        ]);
        let names: Vec<&str> = tree.shipped("src").iter().map(|(path, _)| *path).collect();
        assert_eq!(names, ["src/a/mod.rs", "src/lib.rs"]);
    }
}
