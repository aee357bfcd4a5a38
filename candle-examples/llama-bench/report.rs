//! Medians and spread, as a table or as lines of JSON.

use crate::measure::Run;
use candle_core::DType;
use candle_examples::device::{Counters, Description};
use serde_json::json;

pub struct Report {
    pub shape: &'static str,
    pub description: Description,
    pub dtype: DType,
    pub json: bool,
    pub stats: bool,
}

impl Report {
    pub fn head(&self) {
        if !self.json {
            println!(
                "{}, {}, {}",
                self.shape,
                self.dtype.as_str(),
                self.description
            );
            println!(
                "{:<8} {:>7} {:>11} {:>23} {:>11} {:>11} {:>11}",
                "test",
                "tokens",
                "ms (median)",
                "ms (min .. max)",
                "ms/token",
                "worst step",
                "tok/s"
            );
        }
    }

    /// Prints the measurement `test`, each run of which went over `tokens` tokens.
    pub fn row(&self, test: &str, tokens: usize, runs: &[Run]) {
        let mut ms: Vec<f64> = runs.iter().map(|r| r.time.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (ms.first(), ms.last()) else {
            return;
        };
        let median = median(&ms);
        let slowest = runs.iter().map(|r| r.slowest.as_secs_f64() * 1e3);
        let slowest = slowest.fold(0., f64::max);
        let per_token = median / tokens as f64;
        let rate = 1e3 / per_token;
        // The last run is the steadiest: whatever grows lazily has grown.
        let counted = runs.last().and_then(|r| r.counters).filter(|_| self.stats);
        // A prefill is one pass over all its tokens.
        let passes = if test == "prefill" { 1 } else { tokens };
        if self.json {
            let line = json!({
                "test": test, "shape": self.shape, "dtype": self.dtype.as_str(),
                "device": self.description.device, "adapter": self.description.adapter,
                "tokens": tokens, "reps": runs.len(),
                "ms": { "median": median, "min": min, "max": max },
                "ms_per_token": per_token, "worst_step_ms": slowest, "tok_s": rate,
                "stats": counted.map(|c| stats(c, passes)),
            });
            println!("{line}");
            return;
        }
        let spread = format!("{min:.2} .. {max:.2}");
        println!(
            "{test:<8} {tokens:>7} {median:>11.2} {spread:>23} {per_token:>11.3} {slowest:>11.2} {rate:>11.1}"
        );
        if let Some(counted) = counted {
            println!("{:<8} per pass: {}", "", words(&stats(counted, passes)));
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.
    }
}

/// What a device did per pass; memory is not per pass, it is what the device holds.
fn stats((before, after): (Counters, Counters), passes: usize) -> serde_json::Value {
    let per_pass =
        |count: fn(&Counters) -> u64| (count(&after) - count(&before)) as f64 / passes as f64;
    json!({
        "dispatches": per_pass(|c| c.dispatches),
        "submits": per_pass(|c| c.submits),
        "uploads": per_pass(|c| c.uploads),
        "readbacks": per_pass(|c| c.readbacks),
        "pipelines": per_pass(|c| c.pipelines),
        "cpu_fallbacks": per_pass(|c| c.cpu_fallbacks),
        "allocated_mib": after.allocated_bytes as f64 / 1048576.,
        "peak_mib": after.peak_bytes as f64 / 1048576.,
    })
}

fn words(stats: &serde_json::Value) -> String {
    let fields = stats.as_object().into_iter().flatten();
    let words = fields.map(|(name, value)| {
        let value = value.as_f64().unwrap_or_default();
        format!("{name} {value:.1}")
    });
    words.collect::<Vec<_>>().join(", ")
}
