//! `cargo xtask test`: every test of the repository, with cargo alone.

mod harness;
mod known;

use std::process::Command;

use anyhow::{bail, Result};

use crate::{fork, run, vulkan};
use harness::{Counts, Report};

pub const HELP: &str = "\
Run the tests, all of them or the parts named:

  fork         the patches apply to the pinned release, only insert, and export to the same bytes
  wgsl         every shader parses and validates, alone and linked (no GPU needed)
  unit         unit tests of candle-webgpu, of the examples and of xtask
  upstream     candle-core's and candle-nn's own tests, on the WebGPU device
  conformance  every op, dtype and layout against the CPU
  models       models of candle-transformers against the CPU

Each part ends with a line `PART: N passed, N failed, N known failures`. Known failures of upstream's tests are listed
with their reasons in tests/known_upstream.txt; one that passes counts as failed, so that the list stays true.";

#[derive(clap::Args)]
pub struct Args {
    /// The parts to run, in this order; all when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// The adapter to test: its rank, or a part of its name, for example llvmpipe
    #[arg(long)]
    adapter: Option<String>,
    /// Only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Show the tests that pass, too
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Fork,
    Wgsl,
    Unit,
    Upstream,
    Conformance,
    Models,
}

const ALL: [(Part, &str); 6] = [
    (Part::Fork, "fork"),
    (Part::Wgsl, "wgsl"),
    (Part::Unit, "unit"),
    (Part::Upstream, "upstream"),
    (Part::Conformance, "conformance"),
    (Part::Models, "models"),
];

pub fn main(args: Args) -> Result<bool> {
    let mut total = Counts::default();
    for (part, name) in ALL {
        if !args.parts.is_empty() && !args.parts.contains(&part) {
            continue;
        }
        let counts = run_part(part, name, &args).unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Counts::failure()
        });
        println!(
            "{name}: {} passed, {} failed, {} known failures",
            counts.passed, counts.failed, counts.known
        );
        total.add(&counts);
    }
    println!("total: {} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn run_part(part: Part, name: &str, args: &Args) -> Result<Counts> {
    if part == Part::Fork {
        let (passed, failed) = fork::check_all()?;
        return Ok(Counts {
            passed,
            failed,
            known: 0,
        });
    }
    fork::materialise_all(false)?;
    if part != Part::Wgsl {
        vulkan::ensure()?;
    }
    match part {
        Part::Unit => {
            let mut counts = test(args, &["-p", "candle-webgpu"])?;
            let examples = test(args, &["-p", "candle-examples"])?;
            counts.add(&examples);
            counts.add(&test(args, &["--manifest-path", "xtask/Cargo.toml"])?);
            Ok(counts)
        }
        Part::Upstream => upstream(args),
        _ => {
            if !crate::root()?.join("tests/Cargo.toml").exists() {
                bail!("the folder tests/ has no manifest");
            }
            let mut what = vec!["-p", "candle-webgpu-tests", "--test", name];
            if part == Part::Conformance {
                what.extend(["--test", "errors"]);
            }
            if part == Part::Models {
                what.extend(["--test", "zoo"]);
            }
            test(args, &what)
        }
    }
}

fn test(args: &Args, what: &[&str]) -> Result<Counts> {
    Ok(run_tests(args, what)?.counts())
}

fn run_tests(args: &Args, what: &[&str]) -> Result<Report> {
    let mut cargo = cargo_test(args, what);
    if let Some(filter) = &args.filter {
        cargo.args(["--", filter]);
    }
    harness::run(&mut cargo, args.verbose)
}

/// The tests that upstream's `test_device!` makes, `zeros::webgpu` and the like, and those that name the CPU, in twins.
fn upstream(args: &Args) -> Result<Counts> {
    let mut cargo = cargo_test(
        args,
        &[
            "-p",
            "candle-core",
            "-p",
            "candle-nn",
            "--features",
            "candle-core/webgpu,candle-nn/webgpu",
            "--tests",
        ],
    );
    let filter = args.filter.as_deref().unwrap_or("webgpu");
    cargo.args(["--", filter]);
    let mut report = harness::run(&mut cargo, args.verbose)?;
    report.tests.retain(|(name, _)| name.contains("webgpu"));
    report.add(run_tests(
        args,
        &["-p", "candle-webgpu-tests", "--test", "suites"],
    )?);
    let list = known::read(&crate::root()?.join("tests/known_upstream.txt"))?;
    Ok(known::judge(&report, &list, args.filter.is_none()))
}

fn cargo_test(args: &Args, what: &[&str]) -> Command {
    let mut cargo = run::cargo();
    cargo.args(["test", "--no-fail-fast"]).args(what);
    if let Some(adapter) = &args.adapter {
        cargo.env("CANDLE_WEBGPU_ADAPTER", adapter);
    }
    cargo
}
