//! The command line.

use crate::{adapters, report};
use candle_examples::device::{DeviceArgs, DeviceKind};
use clap::Parser;
use std::path::PathBuf;

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

    /// Seconds for the checks of --report, and again for its timings
    #[arg(long, default_value_t = 60, requires = "report")]
    seconds: u64,
}

pub fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let wanted = DeviceArgs {
        device: DeviceKind::Webgpu,
        adapter: args.adapter,
    };
    match args.report {
        Some(file) => report::run(&wanted, file.as_deref(), args.seconds),
        None => adapters::run(&wanted, args.json),
    }
}
