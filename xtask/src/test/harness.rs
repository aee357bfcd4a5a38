//! Runs test programs and parses the output of libtest and libtest-mimic.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub known: usize,
    /// The names of the failed tests; without those that did not run.
    pub names: Vec<String>,
}

impl Counts {
    pub fn failure() -> Self {
        Self {
            failed: 1,
            ..Self::default()
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.known += other.known;
        self.names.extend_from_slice(&other.names);
    }
}

/// The parsed output of test programs.
#[derive(Default)]
pub struct Report {
    /// The name of each test, and whether it passed.
    pub tests: Vec<(String, bool)>,
    /// Failures that a suite itself expects: it prints `known failures: N`.
    pub known: usize,
    /// The adapter, if a program printed it.
    pub adapter: Option<String>,
    /// Programs that started without printing a result, or could not be run.
    pub broken: usize,
    /// The number of tests that the programs announced.
    pub announced: usize,
}

impl Report {
    /// The report of a program that could not be run.
    pub fn broken() -> Self {
        Self {
            broken: 1,
            ..Self::default()
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            if test.starts_with("result: ") {
                self.broken = self.broken.saturating_sub(1);
            } else if let Some((name, outcome)) = test.rsplit_once(" ... ") {
                let name = name.trim().trim_end_matches(" - should panic");
                let outcome = outcome.trim();
                if outcome.starts_with("ok") {
                    self.tests.push((name.to_owned(), true));
                } else if outcome.starts_with("FAILED") {
                    self.tests.push((name.to_owned(), false));
                }
            }
        } else if line.starts_with("running ") && line.trim_end().ends_with(['t', 's']) {
            self.broken += 1;
            let count = line.split(' ').nth(1).and_then(|n| n.parse().ok());
            self.announced += count.unwrap_or(0);
        } else if let Some(name) = line.strip_prefix("adapter: ") {
            self.adapter = Some(name.trim().to_owned());
        } else if let Some(count) = line.strip_prefix("known failures: ") {
            self.known += count.trim().parse::<usize>().unwrap_or(0);
        }
    }

    pub fn add(&mut self, other: Self) {
        self.tests.extend(other.tests);
        self.known += other.known;
        self.adapter = other.adapter.or(self.adapter.take());
        self.broken += other.broken;
        self.announced += other.announced;
    }

    pub fn counts(&self) -> Counts {
        let failed = self.tests.iter().filter(|(_, ok)| !ok);
        let names: Vec<String> = failed.map(|(name, _)| name.clone()).collect();
        Counts {
            passed: self.tests.len() - names.len(),
            failed: names.len() + self.broken,
            known: self.known,
            names,
        }
    }
}

/// Progress is printed after this long without output.
const SILENCE: Duration = Duration::from_secs(20);

/// Runs a program and prints its output, except for tests that pass, and its progress.
pub fn run(title: &str, command: &mut Command, verbose: bool) -> Result<Report> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {title}"))?;
    let stdout = child.stdout.take().context("the program has no stdout")?;
    let mut report = Report::default();
    let mut said = start;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        report.line(&line);
        let quiet = line.trim().is_empty()
            || line.starts_with("running ")
            || line.starts_with("test result: ok")
            || (line.starts_with("test ") && line.trim_end().ends_with("ok"));
        if verbose || !quiet {
            println!("{title}| {line}");
            said = Instant::now();
        } else if said.elapsed() > SILENCE {
            println!("  {title}: {} of {}", report.tests.len(), report.announced);
            said = Instant::now();
        }
    }
    let status = child.wait().context("cannot wait for a program")?;
    let explained = report.broken > 0 || report.tests.iter().any(|(_, ok)| !ok);
    if !status.success() && !explained {
        report.broken += 1;
    }
    let (counts, seconds) = (report.counts(), start.elapsed().as_secs());
    // Programs without a test that matches the filter get no line.
    if counts != Counts::default() {
        let Counts { passed, failed, .. } = counts;
        println!("  {title}: {passed} passed, {failed} failed in {seconds} s");
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report
    }

    #[test]
    fn counts_tests() {
        let report = read(
            "running 4 tests\ntest a::webgpu ... ok\ntest b   ... FAILED\ntest c ... ignored\n\
             test d - should panic ... ok\ntest result: FAILED. 2 passed; 1 failed\nknown failures: 3\n",
        );
        assert_eq!(
            report.counts(),
            Counts {
                passed: 2,
                failed: 1,
                known: 3,
                names: vec!["b".to_owned()],
            }
        );
        assert_eq!(report.tests[2].0, "d");
    }

    #[test]
    fn a_program_that_dies_has_failed() {
        assert_eq!(read("running 2 tests\ntest a ... ok\n").counts().failed, 1);
        assert_eq!(
            read("running 1 test\ntest a ... ok\ntest result: ok.").broken,
            0
        );
    }
}
