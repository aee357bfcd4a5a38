//! Formats, lints and tests each commit of a branch.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{ensure, Result};

use super::series::Series;
use super::{base, table};
use crate::run;

/// At every commit, as Candle's CI does. The feature is off.
const ALWAYS: [&str; 3] = [
    "cargo fmt --all -- --check",
    "cargo check --workspace",
    "cargo clippy --workspace --tests --examples --benches -- -D warnings",
];

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
    let mut rows = Vec::new();
    for ((hash, _), step) in table::commits(dir)?.iter().zip(&series.steps) {
        if !only.is_empty() && !only.contains(&step.name) {
            continue;
        }
        git(&["checkout", "--quiet", "--detach", hash])?;
        for command in ALWAYS
            .iter()
            .copied()
            .chain(step.tests.iter().map(String::as_str))
        {
            println!("\n{}: {command}", step.name);
            let start = Instant::now();
            let (passed, tests) = check(dir, command)?;
            rows.push((
                step.name.clone(),
                command.to_owned(),
                passed,
                tests,
                start.elapsed().as_secs(),
            ));
        }
    }
    git(&["checkout", "--quiet", &branch])?;
    println!("\n| step | command | result | tests | seconds |\n|---|---|---|---:|---:|");
    for (step, command, passed, tests, seconds) in &rows {
        let result = if *passed { "ok" } else { "FAILED" };
        println!("| {step} | `{command}` | {result} | {tests} | {seconds} |");
    }
    Ok(rows.iter().all(|(_, _, passed, _, _)| *passed))
}

/// Runs a command line; returns whether it succeeded and how many tests passed.
fn check(dir: &Path, line: &str) -> Result<(bool, usize)> {
    let mut command = Command::new("sh");
    // candle-webgpu is not published: the hooks take it from here.
    let runtime = crate::root()?.join("candle-webgpu");
    let lines = if dir.join("candle-webgpu/Cargo.toml").exists() || !uses_runtime(dir)? {
        line.to_owned()
    } else {
        let patch = format!(
            "patch.crates-io.candle-webgpu.path={:?}",
            runtime.display().to_string()
        );
        line.replacen("cargo ", &format!("cargo --config '{patch}' "), 1)
    };
    command.args(["-c", &lines]).current_dir(dir);
    run::prepare(&mut command);
    for name in ["CARGO", "RUSTUP_TOOLCHAIN_SOURCE"] {
        command.env_remove(name);
    }
    let output = command.output()?;
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

fn uses_runtime(dir: &Path) -> Result<bool> {
    let manifests = base::paths(&dir.join("candle-core"))?;
    let manifest = manifests.iter().find(|path| *path == "Cargo.toml");
    let Some(manifest) = manifest else {
        return Ok(false);
    };
    Ok(std::fs::read_to_string(dir.join("candle-core").join(manifest))?.contains("candle-webgpu"))
}
