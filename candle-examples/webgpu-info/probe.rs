//! Tries each optional feature in a process of its own, since a fault inside a driver's compiler ends the process.

use crate::conformance;
use anyhow::{bail, Context, Result};
use candle_core::webgpu_backend::runtime::{self, CACHE_VAR, DISABLE_VAR, ENABLE_VAR};
use candle_examples::device::DeviceArgs;
use candle_examples::exit;
use serde::{Deserialize, Serialize};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The features that are tried, with those that each needs.
const TRIED: &[(&str, &[&str])] = &[
    ("f16", &[]),
    ("subgroups", &[]),
    ("timestamps", &[]),
    ("immediates", &[]),
    ("pipeline-cache", &[]),
    ("dot4", &[]),
    ("pack16", &[]),
    ("cooperative-matrix", &["f16", "subgroups"]),
];

/// How long a process may take beside its checks, which include compiling.
const GRACE: Duration = Duration::from_secs(60);

/// What a child found.
#[derive(Serialize, Deserialize)]
struct Found {
    /// The adapter's ordinal.
    ordinal: usize,
    /// Failed checks.
    failed: Vec<String>,
}

pub fn run(wanted: &DeviceArgs, limit: Duration) -> Result<()> {
    // The portable kernels are slower, and are to run at least the checks that the others run.
    let base = attempt(wanted, &[], 2 * limit);
    let base = base.context("no optional feature is to blame")?;
    let adapters = runtime::adapters()?;
    let adapter = adapters.get(base.ordinal).context("the adapter is gone")?;
    println!("{} ({}, {})", adapter.name, adapter.backend, adapter.driver);
    if !base.failed.is_empty() {
        println!("wrong without any feature: {}", base.failed.join(", "));
    }
    let mut faults: Vec<(&str, String)> = Vec::new();
    for (feature, needs) in TRIED {
        let has = |name: &&str| *name == "pack16" || adapter.features.contains(name);
        let faulty = |name: &&str| faults.iter().any(|(faulty, _)| faulty == name);
        if !has(feature) || needs.iter().any(|name| !has(name) || faulty(name)) {
            continue;
        }
        let all = [*needs, &[*feature]].concat();
        let fault = match attempt(wanted, &all, limit) {
            Ok(found) => wrong(&found, &base),
            Err(e) => Some(e.to_string()),
        };
        println!("  {feature:<22} {}", fault.as_deref().unwrap_or("works"));
        faults.extend(fault.map(|fault| (*feature, fault)));
    }
    let path = runtime::remember_probe(adapter, &faults).context("the result is not kept")?;
    println!("written: {}", path.display());
    Ok(())
}

/// The checks that fail only with a feature.
fn wrong(found: &Found, base: &Found) -> Option<String> {
    let new = found
        .failed
        .iter()
        .filter(|name| !base.failed.contains(name));
    let new: Vec<_> = new.map(String::as_str).collect();
    let first = new.first()?;
    Some(format!("{} wrong checks, the first is {first}", new.len()))
}

/// Runs this program again with these features only. The error says how it ended.
fn attempt(wanted: &DeviceArgs, features: &[&str], limit: Duration) -> Result<Found> {
    // Pipelines of earlier runs would not be compiled.
    let cache = tempfile::tempdir()?;
    let others = TRIED.iter().map(|(name, _)| *name);
    let others: Vec<_> = others.filter(|name| !features.contains(name)).collect();
    // Not a pipe, which a driver with much to say would fill.
    let said = cache.path().join("said");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--probe-child", "--seconds", &limit.as_secs().to_string()])
        .args(wanted.adapter.iter().flat_map(|name| ["--adapter", name]))
        .env(DISABLE_VAR, others.join(","))
        .env(ENABLE_VAR, features.join(","))
        .env(CACHE_VAR, cache.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&said)?);
    let mut child = command.spawn()?;
    let in_time = ends(&mut child, limit + GRACE)?;
    let output = child.wait_with_output()?;
    if !in_time {
        bail!("did not end within {} s", (limit + GRACE).as_secs());
    }
    if !output.status.success() {
        let said = std::fs::read(said)?;
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().last().unwrap_or_default();
        bail!("ended with {}: {last}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Waits for a process; ends it if it takes longer than `limit`.
fn ends(child: &mut Child, limit: Duration) -> Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() >= limit {
            child.kill()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

pub fn child(wanted: &DeviceArgs, limit: Duration) -> Result<()> {
    let device = wanted.open()?;
    let adapter = device.as_webgpu_device()?.adapter();
    let mut found = Found {
        ordinal: adapter.ordinal,
        failed: Vec::new(),
    };
    let outcome = conformance::run(&device, &adapter.name, limit);
    found
        .failed
        .extend(outcome.failed.into_iter().map(|(name, _)| name));
    inject(&mut found);
    exit::write(&serde_json::to_string(&found)?)?;
    Ok(())
}

/// For tests of this program: `abort:f16` ends the process if f16 is tried, `wrong:f16` fails a check.
fn inject(found: &mut Found) {
    let fault = cfg!(debug_assertions).then(|| std::env::var("WEBGPU_INFO_FAULT").ok());
    let fault = fault.flatten().unwrap_or_default();
    let enabled = std::env::var(ENABLE_VAR).unwrap_or_default();
    match fault.split_once(':') {
        Some((kind, feature)) if enabled.split(',').any(|name| name == feature) => match kind {
            "abort" => std::process::abort(),
            _ => found.failed.push("injected".into()),
        },
        _ => {}
    }
}
