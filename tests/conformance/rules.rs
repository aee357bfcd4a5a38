//! Runs each case in which fusion rules fired again: with all rules off, and with each of those rules alone.
//!
//! Every run must stay within the case's bounds of the CPU. If all rules that fired in a run are exact, its results must also have
//! the bits of the run with rules off.

use std::collections::BTreeMap;
use std::sync::Mutex;

use anyhow::{ensure, Context, Result};
use candle_core::{Device, Tensor};
use candle_webgpu::{Device as Runtime, Enabled, REWRITE_VAR, RULES};

use crate::bound::traced;
use crate::case::{alone, Case};
use crate::shared::bits::differ;

/// The environment's rules, or else those that are on by default on any adapter: software adapters also run those for
/// GPUs.
pub fn usual() -> String {
    let gpu = RULES.iter().filter(|rule| rule.enabled == Enabled::OnGpu);
    let gpu = gpu.map(|rule| format!("+{}", rule.name));
    std::env::var(REWRITE_VAR).unwrap_or_else(|_| gpu.collect::<Vec<_>>().join(","))
}

/// Counts of cases, for the last lines of the suite.
#[derive(Default)]
pub struct Tally {
    cases: usize,
    /// Cases in which a rule alone rewrote something, by its name.
    alone: BTreeMap<&'static str, usize>,
}

/// The results that a case compared with some rules, and which rules fired.
struct Seen {
    values: Vec<Tensor>,
    fired: Vec<&'static str>,
}

impl Seen {
    fn is_exact(&self) -> bool {
        let inexact = |rule: &&str| RULES.iter().any(|r| r.name == *rule && !r.is_exact());
        !self.fired.iter().any(inexact)
    }
}

/// Runs a case, and returns the rules that fired meanwhile, in this case or in one that ran at the same time.
fn watched(runtime: &Runtime, run: impl FnOnce() -> Result<()>) -> Result<Seen> {
    let before = runtime.rewrites();
    let (outcome, values) = traced(run);
    outcome?;
    let pairs = before.into_iter().zip(runtime.rewrites());
    let fired = pairs.filter(|(before, after)| after.times > before.times);
    Ok(Seen {
        values,
        fired: fired.map(|(_, rule)| rule.rule).collect(),
    })
}

/// [`Case::run`], and again with other rules if any fired.
pub fn run(case: &Case, device: &Device, tally: &Mutex<Tally>) -> Result<()> {
    let runtime = device.as_webgpu_device()?.runtime();
    let first = watched(runtime, || case.run(device))?;
    if first.fired.is_empty() {
        return Ok(());
    }
    let usual = usual();
    // Rules are a setting of the device, which cases share.
    alone(|| {
        let compared = again(case, device, first, &usual, tally);
        runtime.rewrite_by(&usual)?;
        compared
    })
}

fn again(
    case: &Case,
    device: &Device,
    first: Seen,
    usual: &str,
    tally: &Mutex<Tally>,
) -> Result<()> {
    let runtime = device.as_webgpu_device()?.runtime();
    let by = |rules: &str| -> Result<Seen> {
        runtime.rewrite_by(rules)?;
        watched(runtime, || (case.run)(device)).with_context(|| format!("{REWRITE_VAR}={rules}"))
    };
    let off = by("-all")?;
    let same = |rules: &str, on: &Seen| -> Result<()> {
        ensure!(on.values.len() == off.values.len(), "other comparisons");
        for (expected, got) in off.values.iter().zip(&on.values) {
            if let Some(what) = differ(expected, got)?.filter(|_| on.is_exact()) {
                anyhow::bail!("{REWRITE_VAR}={rules} and -all: {what}");
            }
        }
        Ok(())
    };
    match first.is_exact() {
        true => same(usual, &first)?,
        // It may have fired in another case.
        false => same(usual, &by(usual)?)?,
    }
    let mut fired = Vec::new();
    for rule in RULES.iter().filter(|r| first.fired.contains(&r.name)) {
        let rules = rule.alone();
        let seen = by(&rules)?;
        same(&rules, &seen)?;
        fired.extend(seen.fired.into_iter().filter(|name| *name == rule.name));
    }
    let mut tally = tally.lock().unwrap_or_else(|e| e.into_inner());
    tally.cases += 1;
    for rule in fired {
        *tally.alone.entry(rule).or_default() += 1;
    }
    Ok(())
}

impl Tally {
    /// Rules that are on but rewrote nothing on their own in any case, though the adapter has the kernels that they rewrite.
    pub fn lacking(&self, device: &Device) -> Result<Vec<&'static str>> {
        let runtime = device.as_webgpu_device()?.runtime();
        let able = |rule: &str| {
            !["shared_scale_lines", "split_k"].contains(&rule) || runtime.cooperative()
        };
        let rules = runtime.rewrites();
        let lacking = rules
            .iter()
            .filter(|rule| rule.on && able(rule.rule) && !self.alone.contains_key(rule.rule));
        Ok(lacking.map(|rule| rule.rule).collect())
    }

    pub fn print(&self) {
        let rules: Vec<String> = RULES
            .iter()
            .map(|r| format!("{} {}", r.name, self.alone.get(r.name).unwrap_or(&0)))
            .collect();
        println!(
            "run again with rules off and one by one: {} cases; by rule: {}",
            self.cases,
            rules.join(", ")
        );
    }
}
