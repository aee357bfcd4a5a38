//! Known failures, each with its reason. A listed test that passes is an error, so that the list stays accurate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::harness::{Counts, Report};

pub struct Known {
    /// Part of the adapter's name; empty for every adapter.
    adapter: String,
    reason: String,
}

/// By the test's name.
pub type List = BTreeMap<String, Known>;

/// Reads lines `NAME  REASON` or `[ADAPTER] NAME  REASON`; `#` begins a comment. A missing file is an empty list.
pub fn read(path: &Path) -> Result<List> {
    if !path.exists() {
        return Ok(List::new());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<List> {
    let mut list = List::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let adapter = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (adapter, rest) = adapter.unwrap_or(("", line));
        let Some((name, reason)) = rest.trim().split_once(char::is_whitespace) else {
            bail!("`{line}` has no reason");
        };
        let known = Known {
            adapter: adapter.to_owned(),
            reason: reason.trim().to_owned(),
        };
        if list.insert(name.to_owned(), known).is_some() {
            bail!("{name} is listed twice");
        }
    }
    Ok(list)
}

/// Compares a run with the list. If `all` tests should have run, a listed test that did not run is an error, too.
pub fn judge(report: &Report, list: &List, all: bool) -> Counts {
    let mut counts = Counts {
        failed: report.broken,
        ..Counts::default()
    };
    let adapter = report.adapter.as_deref().unwrap_or_default();
    let list: BTreeMap<&String, &String> = list
        .iter()
        .filter(|(_, known)| adapter.contains(&known.adapter))
        .map(|(name, known)| (name, &known.reason))
        .collect();
    for (name, passed) in &report.tests {
        match (passed, list.get(name)) {
            (true, None) => counts.passed += 1,
            (false, Some(reason)) => {
                println!("known failure: {name}: {reason}");
                counts.known += 1;
            }
            (true, Some(_)) => {
                println!("passes now, remove it from the list of known failures: {name}");
                counts.failed += 1;
                counts.names.push(name.clone());
            }
            (false, None) => {
                println!("FAILED: {name}");
                counts.failed += 1;
                counts.names.push(name.clone());
            }
        }
    }
    for name in list.keys() {
        if all && !report.tests.iter().any(|(other, _)| other == *name) {
            println!("listed as a known failure, but it did not run: {name}");
            counts.failed += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_failure_that_passes_is_an_error() {
        let list = parse("# comment\na::webgpu  not there yet\nb::webgpu  slow\n").expect("valid");
        let report = Report {
            tests: [("a::webgpu", false), ("b::webgpu", true), ("c", true)]
                .map(|(name, ok)| (name.to_owned(), ok))
                .to_vec(),
            ..Report::default()
        };
        let counts = judge(&report, &list, true);
        assert_eq!((counts.passed, counts.failed, counts.known), (1, 1, 1));
        assert_eq!(counts.names, ["b::webgpu"]);
        assert!(parse("a\n").is_err());
        assert!(parse("a x\na y\n").is_err());
    }

    #[test]
    fn an_adapter_has_failures_of_its_own() {
        let list = parse("[NVIDIA] a::webgpu  a tie\n").expect("valid");
        let on = |adapter: &str, passes: bool| {
            let report = Report {
                tests: vec![("a::webgpu".to_owned(), passes)],
                adapter: Some(adapter.to_owned()),
                ..Report::default()
            };
            let counts = judge(&report, &list, true);
            (counts.passed, counts.failed, counts.known)
        };
        assert_eq!(on("NVIDIA H200", false), (0, 0, 1));
        assert_eq!(on("NVIDIA H200", true), (0, 1, 0));
        assert_eq!(on("llvmpipe", false), (0, 1, 0));
        assert_eq!(on("llvmpipe", true), (1, 0, 0));
    }
}
