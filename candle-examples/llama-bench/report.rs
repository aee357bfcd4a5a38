//! Medians and spread, as a table or as lines of JSON.

use crate::check::Difference;
use crate::measure::{Pass, Run, Sample};
use candle_core::{DType, Device};
use candle_examples::device::{counters, Counters, Description};
use candle_examples::random::Quant;
use candle_examples::spread::Spread;
use serde_json::json;
use std::time::Duration;

pub struct Report {
    /// A preset, or a file.
    pub shape: String,
    pub description: Description,
    /// Dtype of the activations, and of unquantized weights.
    pub dtype: DType,
    pub quant: Option<&'static Quant>,
    pub sample: Sample,
    pub json: bool,
    pub stats: bool,
}

impl Report {
    pub fn head(&self) {
        if !self.json {
            let ahead = match self.sample {
                Sample::Ahead => ", one pass ahead",
                _ => "",
            };
            println!(
                "{}, {}, {}{ahead}",
                self.shape,
                self.quant.map_or(self.dtype.as_str(), |quant| quant.name),
                self.description
            );
            println!(
                "{:<8} {:>5} {:>7} {:>7} {:>11} {:>23} {:>11} {:>11} {:>11}",
                "test",
                "batch",
                "context",
                "tokens",
                "ms (median)",
                "ms (min .. max)",
                "ms/token",
                "worst step",
                "tok/s"
            );
        }
    }

    /// Prints the startup times: opening the device, creating the weights, and the first two tokens.
    pub fn startup(&self, took: [Duration; 4], device: &Device) {
        let [opened, made, first, second] = took.map(|time| time.as_secs_f64() * 1e3);
        let pipelines = counters(device).map(|counted| counted.pipelines);
        let all = opened + made + first;
        if self.json {
            let line = json!({
                "test": "startup", "shape": self.shape, "dtype": self.dtype.as_str(),
                "quant": self.quant.map(|quant| quant.name),
                "device": self.description.device, "adapter": self.description.adapter,
                "device_ms": opened, "weights_ms": made, "first_token_ms": first,
                "second_token_ms": second, "to_first_token_ms": all, "pipelines": pipelines,
            });
            println!("{line}");
            return;
        }
        println!(
            "startup: device {opened:.0} ms, weights {made:.0} ms, first token {first:.0} ms, {all:.0} ms in all; \
             second token {second:.0} ms; pipelines {}",
            pipelines.map_or("-".to_string(), |count| count.to_string())
        );
    }

    /// Prints how far the logits of a pass are from the CPU's.
    pub fn logits(&self, pass: Pass, difference: Difference) {
        let Difference { most, rms, same } = difference;
        if self.json {
            let line = json!({
                "test": "logits", "shape": self.shape, "dtype": self.dtype.as_str(),
                "quant": self.quant.map(|quant| quant.name),
                "device": self.description.device, "adapter": self.description.adapter,
                "batch": pass.batch, "context": pass.prompt, "after_decoding": pass.tokens > 0,
                "most_off": most, "rms_off": rms, "same_token": same,
            });
            println!("{line}");
            return;
        }
        let token = if same { "the same" } else { "another" };
        println!(
            "{:<8} logits: off by {rms:.1e} (RMS), at most {most:.1e}, relative to the RMS of the CPU's in f32; {token} likeliest token",
            ""
        );
    }

    /// Prints the measurement of a pass.
    pub fn row(&self, pass: Pass, runs: &[Run]) {
        // A prefill is one pass over all its tokens.
        let (test, context, tokens) = match pass.tokens {
            0 => ("prefill", 0, pass.prompt),
            tokens => ("decode", pass.prompt, tokens),
        };
        let (batch, tokens) = (pass.batch, tokens * pass.batch);
        let ms = runs.iter().map(|r| r.time.as_secs_f64() * 1e3);
        let Some(ms) = Spread::of(ms) else {
            return;
        };
        let Spread { median, min, max } = ms;
        let slowest = runs.iter().map(|r| r.slowest.as_secs_f64() * 1e3);
        let slowest = slowest.fold(0., f64::max);
        let per_token = median / tokens as f64;
        let rate = 1e3 / per_token;
        // The last run is the steadiest: caches and pools have grown by then.
        let counted = runs.last().and_then(|r| r.counters).filter(|_| self.stats);
        let work = counted.map(|counted| Work::new(counted, pass.steps()));
        if self.json {
            let line = json!({
                "test": test, "shape": self.shape, "dtype": self.dtype.as_str(),
                "quant": self.quant.map(|quant| quant.name),
                "device": self.description.device, "adapter": self.description.adapter,
                "batch": batch, "context": context, "tokens": tokens, "reps": runs.len(),
                "sample": self.sample,
                "ms": ms,
                "ms_per_token": per_token, "worst_step_ms": slowest, "tok_s": rate,
                "stats": work.map(|w| w.json()),
            });
            println!("{line}");
            return;
        }
        let spread = format!("{min:.2} .. {max:.2}");
        println!(
            "{test:<8} {batch:>5} {context:>7} {tokens:>7} {median:>11.2} {spread:>23} {per_token:>11.3} {slowest:>11.2} {rate:>11.1}"
        );
        if let Some(work) = work {
            println!("{:<8} per pass: {}", "", work.words());
        }
    }
}

/// Prints GPU time and total time of a separate run, per pass.
pub fn busy((gpu, all): (Duration, Duration), passes: usize) {
    let [gpu, all] = [gpu, all].map(|time| time.as_secs_f64() * 1e6 / passes as f64);
    let share = 100. * gpu / all;
    println!("profile  GPU busy for {gpu:.1} of {all:.1} us, {share:.1} %");
}

type Count = (&'static str, fn(&Counters) -> u64);

/// The counters shown per pass, in the order of the report.
const COUNTS: [Count; 6] = [
    ("dispatches", |c| c.dispatches),
    ("submits", |c| c.submits),
    ("uploads", |c| c.uploads),
    ("readbacks", |c| c.readbacks),
    ("pipelines", |c| c.pipelines),
    ("cpu_fallbacks", |c| c.cpu_fallbacks),
];

/// The counters of a run per pass, and the memory held after it.
struct Work {
    counts: Vec<(&'static str, f64)>,
    held_mib: f64,
    peak_mib: f64,
}

impl Work {
    fn new((before, after): (Counters, Counters), passes: usize) -> Self {
        let mib = |bytes: u64| bytes as f64 / 1048576.;
        let per_pass = |count: fn(&Counters) -> u64| {
            count(&after).saturating_sub(count(&before)) as f64 / passes as f64
        };
        Self {
            counts: COUNTS.map(|(name, count)| (name, per_pass(count))).into(),
            held_mib: mib(after.allocated_bytes),
            peak_mib: mib(after.peak_bytes),
        }
    }

    fn json(&self) -> serde_json::Value {
        let mut json = json!({ "held_mib": self.held_mib, "peak_mib": self.peak_mib });
        for (name, count) in &self.counts {
            json[*name] = json!(count);
        }
        json
    }

    fn words(&self) -> String {
        let words = self.counts.iter().map(|(name, n)| format!("{name} {n:.1}"));
        let words: Vec<_> = words.collect();
        format!("{}; holds {:.1} MiB", words.join(", "), self.held_mib)
    }
}
