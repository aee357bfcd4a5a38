//! Times single ops on a device, at the sizes of language models.

mod run;

use candle_examples::bench::results::Results;
use candle_examples::bench::workload::Scale;
use candle_examples::bench::{compare, plot};
use candle_examples::device::DeviceArgs;
use candle_examples::exit;
use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Times single ops and prints their rates in GB/s or TFLOP/s.
///
/// Each op runs repeatedly without waiting, for at least 20 ms per sample, after a warm-up of 50 ms. If a WebGPU
/// adapter has timestamps, "us" is GPU time: from the first dispatch to the end of the last in each submit of some 64,
/// including the gaps between dispatches, so that the host's overhead for small ops does not count. Otherwise, and with
/// --wall, it is wall-clock time, which "wall us" always is. The rate is the op's minimum work (each input byte read
/// once and each output byte written once, or the arithmetic of a matmul) over the median sample. "of best" compares it
/// with the device's own rate for a plain copy or an f32 matmul. If an op fails, its row shows the error.
#[derive(Parser, Debug)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Examples:
  bench --device webgpu
  bench --device webgpu --filter gemv --filter softmax
  bench --device webgpu --save
  bench compare OLD.json NEW.json
  bench plot OLD.json NEW.json -o rates.svg"
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    bench: BenchArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Compare two saved runs, or reports of webgpu-info, row by row, the largest slowdown first
    Compare { old: PathBuf, new: PathBuf },
    /// Plot the rates of saved runs, or reports of webgpu-info, as an SVG bar chart
    Plot {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Output SVG file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(clap::Args, Debug)]
struct BenchArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Size of the tensors [default: small on the CPU and on software adapters, else full]
    #[arg(long, value_enum)]
    scale: Option<Scale>,

    /// Only rows whose name, as printed by --list, contains this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,

    /// Samples per row
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,

    /// Use wall-clock time even if the adapter has timestamps
    #[arg(long)]
    wall: bool,

    /// Print the row names and exit: those of --scale full, except with --device cpu or --scale small
    #[arg(long)]
    list: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Write the JSON to a file named by date and device, replacing an earlier one of that name [default folder:
    /// benches/results of the repository]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    save: Option<Option<PathBuf>>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    exit::report(match &args.command {
        None => run::main(&args.bench),
        Some(Command::Compare { old, new }) => compare(old, new),
        Some(Command::Plot { files, output }) => plot(files, output),
    })
}

fn compare(old: &std::path::Path, new: &std::path::Path) -> anyhow::Result<()> {
    let text = compare::report(&Results::load(old)?, &Results::load(new)?)?;
    write!(io::stdout(), "{text}")?;
    Ok(())
}

fn plot(files: &[PathBuf], output: &std::path::Path) -> anyhow::Result<()> {
    let files = files.iter().map(|path| Results::load(path));
    let files: Vec<_> = files.collect::<anyhow::Result<_>>()?;
    plot::write(output, &files)
}
