//! A part of the conformance suite: ops on the device against the CPU.

use crate::case::Case;
use crate::{cases, known, sample};
use candle_core::Device;
use candle_examples::progress;
use std::time::{Duration, Instant};

/// One of this many cases of each group; `cargo xtask test quick` runs the same.
const EVERY: usize = 37;

/// Cases that run this program again, as the suite's own does.
const IN_A_PROCESS: &str = "large/";

pub struct Outcome {
    pub passed: usize,
    /// Known failures on this adapter.
    pub known: usize,
    /// Names and reasons.
    pub failed: Vec<(String, String)>,
    /// Cases for which there was no time.
    pub left: usize,
    pub seconds: f64,
}

/// Runs the sample until `limit` has passed.
pub fn run(device: &Device, adapter: &str, limit: Duration) -> Outcome {
    let cases = chosen();
    let bar = progress::steps("checks", cases.len() as u64);
    let start = Instant::now();
    let mut outcome = Outcome {
        passed: 0,
        known: 0,
        failed: Vec::new(),
        left: cases.len(),
        seconds: 0.,
    };
    for case in cases {
        bar.set_message(case.name.clone());
        match (case.run(device), known::reason(adapter, &case.name)) {
            (Ok(()), _) => outcome.passed += 1,
            (Err(_), Some(_)) => outcome.known += 1,
            (Err(e), None) => outcome.failed.push((case.name, format!("{e:#}"))),
        }
        outcome.left -= 1;
        bar.inc(1);
        if start.elapsed() >= limit {
            break;
        }
    }
    bar.finish_and_clear();
    outcome.seconds = start.elapsed().as_secs_f64();
    outcome
}

/// The sample, in an order in which any beginning covers all groups.
fn chosen() -> Vec<Case> {
    let mut cases = cases();
    cases.retain(|case| !case.name.starts_with(IN_A_PROCESS));
    sample::thin(&mut cases, EVERY);
    // Neighbours belong to one group, so taking them far apart covers all groups early.
    let mut order: Vec<_> = cases.into_iter().enumerate().collect();
    order.sort_by_key(|(i, _)| (i % EVERY, *i));
    order.into_iter().map(|(_, case)| case).collect()
}
