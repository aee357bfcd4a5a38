//! The parts of `cargo xtask test`: which programs each builds and runs.

use std::process::Command;

use anyhow::{Context, Result};

use super::harness::{self, Counts, Report};
use super::programs::{Program, Selection};
use super::{known, Args};
use crate::{run, vulkan, web};

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    Fork,
    Wgsl,
    Unit,
    Upstream,
    Conformance,
    Variants,
    Fuzz,
    Models,
    Web,
    Quick,
}

pub const ALL: [(Part, &str); 10] = [
    (Part::Fork, "fork"),
    (Part::Wgsl, "wgsl"),
    (Part::Unit, "unit"),
    (Part::Upstream, "upstream"),
    (Part::Conformance, "conformance"),
    (Part::Variants, "variants"),
    (Part::Fuzz, "fuzz"),
    (Part::Models, "models"),
    (Part::Web, "web"),
    (Part::Quick, "quick"),
];

const UNIT: [&str; 2] = ["candle-webgpu", "candle-examples"];

const UPSTREAM: [&str; 2] = ["candle-core", "candle-nn"];

/// tests/conformance/variant.rs says what they are and which cases they run.
const VARIANTS: [&str; 7] = [
    "checked",
    "portable",
    "as-gpu",
    "split",
    "inline",
    "dot4",
    "portable-dot4",
];

const LIMITS: [&str; 5] = [
    "conformance",
    "errors",
    "reliability",
    "readback",
    "support",
];

const MODELS: [&str; 4] = ["models", "zoo", "gguf", "dispatches"];

/// The first graphs of one seed; `cargo xtask fuzz` goes further.
const GRAPHS: [&str; 6] = ["--device", "webgpu", "--seed", "1", "--cases", "400"];

/// One case of so many in each group; a prime, since groups have periods.
const SAMPLE: &str = "37";

const KERNELS: [&str; 4] = ["kernels", "runtime", "fault", "rng"];

/// What these parts run.
pub fn selection(parts: impl Iterator<Item = Part>) -> Selection {
    let mut all = Selection::default();
    for part in parts {
        match part {
            Part::Fork => &mut all,
            Part::Wgsl => all.tests(&["wgsl"]),
            Part::Unit => all
                .packages(&UNIT)
                .targets(&["--lib", "--bins"])
                .tests(&KERNELS)
                .tests(&["programs"]),
            // Upstream's next release may bring programs of other names.
            Part::Upstream => all.packages(&UPSTREAM).targets(&["--tests"]),
            Part::Conformance => all.tests(&LIMITS),
            Part::Variants => all.tests(&["conformance"]),
            Part::Fuzz => all.tests(&["fuzz", "seeds"]),
            Part::Models => all
                .packages(&["candle-examples"])
                .tests(&MODELS)
                .tests(&["programs"]),
            Part::Web => all.tests(&["browser"]),
            Part::Quick => all
                .packages(&["candle-webgpu"])
                .targets(&["--lib"])
                .tests(&KERNELS)
                .tests(&["wgsl", "errors", "conformance"]),
        };
    }
    all
}

pub fn run(part: Part, args: &Args, programs: &[Program]) -> Result<Counts> {
    if !matches!(part, Part::Wgsl | Part::Web) {
        vulkan::ensure()?;
    }
    let tests = Tests { args, programs };
    let mut report = Report::default();
    match part {
        Part::Fork => {}
        Part::Wgsl => report.add(tests.ours(&["wgsl"])?),
        Part::Unit => {
            report.add(tests.of(&UNIT)?);
            report.add(tests.xtask()?);
        }
        Part::Upstream => return tests.upstream(),
        Part::Conformance => report.add(tests.ours(&LIMITS)?),
        Part::Variants => {
            for name in VARIANTS {
                report.add(tests.variant(name)?);
            }
        }
        Part::Fuzz => {
            // A graph has no name to filter by.
            let mut fuzz = tests.find("fuzz")?.command();
            report.add(tests.run("fuzz", fuzz.args(GRAPHS))?);
            report.add(tests.ours(&["seeds"])?);
        }
        Part::Models => {
            report.add(tests.ours(&MODELS)?);
            report.add(tests.downloads()?);
        }
        Part::Web => report.add(tests.web()?),
        Part::Quick => {
            report.add(tests.of(&["candle-webgpu"])?);
            report.add(tests.ours(&["wgsl", "errors"])?);
            report.add(tests.sample()?);
        }
    }
    Ok(report.counts())
}

struct Tests<'a> {
    args: &'a Args,
    programs: &'a [Program],
}

impl Tests<'_> {
    /// Runs the command to its end, on the adapter asked for.
    fn run(&self, title: &str, command: &mut Command) -> Result<Report> {
        if let Some(adapter) = &self.args.adapter {
            command.env("CANDLE_WEBGPU_ADAPTER", adapter);
        }
        harness::run(title, command, self.args.verbose)
    }

    /// Runs the tests that the filter keeps.
    fn filtered(&self, title: &str, command: &mut Command) -> Result<Report> {
        self.run(title, command.args(&self.args.filter))
    }

    /// A program that is a test target; upstream has none of our names.
    fn find(&self, name: &str) -> Result<&Program> {
        let named = |p: &&Program| p.kind == "test" && p.name == name;
        let found = self.programs.iter().find(named);
        found.with_context(|| format!("no program {name}"))
    }

    fn ours(&self, names: &[&str]) -> Result<Report> {
        let mut report = Report::default();
        for name in names {
            report.add(self.filtered(name, &mut self.find(name)?.command())?);
        }
        Ok(report)
    }

    /// All tests of these packages.
    fn of(&self, packages: &[&str]) -> Result<Report> {
        let mut report = Report::default();
        let programs = self.programs.iter();
        for program in programs.filter(|p| packages.contains(&&*p.package)) {
            report.add(self.filtered(&program.title(), &mut program.command())?);
        }
        Ok(report)
    }

    /// Ours, which are of another workspace.
    fn xtask(&self) -> Result<Report> {
        let mut cargo = run::cargo();
        cargo.args(["test", "--manifest-path", "xtask/Cargo.toml", "--"]);
        self.filtered("xtask", &mut cargo)
    }

    /// The tests that upstream's `test_device!` makes, `zeros::webgpu` and the like, and those that name the CPU, in twins.
    fn upstream(&self) -> Result<Counts> {
        let mut report = Report::default();
        let programs = self.programs.iter();
        for program in programs.filter(|p| UPSTREAM.contains(&&*p.package)) {
            let mut command = program.command();
            if self.args.filter.is_none() {
                command.arg("webgpu");
            }
            report.add(self.filtered(&program.title(), &mut command)?);
        }
        report.tests.retain(|(name, _)| name.contains("webgpu"));
        report.add(self.ours(&["suites"])?);
        let list = known::read(&crate::root()?.join("tests/known_upstream.txt"))?;
        Ok(known::judge(&report, &list, self.args.filter.is_none()))
    }

    fn variant(&self, name: &str) -> Result<Report> {
        let mut command = self.find("conformance")?.command();
        command.env("CANDLE_WEBGPU_TEST_VARIANT", name);
        self.filtered(&format!("variant {name}"), &mut command)
    }

    fn sample(&self) -> Result<Report> {
        let mut command = self.find("conformance")?.command();
        if !self.args.all {
            command.env("CANDLE_WEBGPU_TEST_EVERY", SAMPLE);
        }
        self.filtered("conformance", &mut command)
    }

    /// The tests of the examples that download a model, which are ignored where nobody asks for them.
    fn downloads(&self) -> Result<Report> {
        let program = self.find("programs")?;
        let mut command = program.command();
        self.filtered("programs, real models", command.arg("--ignored"))
    }

    /// The page, with its modules, and the program that drives a browser over it.
    fn web(&self) -> Result<Report> {
        let browser = web::browser::ensure()?;
        web::site(true)?;
        let mut command = self.find("browser")?.command();
        // One browser at a time; what it measures is printed.
        command.args(["--ignored", "--test-threads=1", "--nocapture"]);
        command.env(web::browser::BROWSER_VAR, browser);
        if self.args.all {
            command.env("CANDLE_WEB_EVERY", "1");
        }
        self.filtered("browser", &mut command)
    }
}
