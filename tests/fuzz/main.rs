//! Random expression graphs on the device against the CPU.
//!
//!     cargo xtask fuzz [--seconds N | --cases N] [--seed S]
//!
//! A graph is run on the device lazily, with nothing read back before its end, and step by step, with each node read back
//! at once. Both must give the same bits (any NaN is as good as another). Each node of the stepwise run is computed on the
//! CPU, too, from what its operands hold on the device, and compared by the bounds of the conformance suite: every comparison
//! is of one op, so no error grows through a graph. Where rules of the recorder rewrote something in the lazy run, there are
//! more of it: with all rules off, and with each of those alone (`rules.rs`).

#[path = "../conformance/bits.rs"]
mod bits;
#[allow(dead_code)] // Shared with the conformance suite, as are the one before and the next.
#[path = "../conformance/bound.rs"]
mod bound;
#[allow(dead_code)]
#[path = "../conformance/case.rs"]
mod case;
mod check;
mod draw;
mod family;
mod gradient;
mod graph;
#[allow(dead_code)]
#[path = "../conformance/input.rs"]
mod input;
mod judge;
mod known;
mod leaf;
mod op;
mod rules;
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
use shrink::Shrinker;
use tally::Tally;

/// Draws random expression graphs, runs them on a device and on the CPU, and compares.
///
/// The first failure is made small and printed as a program, with the seed that draws its graph again; the exit
/// status is then 1. Equal seeds draw equal graphs.
#[derive(Parser, Debug)]
#[command(name = "fuzz", bin_name = "fuzz")]
struct Args {
    /// How long to go on
    #[arg(long, default_value_t = 60, conflicts_with = "cases")]
    seconds: u64,

    /// How many graphs to draw, instead of a time
    #[arg(long)]
    cases: Option<u64>,

    /// Seed of the first graph; the next has the next number. Without it the clock chooses
    #[arg(long)]
    seed: Option<u64>,

    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,

    /// Print each graph before it runs
    #[arg(long, short)]
    verbose: bool,

    #[command(flatten)]
    device: DeviceArgs,
}

fn main() -> ExitCode {
    // The CPU's thread pool stays poisoned after a panic in it (0.11.1), as of integers that wrap; without helpers there
    // is no pool. Set before any other thread runs.
    std::env::set_var("CANDLE_NUM_THREADS", "1");
    // Panics are outcomes here: those of the CPU are judged, those of the device are findings.
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
    // In the words of libtest, whose output `cargo xtask test` counts.
    let passed = tally.failures == 0;
    let outcome = if passed { "ok" } else { "FAILED" };
    println!("test {} graphs from seed {seed} ... {outcome}", tally.cases);
    Ok(passed)
}

/// One graph; false if it fails.
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
