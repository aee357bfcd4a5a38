//! The parts of `cargo xtask test`: which programs each builds and runs.

use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::harness::{Counts, Report};
use super::pool::Job;
use super::programs::{self, Program, Selection};
use super::{known, Args};
use crate::{cluster, run, vulkan, web};

#[derive(Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Part {
    Fork,
    Wgsl,
    Unit,
    Shaders,
    Upstream,
    Conformance,
    Variants,
    Fuzz,
    Models,
    Web,
    Cluster,
    Quick,
}

impl Part {
    /// The name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

const UNIT: [&str; 2] = ["candle-webgpu", "candle-examples"];

const UPSTREAM: [&str; 2] = ["candle-core", "candle-nn"];

/// tests/conformance/variant.rs describes them and selects their cases. Those with their own shaders run first. Without `--all`, a
/// variant runs one of this many cases in each group: all of them would take longer than the suite itself.
const VARIANTS: [(&str, usize); 8] = [
    ("checked", 11),
    ("portable", 5),
    ("as-gpu", 5),
    ("dot4", 5),
    ("portable-dot4", 5),
    ("limits", 11),
    ("split", 5),
    ("inline", 5),
];

/// Runs one of this many cases in each group. A prime, since the cases of a group repeat periodically.
const EVERY_VAR: &str = "CANDLE_WEBGPU_TEST_EVERY";

const LIMITS: [&str; 5] = [
    "conformance",
    "errors",
    "reliability",
    "readback",
    "support",
];

/// Models of two layers and small dims.
const TINY_MODELS: [&str; 3] = ["zoo", "gguf", "dispatches"];

/// The first graphs of one seed. `cargo xtask fuzz` runs more.
const GRAPHS: [&str; 6] = ["--device", "webgpu", "--seed", "1", "--cases", "100"];

/// Mesa's variables that shorten llvmpipe's compilation: no optimization, and vectors of 128 bits instead of 256. Other drivers ignore
/// them. On an empty cache, `conformance binary/` took 27 s instead of more than 100.
const LLVMPIPE: [(&str, &str); 2] = [("GALLIVM_PERF", "nopt"), ("LP_NATIVE_VECTOR_WIDTH", "128")];

/// Cases of the conformance suite that compute long enough for llvmpipe to optimize their shaders; parts of names.
const LONG_CASES: [&str; 3] = ["quant/", "grid/", "large"];

/// The integration tests of candle-webgpu.
const KERNELS: [&str; 7] = [
    "environment",
    "fault",
    "fusion",
    "kernels",
    "profile",
    "rng",
    "runtime",
];

/// What to build for these parts.
pub fn selection(parts: &[Part]) -> Selection {
    let mut all = Selection::default();
    for part in parts {
        match part {
            Part::Fork => &mut all,
            // Also builds wgsl-dump, a program of the same package.
            Part::Wgsl | Part::Shaders => all.tests(&["wgsl"]),
            Part::Unit => all
                .packages(&UNIT)
                .targets(&["--lib", "--bins"])
                .tests(&KERNELS)
                .tests(&["programs"]),
            // Not by name, since upstream's next release may add test programs.
            Part::Upstream => all.packages(&UPSTREAM).targets(&["--tests"]),
            Part::Conformance => all.tests(&LIMITS),
            Part::Variants => all.tests(&["conformance"]),
            Part::Fuzz => all.tests(&["fuzz", "seeds"]),
            Part::Models => all
                .packages(&["candle-examples"])
                .tests(&TINY_MODELS)
                .tests(&["models", "programs"]),
            Part::Web => all.tests(&["browser"]),
            // Built apart from the others, with MPI.
            Part::Cluster => &mut all,
            Part::Quick => all
                .packages(&["candle-webgpu"])
                .targets(&["--lib"])
                .tests(&KERNELS)
                .tests(&["wgsl", "errors", "conformance"]),
        };
    }
    all
}

/// The jobs of these parts, except for web.
pub fn jobs(parts: &[Part], args: &Args, programs: &[Program]) -> Result<Vec<Job>> {
    let needs_gpu = |part: &Part| !matches!(part, Part::Wgsl | Part::Web);
    if parts.iter().any(needs_gpu) {
        vulkan::ensure()?;
    }
    let mut jobs = Vec::new();
    for &part in parts {
        let tests = Tests {
            part,
            args,
            programs,
        };
        jobs.extend(tests.jobs()?);
    }
    // Conformance takes longest. Variants run last, when Mesa's shader cache has the shaders that they share with it.
    jobs.sort_by_key(|job| match job.part {
        Part::Conformance => 0,
        Part::Variants => 2,
        _ => 1,
    });
    Ok(jobs)
}

/// Builds the page and its modules. Returns the job that tests them in a browser.
pub fn web(args: &Args, programs: &[Program]) -> Result<Job> {
    let part = Part::Web;
    let tests = Tests {
        part,
        args,
        programs,
    };
    let browser = web::browser::ensure()?;
    web::site(true)?;
    let mut command = tests.find("browser")?.command();
    // One browser at a time; `--nocapture` shows its measurements.
    command.args(["--ignored", "--test-threads=1", "--nocapture"]);
    command.env(web::browser::BROWSER_VAR, browser);
    if args.all {
        command.env("CANDLE_WEB_EVERY", "1");
    } else if args.filter.is_none() {
        // Chrome's software GPU takes minutes for an answer. The page with a smaller model is tested anyway.
        command.args(["--skip", "smollm2_answers_on_webgpu"]);
    }
    Ok(tests.filtered("browser", command))
}

/// The counts of a part.
pub fn judge(part: Part, args: &Args, report: &Report) -> Result<Counts> {
    if part != Part::Upstream {
        return Ok(report.counts());
    }
    let list = known::read(&crate::root()?.join("tests/known_upstream.txt"))?;
    Ok(known::judge(report, &list, args.filter.is_none()))
}

/// For jobs whose shaders mostly run once or twice on small tensors: compiling takes longer than running.
fn compiled_fast(mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        let own = LLVMPIPE
            .iter()
            .filter(|(name, _)| std::env::var_os(name).is_none());
        job.command.envs(own.copied());
    }
    jobs
}

struct Tests<'a> {
    part: Part,
    args: &'a Args,
    programs: &'a [Program],
}

impl Tests<'_> {
    fn jobs(&self) -> Result<Vec<Job>> {
        match self.part {
            Part::Fork | Part::Web => Ok(Vec::new()),
            Part::Cluster => Ok(vec![self.cluster()?]),
            Part::Wgsl => self.ours(&["wgsl"]),
            Part::Unit => {
                let mut jobs = self.of(&UNIT);
                jobs.extend([self.example(), self.xtask(), self.compilers()]);
                Ok(jobs)
            }
            Part::Shaders => Ok(vec![self.shaders()?]),
            Part::Upstream => self.upstream(),
            Part::Conformance => Ok(self.sample(self.conformance()?, 5)),
            Part::Variants => {
                let mut jobs = Vec::new();
                for (name, every) in VARIANTS {
                    jobs.extend(self.sample(vec![self.variant(name)?], every));
                }
                Ok(compiled_fast(jobs))
            }
            Part::Fuzz => {
                // Graphs have no names to filter by.
                let mut fuzz = self.find("fuzz")?.command();
                fuzz.args(GRAPHS);
                let mut jobs = self.ours(&["seeds"])?;
                jobs.push(self.job("fuzz", fuzz));
                Ok(compiled_fast(jobs))
            }
            Part::Models => {
                let mut jobs = compiled_fast(self.ours(&TINY_MODELS)?);
                jobs.extend(self.ours(&["models"])?);
                jobs.push(self.downloads()?);
                Ok(jobs)
            }
            Part::Quick => {
                let mut jobs = self.of(&["candle-webgpu"]);
                jobs.extend(self.ours(&["wgsl", "errors", "conformance"])?);
                Ok(self.sample(jobs, 37))
            }
        }
    }

    /// A job on the chosen adapter.
    fn job(&self, title: &str, mut command: Command) -> Job {
        if let Some(adapter) = &self.args.adapter {
            command.env("CANDLE_WEBGPU_ADAPTER", adapter);
        }
        Job {
            part: self.part,
            title: title.to_owned(),
            command,
            only: None,
        }
    }

    /// A job that runs the tests matching the filter.
    fn filtered(&self, title: &str, mut command: Command) -> Job {
        command.args(&self.args.filter);
        self.job(title, command)
    }

    /// One of our test targets. Upstream has none of the same name.
    fn find(&self, name: &str) -> Result<&Program> {
        let named = |p: &&Program| p.kind == "test" && p.name == name;
        let found = self.programs.iter().find(named);
        found.with_context(|| format!("no program {name}"))
    }

    fn ours(&self, names: &[&str]) -> Result<Vec<Job>> {
        let run = |name: &&str| Ok(self.filtered(name, self.find(name)?.command()));
        names.iter().map(run).collect()
    }

    /// All tests of these packages.
    fn of(&self, packages: &[&str]) -> Vec<Job> {
        let programs = self.programs.iter();
        let these = programs.filter(|p| packages.contains(&&*p.package));
        these
            .map(|p| self.filtered(&p.title(), p.command()))
            .collect()
    }

    /// The example in candle-webgpu's documentation.
    fn example(&self) -> Job {
        let mut cargo = run::cargo();
        cargo.args(["test", "--doc", "-p", "candle-webgpu"]);
        // The features that the other programs are built with.
        cargo.args(programs::ROOTS.iter().flat_map(|name| ["-p", name]));
        cargo.arg("--");
        self.filtered("candle-webgpu (doc)", cargo)
    }

    /// xtask's own tests, which are in another workspace.
    fn xtask(&self) -> Job {
        let mut cargo = run::cargo();
        cargo.args(["test", "--manifest-path", "xtask/Cargo.toml", "--"]);
        self.filtered("xtask", cargo)
    }

    /// Built apart from the others, since its naga has more features.
    fn compilers(&self) -> Job {
        let mut cargo = run::cargo();
        cargo.args(["test", "-p", "candle-webgpu-compilers", "--"]);
        self.filtered("shader-compilers", cargo)
    }

    /// The example cluster, which needs MPI.
    fn cluster(&self) -> Result<Job> {
        cluster::ensure_mpi()?;
        let mut cargo = run::cargo();
        cargo.args(["test", "-p", "candle-examples"]);
        // The features that the other programs are built with.
        cargo.args(programs::ROOTS.iter().flat_map(|name| ["-p", name]));
        cargo.args(["--features", "candle-examples/mpi"]);
        cargo.args(["--bin", "cluster", "--test", "cluster", "--"]);
        Ok(self.filtered("cluster", cargo))
    }

    /// `cargo xtask shaders`, whose output is that of a test program with `--tests`.
    fn shaders(&self) -> Result<Job> {
        let mut command = Command::new(std::env::current_exe()?);
        run::prepare(&mut command);
        command.arg("shaders");
        command.args(self.args.all.then_some("--all"));
        command.args(["--", "--tests"]);
        let filter = self.args.filter.iter();
        command.args(filter.flat_map(|name| ["--filter", name]));
        Ok(self.job("shaders", command))
    }

    /// The tests that upstream's `test_device!` generates, such as `zeros::webgpu`, and copies of its CPU tests (`suites`).
    fn upstream(&self) -> Result<Vec<Job>> {
        let mut jobs = self.of(&UPSTREAM);
        for job in &mut jobs {
            job.only = Some("webgpu");
            if self.args.filter.is_none() {
                job.command.arg("webgpu");
            }
        }
        jobs.extend(self.ours(&["suites"])?);
        Ok(jobs)
    }

    /// A sample leaves [`LONG_CASES`] to jobs of their own. The whole suite checks that each rule has a case, so it is one job.
    fn conformance(&self) -> Result<Vec<Job>> {
        let mut jobs = compiled_fast(self.ours(&LIMITS)?);
        if self.args.all || self.args.filter.is_some() {
            return Ok(jobs);
        }
        for name in LONG_CASES {
            jobs[0].command.args(["--skip", name]);
            let mut command = self.find("conformance")?.command();
            command.arg(name);
            jobs.push(self.job(&format!("conformance {name}"), command));
        }
        Ok(jobs)
    }

    fn variant(&self, name: &str) -> Result<Job> {
        let mut command = self.find("conformance")?.command();
        command.env("CANDLE_WEBGPU_TEST_VARIANT", name);
        Ok(self.filtered(&format!("variant {name}"), command))
    }

    /// Without `--all`, runs one of `every` cases in each group of the conformance suite.
    fn sample(&self, mut jobs: Vec<Job>, every: usize) -> Vec<Job> {
        for job in jobs.iter_mut().filter(|_| !self.args.all) {
            job.command.env(EVERY_VAR, every.to_string());
        }
        jobs
    }

    /// The tests of the examples that download models. They are `#[ignore]`d by default.
    fn downloads(&self) -> Result<Job> {
        let mut command = self.find("programs")?.command();
        command.arg("--ignored");
        Ok(self.filtered("programs, real models", command))
    }
}
