//! `cargo xtask test`: every test of the repository, with cargo alone.

mod harness;
mod known;
mod parts;
mod programs;

use std::time::Instant;

use anyhow::Result;

use crate::fork;
use harness::Counts;
use parts::{Part, ALL};
use programs::Program;

pub const HELP: &str = "\
Run the tests, all of them or the parts named:

  fork         the patches apply to the pinned release, only insert, and export to the same bytes
  wgsl         every shader parses and validates, alone and linked (no GPU needed)
  unit         unit tests of candle-webgpu, of the examples and of xtask
  upstream     candle-core's and candle-nn's own tests, on the WebGPU device
  conformance  every op, dtype and layout against the CPU, with all rules of the recorder, and where some fired with none and
               each of them; errors; limits and faults; the table of docs/SUPPORT.md
  variants     the part of it that they can change, with checked shaders, with the portable twins of kernels, with those
               that a software adapter does without, and with quantized products in integers; all of it with tensors in
               pieces of 64 KiB at most
  fuzz         random expression graphs against the CPU, with rules as above: the same ones each time; the seeds of fuzz/
  models       models of candle-transformers, quantized ones too, against the CPU; their dispatches; the examples on
               real models
  web          in a headless Chromium: the page, every shader, and one of 37 cases of each group of the conformance suite

and one for the edit loop, which runs only when it is named:

  quick        unit tests of candle-webgpu, the shaders, errors, and one of 37 cases of each group of the conformance suite

Each part ends with a line `PART: N passed, N failed, N known failures`. Known failures of upstream's tests are listed
with their reasons in tests/known_upstream.txt; one that passes counts as failed, so that the list stays true.";

#[derive(clap::Args)]
pub struct Args {
    /// The parts to run, in the order above; all but quick when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// The adapter to test: its rank, or a part of its name, for example llvmpipe
    #[arg(long)]
    adapter: Option<String>,
    /// Only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// All cases where a part takes a sample of them (web), which takes hours
    #[arg(long)]
    all: bool,
    /// Show the tests that pass, too
    #[arg(long, short)]
    verbose: bool,
}

pub fn main(args: Args) -> Result<bool> {
    let asked = |part: Part| match args.parts.is_empty() {
        true => part != Part::Quick,
        false => args.parts.contains(&part),
    };
    let chosen: Vec<_> = ALL.into_iter().filter(|(part, _)| asked(*part)).collect();
    let mut total = Counts::default();
    let mut programs = None;
    for (part, name) in &chosen {
        let start = Instant::now();
        let counts = match part {
            Part::Fork => check_fork(),
            _ => {
                let programs = match &programs {
                    Some(built) => built,
                    None => programs.insert(build(&chosen)?),
                };
                parts::run(*part, &args, programs)
            }
        };
        let counts = counts.unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Counts::failure()
        });
        println!(
            "{name}: {} passed, {} failed, {} known failures in {} s",
            counts.passed,
            counts.failed,
            counts.known,
            start.elapsed().as_secs()
        );
        total.add(&counts);
    }
    println!("total: {} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn check_fork() -> Result<Counts> {
    let (passed, failed) = fork::check_all()?;
    Ok(Counts {
        passed,
        failed,
        known: 0,
    })
}

/// What all parts chosen need, in one go.
fn build(chosen: &[(Part, &str)]) -> Result<Vec<Program>> {
    fork::materialise_all(false)?;
    programs::build(&parts::selection(chosen.iter().map(|(part, _)| *part)))
}
