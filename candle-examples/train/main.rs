//! Trains a small character-level LLaMA on any device.

mod data;
mod plot;
mod training;

use candle_core::Device;
use candle_examples::device::{describe, DeviceArgs};
use candle_examples::{exit, progress};
use clap::Parser;
use data::Text;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use training::{Options, Training};

/// Trains a small LLaMA to write a text letter by letter, plots the loss and prints a sample.
///
/// Weights and batches are generated on the host from the seed, so all devices start from the same state and see the
/// same data.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  train
  train --device webgpu --text alice --steps 1000 --plot alice.svg
  train --device webgpu --steps 50 --compare"
)]
struct Args {
    /// Training text: a file, or `alice` (Alice in Wonderland, downloaded from npm) [default: a built-in passage]
    #[arg(long, value_name = "FILE|alice")]
    text: Option<String>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Training steps
    #[arg(long, default_value_t = 200, value_parser = at_least_one)]
    steps: usize,

    /// Pieces of text per batch
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    batch: usize,

    /// Letters per piece (context length)
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    context: usize,

    /// Peak learning rate of AdamW, after a warm-up over the first tenth of the steps and before the decay over the
    /// rest
    #[arg(long, default_value_t = 3e-3)]
    learning_rate: f64,

    /// Random seed; equal seeds give equal runs
    #[arg(long, default_value_t = 299792458)]
    seed: u64,

    /// Also train on the CPU from the same seed, and print the largest difference of the losses
    #[arg(long)]
    compare: bool,

    /// Write the loss curve as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Letters of the sample that is written after training
    #[arg(long, value_name = "LETTERS", default_value_t = 120)]
    sample: usize,

    /// Print only one line of JSON, at the end
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("not a whole number above 0".to_string()),
    }
}

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

/// The result of one training run.
struct Run {
    label: String,
    losses: Vec<f32>,
    seconds: f64,
    sample: String,
}

fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let description = describe(&device);
    let text = Text::open(args.text.as_deref())?;
    text.check_context(args.context)?;
    if !args.json {
        eprintln!("device: {description}");
    }

    let mut runs = vec![train(args, &text, &device, description.to_string())?];
    if args.compare {
        runs.push(train(args, &text, &Device::Cpu, "cpu".to_string())?);
    }
    if let Some(path) = &args.plot {
        let curves: Vec<_> = runs
            .iter()
            .map(|r| (r.label.as_str(), &r.losses[..]))
            .collect();
        plot::write(path, &curves)?;
    }
    let difference = match &runs[..] {
        [a, b] => Some(largest_difference(&a.losses, &b.losses)),
        _ => None,
    };

    let mut stdout = io::stdout().lock();
    let first = &runs[0];
    if args.json {
        let line = serde_json::json!({
            "device": description.device,
            "adapter": description.adapter,
            "steps": args.steps,
            "losses": first.losses,
            "losses_cpu": runs.get(1).map(|r| &r.losses),
            "largest_difference": difference,
            "seconds": first.seconds,
            "sample": first.sample,
        });
        writeln!(stdout, "{line}")?;
        return Ok(());
    }
    for run in &runs {
        let [begin, end] = [run.losses.first(), run.losses.last()].map(|l| *l.unwrap_or(&0.));
        let rate = args.steps as f64 / run.seconds;
        eprintln!(
            "{}: loss {begin:.4} -> {end:.4}, {rate:.2} steps/s",
            run.label
        );
    }
    if let Some(difference) = difference {
        eprintln!("largest difference of the losses: {difference:.1e}");
    }
    if let Some(path) = &args.plot {
        eprintln!("plot: {}", path.display());
    }
    writeln!(stdout, "{}", first.sample)?;
    Ok(())
}

fn train(args: &Args, text: &Text, device: &Device, label: String) -> anyhow::Result<Run> {
    let options = Options {
        steps: args.steps,
        batch: args.batch,
        context: args.context,
        learning_rate: args.learning_rate,
        seed: args.seed,
    };
    let mut training = Training::new(text, &options, device)?;
    let bar = progress::steps("training", args.steps as u64);
    let start = Instant::now();
    let mut losses = Vec::with_capacity(args.steps);
    for _ in 0..args.steps {
        let loss = training.step()?;
        losses.push(loss);
        bar.set_message(format!("{label}, loss {loss:.3}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Run {
        label,
        losses,
        seconds: start.elapsed().as_secs_f64(),
        sample: training.sample(args.sample)?,
    })
}

/// NaN if either curve contains NaN.
fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0., |worst, d| if d <= worst { worst } else { d })
}
