//! Random expression graphs on the device against the CPU.
//!
//!     cargo xtask fuzz [--seconds N | --cases N] [--seed S]
//!
//! A graph runs on the device lazily, with nothing read back before its end, and stepwise, with each node read back at
//! once. Both runs must give the same bits (all NaNs are equal). Each node of the stepwise run is also computed on the
//! CPU from the device's operands and compared within the bounds of the conformance suite: every comparison is of one
//! op, so errors do not grow through a graph. If fusion rules fired in the lazy run, it is repeated with all rules off
//! and with each of those rules alone (`rules.rs`).

mod check;
mod draw;
mod family;
mod gradient;
mod graph;
mod judge;
mod known;
mod leaf;
mod op;
mod rules;
#[path = "../shared/mod.rs"]
mod shared;
mod shrink;
mod snippet;
mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use candle_core::Device;
use candle_examples::device::{describe, DeviceArgs};
use check::{check, Case, Kind};
use clap::Parser;
use rules::Rules;
use shared::{bits, bound, input, ops};
use shrink::Shrinker;
use tally::Tally;

/// Draws random expression graphs, runs them on a device and on the CPU, and compares.
///
/// The first failure is shrunk and printed as a program, with the seed of its graph; the exit status is then 1. Equal
/// seeds draw equal graphs.
#[derive(Parser, Debug)]
#[command(name = "fuzz", bin_name = "fuzz")]
struct Args {
    /// How long to run
    #[arg(long, default_value_t = 60, conflicts_with = "cases")]
    seconds: u64,

    /// How many graphs to draw, instead of a duration
    #[arg(long)]
    cases: Option<u64>,

    /// Seed of the first graph; each further graph adds 1. The default comes from the clock
    #[arg(long)]
    seed: Option<u64>,

    /// Continue after a failure
    #[arg(long)]
    keep_going: bool,

    /// Print each graph before it runs
    #[arg(long, short)]
    verbose: bool,

    #[command(flatten)]
    device: DeviceArgs,
}

fn main() -> ExitCode {
    // The CPU's thread pool stays poisoned after a panic in it, for example of integers that wrap (0.11.1); one thread
    // needs no pool. Set before any other thread runs.
    std::env::set_var("CANDLE_NUM_THREADS", "1");
    // Panics are outcomes: those of the CPU are judged, those of the device are findings.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !graph::is_guarded() {
            hook(info);
        }
    }));
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let device = args.device.open()?;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let seed = args.seed.unwrap_or(clock);
    println!("device: {}\nseed: {seed}", describe(&device));

    let (start, mut tally) = (Instant::now(), Tally::default());
    let mut rules = Rules::new(&device);
    for n in 0.. {
        let go_on = match args.cases {
            Some(cases) => n < cases,
            None => start.elapsed() < Duration::from_secs(args.seconds),
        };
        if !go_on {
            break;
        }
        let seed = seed.wrapping_add(n);
        if !one(seed, &device, args.verbose, &mut rules, &mut tally)
            .with_context(|| format!("seed {seed} (--seed {seed} --cases 1)"))?
            && !args.keep_going
        {
            break;
        }
        tally.progress(start.elapsed());
    }
    tally.print(start.elapsed());
    rules.print();
    // In libtest's format, which `cargo xtask test` counts.
    let passed = tally.failures == 0;
    let outcome = if passed { "ok" } else { "FAILED" };
    println!("test {} graphs from seed {seed} ... {outcome}", tally.cases);
    Ok(passed)
}

/// Checks one graph; false if it fails.
fn one(
    seed: u64,
    device: &Device,
    verbose: bool,
    rules: &mut Rules,
    tally: &mut Tally,
) -> Result<bool> {
    let case = Case::new(seed)?;
    if verbose {
        println!(
            "seed {seed}\n{}",
            snippet::program(&case.graph, case.graph.nodes.len() - 1, Kind::Differs)?
        );
    }
    tally.cases += 1;
    let failure = check(&case.graph, &case.plan, device, rules, |node, step| {
        tally.count(node, step)
    })?;
    let Some(failure) = failure else {
        return Ok(true);
    };
    tally.failures += 1;
    let name = case.graph.name(failure.node);
    println!("\nFAILED: {name}, {:?}: {}", failure.kind, failure.message);
    println!("again: --seed {seed} --cases 1");
    let mut shrinker = Shrinker::new(case.graph.clone(), &case.plan, failure, device, rules);
    shrinker.shrink()?;
    let Shrinker { graph, failure, .. } = shrinker;
    println!("smaller: {:?}: {}", failure.kind, failure.message);
    println!(
        "\n{}",
        snippet::program(&graph, failure.node, failure.kind)?
    );
    Ok(false)
}
