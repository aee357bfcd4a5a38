//! The command line.

use crate::{adapters, probe, report, tune};
use candle_examples::device::{DeviceArgs, DeviceKind};
use candle_examples::random::{self, Preset};
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Lists the WebGPU adapters, and the features of the selected one that Candle uses.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Select this adapter: its number or part of its name
    #[arg(long, value_name = "NAME|INDEX")]
    adapter: Option<String>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "report")]
    json: bool,

    /// Check and time the selected adapter, and print or write a text to paste into an issue
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    report: Option<Option<PathBuf>>,

    /// Try each optional feature in a process of its own; later programs do without those that fail
    #[arg(long, conflicts_with_all = ["json", "report"])]
    probe: bool,

    /// Measure which tiles, parts of sums, kernels and submits are fast, on whole passes of a LLaMA in processes of their own;
    /// later programs use what is found. Takes minutes
    #[arg(long, conflicts_with_all = ["json", "report", "probe"])]
    tune: bool,

    /// The LLaMA of --tune [default: tinyllama-1.1b; tiny on software adapters]
    #[arg(long, value_parser = random::shape())]
    shape: Option<&'static Preset>,

    /// Seconds for the checks of --report, and again for its timings [default: 60]; for each feature of --probe
    /// [default: 10]; after which --tune tries nothing more [default: 1200]
    #[arg(long)]
    seconds: Option<u64>,

    /// Check the device as a part of --probe
    #[arg(long, hide = true)]
    probe_child: bool,

    /// Measure as a part of --tune
    #[arg(long, hide = true)]
    tune_child: bool,
}

pub fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let wanted = DeviceArgs {
        device: DeviceKind::Webgpu,
        adapter: args.adapter,
    };
    let seconds = |default| Duration::from_secs(args.seconds.unwrap_or(default));
    match args.report {
        Some(file) => report::run(&wanted, file.as_deref(), seconds(60)),
        None if args.probe => probe::run(&wanted, seconds(10)),
        None if args.probe_child => probe::as_child(&wanted, seconds(10)),
        None if args.tune => tune::run(&wanted, args.shape, seconds(1200)),
        None if args.tune_child => tune::as_child(&wanted, args.shape),
        None => adapters::run(&wanted, args.json),
    }
}
