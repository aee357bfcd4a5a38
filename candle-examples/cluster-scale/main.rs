//! Predicts how fast a large model decodes on several machines, and checks the prediction against measurements of `cluster --bench`.

mod check;
mod formula;

use candle_examples::exit::{self, write};
use clap::Parser;
use formula::{pipeline_all, pipeline_one, tensor, Compute, Hop};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints tokens per second of a model that is split over several cards, by the formulas of docs/scale.md.
///
/// The defaults are LLaMA 70B in Q4_0 on cards with 1 TB/s.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Number of cards, one per machine
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: u32,

    /// Billions of weights
    #[arg(long, default_value_t = 70.6, value_parser = positive)]
    weights: f64,

    /// Bits per weight, block scales included
    #[arg(long, default_value_t = 4.5, value_parser = positive)]
    bits: f64,

    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=4096))]
    layers: u32,

    /// Elements of a hidden state
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    hidden: u32,

    /// Bytes of an element in messages
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=8))]
    wire: u32,

    /// Weights that a card reads per second while it decodes, in GB/s
    #[arg(long, default_value_t = 700., value_parser = positive)]
    memory: f64,

    /// Time per layer that does not shrink with the matrices, in µs
    #[arg(long, default_value_t = 60., value_parser = positive)]
    layer: f64,

    /// Reading a hidden state back, in µs
    #[arg(long, default_value_t = 180., value_parser = positive)]
    readback: f64,

    /// Uploading a hidden state, in µs
    #[arg(long, default_value_t = 20., value_parser = positive)]
    upload: f64,

    /// Links to compare: Gbit/s and the one-way latency of a small message in µs
    #[arg(long, value_delimiter = ',', default_value = "10:30,100:5", value_parser = link)]
    links: Vec<Link>,

    /// Compare the formulas with lines of `cluster --bench` and `cluster --measure-transfer` instead
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,

    /// The greatest ratio between prediction and measurement that --check accepts
    #[arg(long, default_value_t = 1.5, value_parser = positive)]
    within: f64,
}

/// Bytes per second and seconds.
#[derive(Clone, Copy, Debug)]
struct Link {
    gbit: f64,
    latency: f64,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0. && value.is_finite() => Ok(value),
        _ => Err("not a number above 0".to_string()),
    }
}

fn link(text: &str) -> Result<Link, String> {
    let (gbit, latency) = text.split_once(':').ok_or("not Gbit/s:µs, as in 10:30")?;
    Ok(Link {
        gbit: positive(gbit)?,
        latency: positive(latency)? / 1e6,
    })
}

fn main() -> ExitCode {
    let args = Args::parse();
    exit::report(match &args.check {
        Some(path) => check::run(path, args.within),
        None => table(&args),
    })
}

fn table(args: &Args) -> anyhow::Result<()> {
    let bytes = args.weights * 1e9 * args.bits / 8.;
    let fixed = f64::from(args.layers) * args.layer / 1e6;
    let compute = Compute {
        token: bytes / (args.memory * 1e9) + fixed,
        fixed,
    };
    let ranks = args.ranks as usize;
    let mut text = format!(
        "{} B weights of {} bits, {:.1} GB; {ranks} cards of {:.1} GB each\n\n",
        args.weights,
        args.bits,
        bytes / 1e9,
        bytes / 1e9 / f64::from(args.ranks),
    );
    text += "| link | pipeline, one sequence | pipeline, all sequences | tensor, one sequence |\n|---|---|---|---|\n";
    for link in &args.links {
        let hop = Hop {
            readback: args.readback / 1e6,
            upload: args.upload / 1e6,
            latency: link.latency,
            transmit: f64::from(args.hidden) * f64::from(args.wire) * 8. / (link.gbit * 1e9),
        };
        text += &format!(
            "| {} Gbit/s, {:.0} µs | {:.1} tok/s | {:.1} tok/s | {:.1} tok/s |\n",
            link.gbit,
            link.latency * 1e6,
            pipeline_one(compute, hop, ranks),
            pipeline_all(compute, hop, 1. / f64::from(args.ranks)),
            tensor(compute, hop, ranks, args.layers as usize),
        );
    }
    Ok(write(&text)?)
}
