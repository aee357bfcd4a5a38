//! `cargo xtask test`: runs every test of the repository; needs only cargo.

mod harness;
mod known;
mod parts;
mod pool;
mod programs;

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;

use crate::{fork, upstream};
use harness::{Counts, Report};
use parts::Part;
use pool::Job;
use programs::Program;

pub const HELP: &str = "\
Run the tests: all parts, or those named.

  fork         the patches apply to the pinned release, only insert lines, and export to the same bytes; the series of
               commits for Candle's repository cover the fork, and each compiles without warnings
  wgsl         every shader parses and validates, alone and linked (no GPU needed)
  unit         unit tests of candle-webgpu, its documentation, the examples and xtask
  shaders      a sample of the shaders through naga's SPIR-V, HLSL and MSL, DXC, and AMD's compiler (no GPU needed)
  upstream     candle-core's and candle-nn's own tests on the WebGPU device
  conformance  every op, dtype and layout against the CPU, with all fusion rules, and where rules fired also with none and with
               each one alone, in one of five cases of each group; errors; limits and faults; docs/SUPPORT.md
  variants     the affected part of the conformance suite with checked shaders, portable kernels, a GPU's kernels on a
               software adapter, integer dot products, and the inline executor; WebGPU's default limits; ops split to binding
               ranges of 64 KiB; most of them run a sample of each group, as docs/testing.md says
  fuzz         a fixed set of random expression graphs against the CPU, with rules as above; the libFuzzer seeds
  models       models of candle-transformers, dense and quantized, against the CPU; their dispatches; the examples on
               real models
  web          in headless Chromium: the page, one of 37 shaders of each kernel, and one of 37 cases of each group of the
               conformance suite

Two more parts run only when named:

  cluster      the example cluster on 1 to 4 ranks, and ranks that fail; installs Open MPI and libclang
  quick        unit tests of candle-webgpu, the shaders, errors, and one of 37 cases of each group of the conformance suite

fork runs first. Then all test programs and the page are built; the programs run two at a time.
Each part ends with a line `PART: N passed, N failed, N known failures`. tests/known_upstream.txt lists known failures of
upstream's tests with their reasons. A listed test that passes counts as failed, so that the list stays accurate.";

#[derive(clap::Args)]
pub struct Args {
    /// The parts to run [default: all but cluster and quick]
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// The adapter to test: its index or part of its name, for example llvmpipe
    #[arg(long)]
    adapter: Option<String>,
    /// Run only tests whose names contain this
    #[arg(long)]
    filter: Option<String>,
    /// Run all cases where a part runs a sample (shaders, conformance, variants, web, quick); web then takes hours
    #[arg(long)]
    all: bool,
    /// Also show tests that pass
    #[arg(long, short)]
    verbose: bool,
}

pub fn main(args: Args) -> Result<bool> {
    let start = Instant::now();
    let mut total = Counts::default();
    let mut say = |part: Part, counts: Result<Counts>| {
        let name = part.name();
        let mut counts = counts.unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Counts::failure()
        });
        println!(
            "{name}: {} passed, {} failed, {} known failures",
            counts.passed, counts.failed, counts.known
        );
        for test in &mut counts.names {
            *test = format!("{name}: {test}");
        }
        total.add(&counts);
    };
    let mut rest = asked_for(&args);
    if rest.first() == Some(&Part::Fork) {
        say(rest.remove(0), check_fork());
    }
    if !rest.is_empty() {
        let programs = match rest == [Part::Cluster] {
            true => Vec::new(),
            false => build(&rest)?,
        };
        let mut jobs = parts::jobs(&rest, &args, &programs)?;
        if rest.contains(&Part::Web) {
            match parts::web(&args, &programs) {
                // Among the longest, so it starts first.
                Ok(job) => jobs.insert(0, job),
                Err(error) => say(Part::Web, Err(error)),
            }
        }
        run(jobs, &args, &mut say);
    }
    // Again here, since the log of a whole run has thousands of lines.
    for test in &total.names {
        println!("FAILED {test}");
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
        true => !matches!(part, Part::Cluster | Part::Quick),
        false => args.parts.contains(part),
    };
    Part::value_variants()
        .iter()
        .copied()
        .filter(asked)
        .collect()
}

fn check_fork() -> Result<Counts> {
    let (patches, broken) = fork::check_all()?;
    // The series is compared with the trees, which a new clone does not have.
    fork::materialise_all(false)?;
    let (commits, incomplete) = upstream::check_all()?;
    Ok(Counts {
        passed: patches + commits,
        failed: broken + incomplete,
        ..Counts::default()
    })
}

/// Runs the jobs, and prints the counts of a part when its last job is done.
fn run(jobs: Vec<Job>, args: &Args, say: &mut impl FnMut(Part, Result<Counts>)) {
    // Of each part, the number of jobs left and the report of the others.
    let mut parts = HashMap::<Part, (usize, Report)>::new();
    for job in &jobs {
        parts.entry(job.part).or_default().0 += 1;
    }
    pool::run(jobs, args.verbose, |part, report| {
        let (left, whole) = parts.entry(part).or_default();
        whole.add(report.unwrap_or_else(|error| {
            println!("{}: {error:#}", part.name());
            Report::broken()
        }));
        *left -= 1;
        if *left == 0 {
            say(part, parts::judge(part, args, whole));
        }
    });
}

/// Builds the programs of all chosen parts with one cargo command.
fn build(chosen: &[Part]) -> Result<Vec<Program>> {
    fork::materialise_all(false)?;
    programs::build(&parts::selection(chosen))
}
