//! Limits and faults: each gives an `Err` that names the cause, and nothing else breaks. Each case runs in its own
//! process, this program again, since a process shares the device with its faults, and the environment configures it.
//!
//!     cargo test -p candle-webgpu-tests --test reliability

mod adapters;
mod debug;
#[path = "../gguf/family.rs"]
#[allow(dead_code, reason = "its facts about logits are for tests/gguf")]
mod family;
mod files;
mod lost;
mod memory;
#[allow(dead_code, reason = "only tests/dispatches counts")]
#[path = "../zoo/passes.rs"]
mod passes;
mod threads;

use std::process::{Command, ExitCode};

use anyhow::{bail, ensure, Context, Result};
use candle_core::{Device, Tensor};
use libtest_mimic::{Arguments, Failed, Trial};

/// Names the case that a child process runs.
const CASE: &str = "CANDLE_WEBGPU_TEST_CASE";

pub struct Case {
    pub name: &'static str,
    /// Variables of its process.
    pub vars: &'static [(&'static str, &'static str)],
    pub run: fn() -> Result<()>,
}

fn cases() -> impl Iterator<Item = &'static Case> {
    [
        memory::CASES,
        lost::CASES,
        threads::CASES,
        debug::CASES,
        files::CASES,
        adapters::CASES,
    ]
    .into_iter()
    .flatten()
}

/// A prefix of cases' names, and whether this machine can run them.
type Need = (&'static str, fn() -> bool);

/// What a machine needs for a case; without it, the case is listed as ignored.
const NEEDS: &[Need] = &[
    ("adapters/", adapters::has_two),
    // No other process gets memory meanwhile, so it only runs alone: `-- --ignored memory/adapter_is_full`.
    (memory::FULL, || false),
];

/// Whether this machine can run the case.
fn can_run(case: &Case) -> bool {
    let mut needs = NEEDS.iter();
    needs.all(|(name, met)| !case.name.starts_with(name) || met())
}

pub fn gpu() -> Result<Device> {
    Ok(Device::new_webgpu(0)?)
}

/// The error's text, which must contain all `parts`.
pub fn refused<T>(result: candle_core::Result<T>, parts: &[&str]) -> Result<String> {
    let Err(error) = result else {
        bail!("no error, but one that says {parts:?}");
    };
    let text = error.to_string();
    for part in parts {
        ensure!(text.contains(part), "{text:?} does not say {part:?}");
    }
    Ok(text)
}

/// The device computes, and has no error left to report.
pub fn works(d: &Device) -> Result<()> {
    d.synchronize()?;
    let x = Tensor::new(&[1f32, 2.], d)?;
    ensure!((x.sqr()? + 1.)?.to_vec1::<f32>()? == [2., 5.]);
    Ok(())
}

fn child(case: &Case) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(CASE, case.name).envs(case.vars.iter().copied());
    let out = command.output()?;
    let log = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{}: {log}", out.status);
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE) {
        let case = cases().find(|case| case.name == name);
        let run = case.context("no such case").and_then(|case| (case.run)());
        return match run {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let trial = |case: &'static Case| {
        let run = move || child(case).map_err(|error| Failed::from(format!("{error:#}")));
        Trial::test(case.name, run).with_ignored_flag(!can_run(case))
    };
    libtest_mimic::run(&Arguments::from_args(), cases().map(trial).collect()).exit_code()
}
