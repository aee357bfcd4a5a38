//! Failures that we know of, each with its reason. One that passes is an error, so that the list stays true.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::harness::{Counts, Report};

/// Test name to reason.
pub type List = BTreeMap<String, String>;

/// Lines `NAME  REASON`; `#` begins a comment. No file means that nothing is known to fail.
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
        let Some((name, reason)) = line.split_once(char::is_whitespace) else {
            bail!("{line} has no reason");
        };
        if list
            .insert(name.to_owned(), reason.trim().to_owned())
            .is_some()
        {
            bail!("{name} is listed twice");
        }
    }
    Ok(list)
}

/// Compares a run with the list. `all` says that every test ran, so a listed one that did not is an error, too.
pub fn judge(report: &Report, list: &List, all: bool) -> Counts {
    let mut counts = Counts {
        failed: report.broken,
        ..Counts::default()
    };
    for (name, passed) in &report.tests {
        match (passed, list.get(name)) {
            (true, None) => counts.passed += 1,
            (false, Some(reason)) => {
                println!("known failure: {name}: {reason}");
                counts.known += 1;
            }
            (true, Some(_)) => {
                println!("passes now, take it from the list of known failures: {name}");
                counts.failed += 1;
            }
            (false, None) => {
                println!("FAILED: {name}");
                counts.failed += 1;
            }
        }
    }
    for name in list.keys() {
        if all && !report.tests.iter().any(|(other, _)| other == name) {
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
        assert!(parse("a\n").is_err());
        assert!(parse("a x\na y\n").is_err());
    }
}
