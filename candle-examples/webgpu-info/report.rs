//! A report on a GPU, as Markdown to paste into an issue: facts, checks, timings. `bench compare` reads the timings.

use crate::{adapters, conformance};
use anyhow::{Context, Result};
use candle_core::webgpu_backend::runtime;
use candle_core::{DType, Device};
use candle_examples::bench::measure::Bench;
use candle_examples::bench::results::Results;
use candle_examples::bench::table;
use candle_examples::bench::workload::{all, Scale, Workload};
use candle_examples::device::DeviceArgs;
use candle_examples::{exit, progress};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The rows of bench that a report has, by op and full size. None needs more than 300 MB.
const ROWS: &[&str] = &[
    "gemm 2048x2048x2048",
    "gemm_nk 512x5632x2048",
    "gemv 1x32000x2048",
    "gemv_q4_0 1x32000x2048",
    "gemv_q8_0 1x32000x2048",
    "gemv_q4k 1x32000x2048",
    "gemm_q4_0 512x5632x2048",
    "gemm_q4k 512x5632x2048",
    "sdpa 512x512x64",
    "sdpa 1x1024x64",
    "add 4096x4096",
    "gelu 4096x4096",
    "cast_to_f16 4096x4096",
    "transpose 4096x4096",
    "sum_last 1x2048",
    "argmax_last 1x128256",
    "argsort 64x4096",
    "softmax 4096x4096",
    "rms_norm 4096x4096",
    "layer_norm 4096x4096",
    "embedding 512x32000x2048",
    "rope 32x512x64",
    "conv2d 320x64x3",
];

const SAMPLES: u32 = 3;

/// Failed checks that are shown.
const SHOWN: usize = 20;

/// Variables with these prefixes change which adapter is found and how it is used.
const PREFIXES: [&str; 4] = ["CANDLE_WEBGPU_", "WGPU_", "VK_", "LP_"];

pub fn run(wanted: &DeviceArgs, file: Option<&Path>, limit: Duration) -> Result<()> {
    let device = wanted.open()?;
    let text = facts(&device)? + &checks(&device, limit)? + &timings(device, limit)?;
    match file {
        None => exit::write(&text)?,
        Some(path) => {
            let name = path.display();
            std::fs::write(path, text).with_context(|| format!("cannot write {name}"))?;
            eprintln!("written: {name}");
        }
    }
    Ok(())
}

fn facts(device: &Device) -> Result<String> {
    let device = device.as_webgpu_device()?.runtime();
    let adapter = device.adapter();
    let mut text = format!("## {} ({})\n\n```text\n", adapter.name, adapter.backend);
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    writeln!(text, "program: {name} {version}, commit {}", commit())?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    writeln!(text, "system: {os} {arch}, {cores} cores")?;
    writeln!(text, "driver: {}", adapter.driver)?;
    for (name, value) in variables() {
        writeln!(text, "variable: {name}={value}")?;
    }
    writeln!(text, "\n{}", adapters::table(&runtime::adapters()?)?)?;
    text += &adapters::describe(adapter, device.optional_features())?;
    writeln!(
        text,
        "```\n\n<details><summary>Limits and features</summary>\n"
    )?;
    writeln!(text, "```text\n{:#?}", device.limits())?;
    let features = adapter.offered.iter_names().map(|(name, _)| name);
    writeln!(
        text,
        "{}\n```\n</details>\n",
        features.collect::<Vec<_>>().join("\n")
    )?;
    Ok(text)
}

/// The commit of the repository in which the program was built.
fn commit() -> String {
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR")])
        .args(["describe", "--always", "--dirty"])
        .output();
    let said = git.ok().filter(|output| output.status.success());
    let commit = said.and_then(|output| String::from_utf8(output.stdout).ok());
    commit.map_or("unknown".into(), |commit| commit.trim().to_string())
}

fn variables() -> Vec<(String, String)> {
    let text = |name: std::ffi::OsString| name.to_string_lossy().into_owned();
    let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let wanted = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let mut set: Vec<_> = all.filter(|(name, _)| wanted(name)).collect();
    set.sort();
    set
}

fn checks(device: &Device, limit: Duration) -> Result<String> {
    let adapter = &device.as_webgpu_device()?.adapter().name;
    let outcome = conformance::run(device, adapter, limit);
    let conformance::Outcome {
        passed,
        known,
        failed,
        left,
        seconds,
    } = outcome;
    let mut text = format!(
        "Conformance: {passed} passed, {} failed, {known} known failures, {left} not run ({seconds:.0} s)\n\n",
        failed.len()
    );
    if failed.is_empty() {
        return Ok(text);
    }
    writeln!(text, "```text")?;
    for (name, reason) in failed.iter().take(SHOWN) {
        let reason: String = reason
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        writeln!(text, "{name}: {reason}")?;
    }
    writeln!(text, "```\n")?;
    Ok(text)
}

fn timings(device: Device, limit: Duration) -> Result<String> {
    let scale = Scale::natural(&device);
    let bench = Bench::new(device, scale, SAMPLES, false);
    // The yardsticks also raise the GPU's clocks, which the checks leave low: on an NVIDIA H200 the first rows took 6 times as long without.
    let mut results = Results::new(&bench, bench.yardsticks());
    let rows: Vec<_> = rows().collect();
    let bar = progress::steps("timings", rows.len() as u64);
    let start = Instant::now();
    for (workload, dtype) in &rows {
        bar.set_message(workload.name(scale, *dtype));
        results
            .rows
            .push(bench.row(workload, *dtype, &results.yardsticks));
        bar.inc(1);
        if start.elapsed() >= limit {
            break;
        }
    }
    bar.finish_and_clear();
    let mut text = format!("```text\n{}\n", table::head(&results));
    for row in &results.rows {
        writeln!(text, "{}", table::line(row))?;
    }
    let left = rows.len() - results.rows.len();
    if left > 0 {
        writeln!(text, "not run: {left}")?;
    }
    write!(
        text,
        "```\n\n<details><summary>The same for `bench compare`</summary>\n\n{}</details>\n",
        results.block()?
    )?;
    Ok(text)
}

fn rows() -> impl Iterator<Item = (&'static Workload, DType)> {
    let wanted = |w: &&Workload| {
        let listed = |dtype: &DType| ROWS.iter().any(|row| *row == label(w, *dtype));
        w.dtypes.first().is_some_and(listed)
    };
    all()
        .filter(wanted)
        .flat_map(|w| w.dtypes.iter().map(move |dtype| (w, *dtype)))
}

/// The name of a row without its dtype.
fn label(workload: &Workload, dtype: DType) -> String {
    let name = workload.name(Scale::Full, dtype);
    name.rsplit_once(' ')
        .map_or(name.clone(), |(label, _)| label.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_exists() {
        let found: Vec<_> = rows().map(|(w, dtype)| label(w, dtype)).collect();
        for row in ROWS {
            assert!(found.iter().any(|label| label == row), "{row}");
        }
    }
}
