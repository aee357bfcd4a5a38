//! Measures whole passes of a LLaMA under values of the variables that decide tiles, parts, kernels and submits, and keeps the fastest.

use crate::child;
use anyhow::{ensure, Context, Result};
use candle_core::webgpu_backend::runtime::{
    self, remember_tuning, tuned, DENY_VAR, SUBMIT_VAR, WORKGROUPS_VAR,
};
use candle_core::{DType, Device, Tensor};
use candle_examples::device::{is_software, profiled, DeviceArgs};
use candle_examples::exit;
use candle_examples::gguf::Forward;
use candle_examples::needs::Needs;
use candle_examples::random::{self, llama, Preset, PRESETS, QUANTS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What is tried, beside doing without kernels: first the default.
const TRIED: &[(&str, &[&str])] = &[
    (
        WORKGROUPS_VAR,
        &["256", "16", "32", "64", "128", "512", "1024"],
    ),
    (SUBMIT_VAR, &["80", "24", "40", "160"]),
];

/// The kernels that others may replace begin with one of these.
const REPLACEABLE: &[&str] = &["gemm", "gemv", "rms_norm_gemv", "scale_lines", "flash"];

/// A value is kept if the passes take at most so much of the time before, in two comparisons.
const GAIN: f64 = 0.97;

/// It is not kept if one of the passes takes more than so much of the time before.
const SLOWER: f64 = 1.1;

/// The largest difference of logits, relative to the largest logit: other kernels add up in another order, in f16.
const DIFFERENCE: f32 = 0.02;

/// How long a process may take, which compiles kernels and generates weights.
const LIMIT: Duration = Duration::from_secs(300);

/// Values of variables.
type Values = BTreeMap<&'static str, String>;

/// What a child measured.
#[derive(Serialize, Deserialize)]
struct Measured {
    /// The adapter's ordinal.
    ordinal: usize,
    shape: String,
    /// The fastest time of each pass, in ms.
    ms: BTreeMap<String, f64>,
    /// The last logits of each model.
    logits: Vec<Vec<f32>>,
    /// The kernels that ran.
    kernels: BTreeSet<String>,
}

/// Times in relation to others.
struct Relation {
    /// The geometric mean of all passes.
    mean: f64,
    worst: f64,
}

impl Relation {
    fn pays(&self) -> bool {
        self.mean <= GAIN && self.worst <= SLOWER
    }

    /// The less favourable numbers of two comparisons.
    fn and(&self, other: &Relation) -> Relation {
        Relation {
            mean: self.mean.max(other.mean),
            worst: self.worst.max(other.worst),
        }
    }
}

impl Measured {
    fn in_relation_to(&self, other: &Measured) -> Relation {
        let passes = self.ms.iter();
        let parts = passes.filter_map(|(pass, ms)| Some(ms / other.ms.get(pass)?));
        let (logs, worst) = parts.fold((0., 0.), |(logs, worst): (f64, f64), part| {
            (logs + part.ln(), worst.max(part))
        });
        Relation {
            mean: (logs / self.ms.len().max(1) as f64).exp(),
            worst,
        }
    }

    /// The largest difference of a model's logits in relation to the largest logit.
    fn difference(&self, other: &Measured) -> f32 {
        // NaN counts as wrong.
        let larger = |most: f32, v: f32| if v <= most { most } else { v };
        let models = self.logits.iter().zip(&other.logits).map(|(a, b)| {
            let largest = b.iter().fold(0f32, |most, v| most.max(v.abs()));
            let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            off.fold(0., larger) / largest
        });
        models.fold(0., larger)
    }
}

/// Tries values until `limit` is over.
pub fn run(wanted: &DeviceArgs, shape: Option<&'static Preset>, limit: Duration) -> Result<()> {
    let start = Instant::now();
    let mut args = vec!["--tune-child"];
    args.extend(shape.iter().flat_map(|shape| ["--shape", shape.name]));
    let measure = |values: &Values| -> Result<Measured> {
        // What was tuned before is not to be used: `,` denies nothing.
        let defaults = TRIED.iter().map(|(name, values)| (*name, values[0]));
        let mut vars: BTreeMap<_, _> = defaults.chain([(DENY_VAR, ",")]).collect();
        vars.extend(values.iter().map(|(name, value)| (*name, value.as_str())));
        child::run(wanted, &args, &vars, LIMIT)
    };
    let mut values = Values::new();
    let first = measure(&values)?;
    let adapters = runtime::adapters()?;
    let adapter = adapters.get(first.ordinal).context("the adapter is gone")?;
    // Better now than after minutes.
    remember_tuning(adapter, tuned(adapter)).context("no result could be kept")?;
    println!(
        "{} ({}, {}), {}",
        adapter.name, adapter.backend, adapter.driver, first.shape
    );
    for (pass, ms) in &first.ms {
        println!("  {pass:<16} {ms:>9.2} ms");
    }
    let replaceable = |name: &&String| REPLACEABLE.iter().any(|begin| name.starts_with(begin));
    let kernels: Vec<_> = first.kernels.iter().filter(replaceable).collect();
    let denied = kernels.iter().map(|name| (DENY_VAR, name.as_str()));
    let numbers = TRIED
        .iter()
        .flat_map(|(name, values)| values[1..].iter().map(|value| (*name, *value)));
    let mut best = measure(&values)?;
    let mut all = 1.;
    for (name, value) in numbers.chain(denied) {
        if start.elapsed() >= limit {
            println!("  stopped after {} s", limit.as_secs());
            break;
        }
        let mut tried = values.clone();
        match tried.get_mut(name).filter(|_| name == DENY_VAR) {
            Some(list) => *list += &format!(",{value}"),
            None => drop(tried.insert(name, value.to_string())),
        }
        let outcome = measure(&tried).and_then(|measured| {
            let difference = measured.difference(&first);
            ensure!(difference <= DIFFERENCE, "logits differ by {difference}");
            let relation = measured.in_relation_to(&best);
            if !relation.pays() {
                return Ok((relation, None));
            }
            // Once more, one after the other: other work on the machine comes and goes.
            let (before, after) = (measure(&values)?, measure(&tried)?);
            let relation = relation.and(&after.in_relation_to(&before));
            let pays = relation.pays();
            Ok((relation, pays.then_some(after)))
        });
        let percent = |part: f64| (part - 1.) * 100.;
        let said = match &outcome {
            Ok((relation, kept)) => {
                let kept = if kept.is_some() { ", kept" } else { "" };
                let [mean, worst] = [relation.mean, relation.worst].map(percent);
                format!("{mean:+.1} %, one pass {worst:+.1} %{kept}")
            }
            Err(e) => format!("not possible: {e:#}"),
        };
        println!("  {:<44} {said}", format!("{name}={value}"));
        if let Ok((relation, Some(measured))) = outcome {
            (values, best) = (tried, measured);
            all *= relation.mean;
        }
    }
    println!("{:+.1} % in all", (all - 1.) * 100.);
    let path = remember_tuning(adapter, values).context("the result is not kept")?;
    println!("written: {}", path.display());
    Ok(())
}

pub fn as_child(wanted: &DeviceArgs, shape: Option<&'static Preset>) -> Result<()> {
    let device = wanted.open()?;
    device.set_seed(1)?;
    let webgpu = device.as_webgpu_device()?;
    let software = is_software(&device);
    let usual = if software { "tiny" } else { "tinyllama-1.1b" };
    let preset = shape.or_else(|| PRESETS.iter().find(|preset| preset.name == usual));
    let preset = preset.with_context(|| format!("no {usual}"))?;
    let dtype = match webgpu.adapter().features.contains(&"f16") {
        true => DType::F16,
        false => DType::F32,
    };
    let mut measured = Measured {
        ordinal: webgpu.adapter().ordinal,
        shape: preset.name.into(),
        ms: BTreeMap::new(),
        logits: Vec::new(),
        kernels: BTreeSet::new(),
    };
    let sizes = if software { [128, 16] } else { [512, 48] };
    let q4_0 = QUANTS.iter().find(|quant| quant.name == "q4_0");
    let q4_0 = q4_0.context("no q4_0")?;
    let fits = |needs: Needs| needs.check(preset.name, sizes.iter().sum(), &device);
    measured.passes(
        dtype.as_str(),
        llama::dense(preset, random::weights(dtype, &device), fits)?,
        preset,
        sizes,
        &device,
    )?;
    measured.passes(
        q4_0.name,
        llama::quantized(preset, q4_0, &device, fits)?,
        preset,
        sizes,
        &device,
    )?;
    exit::write(&serde_json::to_string(&measured)?)?;
    Ok(())
}

impl Measured {
    /// Measures the prefill of a prompt and the decoding of the tokens that follow, which are given, so that results can be compared.
    fn passes(
        &mut self,
        name: &str,
        mut model: Forward,
        preset: &Preset,
        [prompt, tokens]: [usize; 2],
        device: &Device,
    ) -> Result<()> {
        let vocab = preset.config().vocab_size;
        let ids = random::ids(prompt + tokens, vocab);
        let mut step = |from: usize, to: usize| -> Result<Vec<f32>> {
            let input = Tensor::new(&ids[from..to], device)?.unsqueeze(0)?;
            let logits = model(&input, from)?.to_dtype(DType::F32)?;
            Ok(logits.flatten_all()?.to_vec1()?)
        };
        let mut pass = || -> Result<([f64; 2], Vec<f32>)> {
            let start = Instant::now();
            let mut logits = step(0, prompt)?;
            let prefill = start.elapsed();
            for at in prompt..prompt + tokens {
                logits = step(at, at + 1)?;
            }
            let all = start.elapsed();
            Ok((
                [prefill, all - prefill].map(|time| time.as_secs_f64() * 1e3),
                logits,
            ))
        };
        let (_, logits) = pass()?;
        self.logits.push(logits);
        let mut fastest = [f64::INFINITY; 2];
        for _ in 0..9 {
            let (ms, _) = pass()?;
            fastest = [fastest[0].min(ms[0]), fastest[1].min(ms[1])];
        }
        for (what, ms) in ["prefill", "decode"].into_iter().zip(fastest) {
            self.ms.insert(format!("{name} {what}"), ms);
        }
        let profile = profiled(device, || pass().map(drop))?;
        let kernels = profile.kernels.iter();
        self.kernels
            .extend(kernels.filter_map(|time| Some(time.kernel.split('.').next()?.to_string())));
        Ok(())
    }
}
