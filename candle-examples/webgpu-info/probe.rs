//! Tries each optional feature in a process of its own, since a fault inside a driver's compiler ends the process.

use crate::{child, conformance};
use anyhow::{Context, Result};
use candle_core::webgpu_backend::runtime::{self, CACHE_VAR, DISABLE_VAR, ENABLE_VAR};
use candle_examples::device::DeviceArgs;
use candle_examples::exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

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
    let path = runtime::remember_probe(adapter, faults).context("the result is not kept")?;
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
    let (disabled, enabled) = (others.join(","), features.join(","));
    let vars = BTreeMap::from([
        (DISABLE_VAR, disabled.as_str()),
        (ENABLE_VAR, &enabled),
        (CACHE_VAR, cache.path().to_str().context("a folder's name")?),
    ]);
    let seconds = limit.as_secs().to_string();
    let args = ["--probe-child", "--seconds", &seconds];
    child::run(wanted, &args, &vars, limit + GRACE)
}

pub fn as_child(wanted: &DeviceArgs, limit: Duration) -> Result<()> {
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
