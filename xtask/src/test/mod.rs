//! `cargo xtask test`: every test of the repository, with cargo alone.

mod harness;
mod known;

use std::process::Command;

use anyhow::Result;

use crate::{fork, run, vulkan, web};
use harness::{Counts, Report};

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
    /// All cases where a part takes a sample of them (web), which takes hours
    #[arg(long)]
    all: bool,
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
    Variants,
    Fuzz,
    Models,
    Web,
}

const ALL: [(Part, &str); 9] = [
    (Part::Fork, "fork"),
    (Part::Wgsl, "wgsl"),
    (Part::Unit, "unit"),
    (Part::Upstream, "upstream"),
    (Part::Conformance, "conformance"),
    (Part::Variants, "variants"),
    (Part::Fuzz, "fuzz"),
    (Part::Models, "models"),
    (Part::Web, "web"),
];

/// The first graphs of one seed; `cargo xtask fuzz` goes further.
const GRAPHS: [&str; 4] = ["--seed", "1", "--cases", "400"];

pub fn main(args: Args) -> Result<bool> {
    let mut total = Counts::default();
    for (part, name) in ALL {
        let named = args.parts.contains(&part);
        if !named && !args.parts.is_empty() {
            continue;
        }
        let counts = run_part(part, &args).unwrap_or_else(|error| {
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

fn run_part(part: Part, args: &Args) -> Result<Counts> {
    if part == Part::Fork {
        let (passed, failed) = fork::check_all()?;
        return Ok(Counts {
            passed,
            failed,
            known: 0,
        });
    }
    fork::materialise_all(false)?;
    if !matches!(part, Part::Wgsl | Part::Web) {
        vulkan::ensure()?;
    }
    let mut counts = Counts::default();
    let mut add = |cargo: Command| -> Result<()> {
        counts.add(&run(args, cargo)?.counts());
        Ok(())
    };
    match part {
        Part::Fork => {}
        Part::Web => add(web(args)?)?,
        Part::Upstream => return upstream(args),
        Part::Wgsl => add(ours(args, &["wgsl"]))?,
        Part::Conformance => add(ours(
            args,
            &[
                "conformance",
                "errors",
                "reliability",
                "readback",
                "support",
            ],
        ))?,
        Part::Unit => {
            add(cargo_test(args, &["-p", "candle-webgpu"]))?;
            add(cargo_test(args, &["-p", "candle-examples"]))?;
            add(cargo_test(args, &["--manifest-path", "xtask/Cargo.toml"]))?;
        }
        Part::Variants => {
            // tests/conformance/variant.rs says what they are and which cases they run.
            for variant in [
                "checked",
                "portable",
                "as-gpu",
                "windows",
                "dot4",
                "portable-dot4",
            ] {
                println!("variant {variant}");
                let mut cargo = ours(args, &["conformance"]);
                cargo.env("CANDLE_WEBGPU_TEST_VARIANT", variant);
                add(cargo)?;
            }
        }
        Part::Fuzz => {
            // A graph has no name to filter by.
            let all = Args {
                filter: None,
                parts: Vec::new(),
                adapter: args.adapter.clone(),
                all: args.all,
                verbose: args.verbose,
            };
            let mut cargo = ours(&all, &["fuzz"]);
            cargo.args(["--device", "webgpu"]).args(GRAPHS);
            add(cargo)?;
            add(ours(args, &["seeds"]))?;
        }
        Part::Models => {
            add(ours(args, &["models", "zoo", "gguf", "dispatches"]))?;
            // The tests that download a model are ignored where nobody asks for them.
            let programs = ["bert", "whisper", "llama", "chat"].map(|name| ["--test", name]);
            let what = [&["-p", "candle-examples"][..], &programs.concat()].concat();
            let mut cargo = cargo_test(args, &what);
            cargo.arg("--ignored");
            add(cargo)?;
        }
    }
    Ok(counts)
}

/// The tests that upstream's `test_device!` makes, `zeros::webgpu` and the like, and those that name the CPU, in twins.
fn upstream(args: &Args) -> Result<Counts> {
    let crates = ["-p", "candle-core", "-p", "candle-nn", "--tests"];
    let features = ["--features", "candle-core/webgpu,candle-nn/webgpu"];
    let mut cargo = cargo_test(args, &[&crates[..], &features].concat());
    if args.filter.is_none() {
        cargo.arg("webgpu");
    }
    let mut report = run(args, cargo)?;
    report.tests.retain(|(name, _)| name.contains("webgpu"));
    report.add(run(args, ours(args, &["suites"]))?);
    let list = known::read(&crate::root()?.join("tests/known_upstream.txt"))?;
    Ok(known::judge(&report, &list, args.filter.is_none()))
}

/// The page, with its modules, and the program that drives a browser over it.
fn web(args: &Args) -> Result<Command> {
    let browser = web::browser::ensure()?;
    web::site(true)?;
    let mut cargo = cargo_test(args, &["-p", "candle-web", "--test", "browser"]);
    // One browser at a time; what it measures is printed.
    cargo.args(["--ignored", "--test-threads=1", "--nocapture"]);
    cargo.env(web::browser::BROWSER_VAR, browser);
    if args.all {
        cargo.env("CANDLE_WEB_EVERY", "1");
    }
    Ok(cargo)
}

/// Test programs of the folder tests/.
fn ours(args: &Args, programs: &[&str]) -> Command {
    let programs = programs.iter().flat_map(|name| ["--test", name]);
    let what: Vec<&str> = ["-p", "candle-webgpu-tests"]
        .into_iter()
        .chain(programs)
        .collect();
    cargo_test(args, &what)
}

/// A command to which arguments of the test programs can be added.
fn cargo_test(args: &Args, what: &[&str]) -> Command {
    let mut cargo = run::cargo();
    cargo
        .args(["test", "--no-fail-fast"])
        .args(what)
        .arg("--")
        .args(&args.filter);
    if let Some(adapter) = &args.adapter {
        cargo.env("CANDLE_WEBGPU_ADAPTER", adapter);
    }
    cargo
}

fn run(args: &Args, mut cargo: Command) -> Result<Report> {
    harness::run(&mut cargo, args.verbose)
}
