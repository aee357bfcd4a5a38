//! Times models of candle-transformers of many families, with random weights.

mod models;
mod training;

use anyhow::ensure;
use candle_core::Device;
use candle_examples::device::{counters, describe, profiled, DeviceArgs, Precision};
use candle_examples::profile;
use candle_examples::spread::Spread;
use candle_examples::warm_up::warm_up;
use candle_examples::{exit, random};
use clap::Parser;
use models::{Model, MODELS};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

/// Times a forward pass, or a step of training, of models of many families, with random weights of published sizes.
///
/// A pass ends when its result is there: an id on the host of a model that decodes, else the device's last op. Weights are generated on
/// the device; nothing is downloaded.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  model-bench --list
  model-bench bert-base --dtype f16
  model-bench sd-1.5-unet --profile"
)]
struct Args {
    /// Models to measure, one after the other [default: all]
    #[arg(value_name = "MODEL", value_parser = model)]
    models: Vec<&'static Model>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Dtype of weights and activations [default: what the model is usually run in]
    #[arg(long, value_enum)]
    dtype: Option<Precision>,

    /// Measured passes; the median is reported
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,

    /// Warm-up passes before those, and more until half a second has passed since the first; 0 for none
    #[arg(long, default_value_t = 3)]
    warmup: u32,

    /// Print the GPU time of each kernel in one more pass, slowest first
    #[arg(long, conflicts_with = "json")]
    profile: bool,

    /// Print one line of JSON per model instead of the table
    #[arg(long)]
    json: bool,

    /// Print the names of the models and exit
    #[arg(long)]
    list: bool,
}

fn model(name: &str) -> Result<&'static Model, String> {
    let found = MODELS.iter().find(|model| model.name == name);
    let names: Vec<_> = MODELS.iter().map(|model| model.name).collect();
    found.ok_or_else(|| format!("not one of {}", names.join(", ")))
}

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        for model in MODELS {
            println!("{:<26} {}", model.name, model.pass);
        }
        return Ok(());
    }
    let device = args.device.open()?;
    if !args.json {
        println!("{}", describe(&device));
        println!(
            "{:<26} {:<5} {:>11} {:>19} {:>10} {:>9}  pass",
            "model", "dtype", "ms (median)", "ms (min .. max)", "dispatches", "peak MiB"
        );
    }
    let all = || MODELS.iter().collect();
    let chosen = Some(args.models.clone()).filter(|models| !models.is_empty());
    let chosen = chosen.unwrap_or_else(all);
    let mut failed = 0;
    for model in &chosen {
        // The others are measured all the same.
        if let Err(e) = measure(args, model, &device, chosen.len() == 1) {
            eprintln!("{}: {e}", model.name);
            failed += 1;
        }
    }
    ensure!(
        failed == 0,
        "{failed} of {} models could not be measured",
        chosen.len()
    );
    Ok(())
}

/// `alone`: no other model was loaded, so the device's peak of memory is that of this one.
fn measure(args: &Args, model: &Model, device: &Device, alone: bool) -> anyhow::Result<()> {
    let dtype = args.dtype.map_or(model.dtype, Precision::dtype);
    let mut pass = (model.load)(random::weights(dtype, device))?;
    let mut timed = || {
        let start = Instant::now();
        pass()?;
        device.synchronize()?;
        anyhow::Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    warm_up(args.warmup, || timed().map(drop))?;
    let before = counters(device);
    let ms: Vec<f64> = (0..args.passes)
        .map(|_| timed())
        .collect::<anyhow::Result<_>>()?;
    let after = counters(device);
    let Some(ms) = Spread::of(ms) else {
        return Ok(());
    };
    let count = |(before, after): (_, _)| (after - before) as f64 / f64::from(args.passes);
    let dispatches = before
        .zip(after)
        .map(|(before, after)| count((before.dispatches, after.dispatches)));
    let peak_mib = after
        .filter(|_| alone)
        .map(|counters| counters.peak_bytes as f64 / 1048576.);
    if args.json {
        let description = describe(device);
        let line = json!({
            "model": model.name, "pass": model.pass, "dtype": dtype.as_str(), "ms": ms, "passes": args.passes,
            "dispatches": dispatches, "peak_mib": peak_mib,
            "device": description.device, "adapter": description.adapter,
        });
        println!("{line}");
        return Ok(());
    }
    let spread = format!("{:.2} .. {:.2}", ms.min, ms.max);
    let or_dash = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.0}"));
    println!(
        "{:<26} {:<5} {:>11.2} {spread:>19} {:>10} {:>9}  {}",
        model.name,
        dtype.as_str(),
        ms.median,
        or_dash(dispatches),
        or_dash(peak_mib),
        model.pass
    );
    if args.profile {
        let profile = profiled(device, || timed().map(drop))?;
        profile::print(&profile.kernels, 1);
    }
    Ok(())
}
