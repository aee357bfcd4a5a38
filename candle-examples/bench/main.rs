//! How fast a device is at single ops, with the sizes that language models use.

mod compare;
mod measure;
mod ops;
mod plot;
mod results;
mod run;
mod table;
mod workload;

use candle_examples::device::DeviceArgs;
use candle_examples::exit;
use clap::{Parser, Subcommand};
use results::Results;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use workload::Scale;

/// Times single ops, and states their rates in GB/s or TFLOP/s.
///
/// An op is run again and again without waiting, for 20 ms or more a sample, after 50 ms of warming up. Where a WebGPU
/// adapter has timestamps, "us" is the GPU's time: from the first dispatch to the end of the last in each submit of some
/// 64, what is between them included, so that the host's time for small ops does not count; else, and with --wall, it is
/// the wall clock's, which "wall us" always is. The rate is what an op has to do at least (each byte of its inputs read
/// once, each byte of the result written once; or the arithmetic of a product) over the median of the samples. "of best"
/// compares that with what the same device reaches at a plain copy, or at a product in f32. A row whose op fails prints
/// the error.
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
    /// Print how two saved runs differ, row by row, the worst first
    Compare { old: PathBuf, new: PathBuf },
    /// Draw the rates of saved runs as bars, as SVG
    Plot {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The SVG
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(clap::Args, Debug)]
struct BenchArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Size of the tensors [default: small on the CPU and on adapters that compute in software, else full]
    #[arg(long, value_enum)]
    scale: Option<Scale>,

    /// Only rows whose name, as --list prints it, contains this text; may be given more than once
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,

    /// Samples of each row
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,

    /// Take times and rates from the wall clock, also where the adapter has timestamps
    #[arg(long)]
    wall: bool,

    /// Print the names of the rows and measure nothing; those of --scale full, but for --device cpu or --scale small
    #[arg(long)]
    list: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Write the JSON to a file named by date and device, in place of an earlier one of the same name
    /// [default folder: benches/results of the repository]
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
