//! `cargo xtask test`: every test of the repository, with cargo alone.

mod harness;
mod known;
mod parts;
mod pool;
mod programs;

use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

use crate::fork;
use harness::{Counts, Report};
use parts::Part;
use pool::Job;
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

All parts are built at once, and their programs run two at a time, but for fork, which is first, and web, which is last.
Each part ends with a line `PART: N passed, N failed, N known failures`. Known failures of upstream's tests are listed
with their reasons in tests/known_upstream.txt; one that passes counts as failed, so that the list stays true.";

#[derive(clap::Args)]
pub struct Args {
    /// The parts to run; all but quick when none is named
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
    let start = Instant::now();
    let mut total = Counts::default();
    let mut say = |part: Part, counts: Result<Counts>| {
        let name = part.name();
        let counts = counts.unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Counts::failure()
        });
        println!(
            "{name}: {} passed, {} failed, {} known failures",
            counts.passed, counts.failed, counts.known
        );
        total.add(&counts);
    };
    let mut rest = asked_for(&args);
    if rest.first() == Some(&Part::Fork) {
        say(rest.remove(0), check_fork());
    }
    if !rest.is_empty() {
        let programs = build(&rest)?;
        let jobs = parts::jobs(&rest, &args, &programs)?;
        run(jobs, &args, &mut say);
        if rest.contains(&Part::Web) {
            match parts::web(&args, &programs) {
                Ok(jobs) => run(jobs, &args, &mut say),
                Err(error) => say(Part::Web, Err(error)),
            }
        }
    }
    println!(
        "total: {} passed, {} failed in {} s",
        total.passed,
        total.failed,
        start.elapsed().as_secs()
    );
    Ok(total.failed == 0)
}

fn asked_for(args: &Args) -> Vec<Part> {
    let asked = |part: &Part| match args.parts.is_empty() {
        true => *part != Part::Quick,
        false => args.parts.contains(part),
    };
    Part::value_variants()
        .iter()
        .copied()
        .filter(asked)
        .collect()
}

fn check_fork() -> Result<Counts> {
    let (passed, failed) = fork::check_all()?;
    Ok(Counts {
        passed,
        failed,
        known: 0,
    })
}

/// Runs the jobs, and says what a part comes to when its last one is done.
fn run(jobs: Vec<Job>, args: &Args, say: &mut impl FnMut(Part, Result<Counts>)) {
    let mut left: Vec<Part> = jobs.iter().map(|job| job.part).collect();
    let mut reports = Vec::<(Part, Report)>::new();
    pool::run(jobs, args.verbose, |part, report| {
        let report = report.unwrap_or_else(|error| {
            println!("{}: {error:#}", part.name());
            Report::broken()
        });
        reports.push((part, report));
        if let Some(at) = left.iter().position(|other| *other == part) {
            left.remove(at);
        }
        if !left.contains(&part) {
            let mut whole = Report::default();
            let (these, others) = reports.drain(..).partition(|(other, _)| *other == part);
            reports = others;
            let these: Vec<_> = these;
            these.into_iter().for_each(|(_, report)| whole.add(report));
            say(part, parts::judge(part, args, &whole));
        }
    });
}

/// What all parts chosen need, in one go.
fn build(chosen: &[Part]) -> Result<Vec<Program>> {
    fork::materialise_all(false)?;
    programs::build(&parts::selection(chosen))
}
