//! Formats, lints and tests each commit of a branch.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{ensure, Result};

use super::series::Series;
use super::table;
use super::write::BASE;
use crate::run;

/// At every commit, as Candle's CI does. The feature is off.
const ALWAYS: [&str; 3] = [
    "cargo fmt --all -- --check",
    "cargo check --workspace",
    "cargo clippy --workspace --tests --examples --benches -- -D warnings",
];

/// At every commit that changes one of these packages or what they depend on.
const WITHOUT: &str = "cargo test -p candle-core -p candle-nn";

pub fn run(dir: &Path, series: &Series, only: &[String]) -> Result<bool> {
    for name in only {
        ensure!(
            series.index(name).is_some(),
            "{} has no step {name}",
            series.name
        );
    }
    let branch = series.branch();
    let git = |args: &[&str]| run::stdout(run::git(dir).args(args));
    let commits = table::commits(dir)?;
    git(&["checkout", "--quiet", "--detach", BASE])?;
    let before = dependencies(dir)?;
    let mut tested = String::new();
    let mut rows = Vec::new();
    for ((hash, _), step) in commits.iter().zip(&series.steps) {
        if !only.is_empty() && !only.contains(&step.name) {
            continue;
        }
        git(&["checkout", "--quiet", "--detach", hash])?;
        let same = dependencies(dir)? == before;
        rows.push((step.name.clone(), DEPENDENCIES.to_owned(), same, 0, 0));
        let sources = git(&["rev-parse", "HEAD:candle-core", "HEAD:candle-nn"])?;
        let changed = !same || tested != sources;
        for command in ALWAYS
            .into_iter()
            .chain(changed.then_some(WITHOUT))
            .chain(step.tests.iter().map(String::as_str))
        {
            println!("\n{}: {command}", step.name);
            let start = Instant::now();
            let (passed, tests) = check(dir, command)?;
            let seconds = start.elapsed().as_secs();
            println!("{}, {tests} tests, {seconds} s", result(passed));
            rows.push((
                step.name.clone(),
                command.to_owned(),
                passed,
                tests,
                seconds,
            ));
        }
        tested = sources;
    }
    git(&["checkout", "--quiet", &branch])?;
    println!("\n| step | command | result | tests | seconds |\n|---|---|---|---:|---:|");
    for (step, command, passed, tests, seconds) in &rows {
        let result = result(*passed);
        println!("| {step} | `{command}` | {result} | {tests} | {seconds} |");
    }
    Ok(rows.iter().all(|(_, _, passed, _, _)| *passed))
}

fn result(passed: bool) -> &'static str {
    if passed {
        "ok"
    } else {
        "FAILED"
    }
}

const DEPENDENCIES: &str = "the same dependencies without the feature";

/// What the crates depend on without the feature.
fn dependencies(dir: &Path) -> Result<String> {
    let mut line = String::from("cargo tree --workspace --edges normal,build --prefix depth");
    if dir.join("candle-webgpu").exists() {
        line.push_str(" --exclude candle-webgpu");
    }
    // Paths differ between folders.
    Ok(run::stdout(&mut shell(dir, &line)?)?.replace(&dir.display().to_string(), ""))
}

/// A command line of cargo.
fn shell(dir: &Path, line: &str) -> Result<Command> {
    let mut command = Command::new("sh");
    // candle-webgpu is not published: the hooks take it from here.
    let manifest = std::fs::read_to_string(dir.join("candle-core/Cargo.toml"))?;
    let published = manifest.contains("candle-webgpu") && !dir.join("candle-webgpu").exists();
    let mut line = line.to_owned();
    if let (true, false, Some(end)) = (
        published,
        line.contains(" fmt "),
        line.match_indices(' ').nth(1),
    ) {
        let runtime = crate::root()?.join("candle-webgpu").display().to_string();
        let patch = format!(" --config 'patch.crates-io.candle-webgpu.path={runtime:?}'");
        line.insert_str(end.0, &patch);
    }
    command.args(["-c", &line]).current_dir(dir);
    run::prepare(&mut command);
    Ok(command)
}

/// Runs a command line; returns whether it succeeded and how many tests passed.
pub fn check(dir: &Path, line: &str) -> Result<(bool, usize)> {
    let output = shell(dir, line)?.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("test result: ok. ")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    });
    let passed = passed.sum();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let tail = |text: &str| {
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(60)..].join("\n")
        };
        println!("{}\n{}", tail(&text), tail(&errors));
    }
    Ok((output.status.success(), passed))
}
