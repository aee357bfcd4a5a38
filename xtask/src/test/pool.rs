//! Runs the programs of all parts, a few at a time.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{mpsc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use super::harness::{self, Report};
use super::parts::Part;

/// A program keeps about one core busy, since a software adapter compiles shaders on one thread.
const WORKERS: usize = 2;

/// One run of a program.
pub struct Job {
    pub part: Part,
    pub title: String,
    pub command: Command,
    /// Counts only tests whose names contain this.
    pub only: Option<&'static str>,
}

impl Job {
    fn run(mut self, verbose: bool) -> (Part, Result<Report>) {
        let report = harness::run(&self.title, &mut self.command, verbose);
        let report = report.map(|mut report| {
            let counts = |name: &str| self.only.is_none_or(|part| name.contains(part));
            report.tests.retain(|(name, _)| counts(name));
            report
        });
        (self.part, report)
    }
}

/// Runs the jobs in order, and passes each report to `done`.
pub fn run(jobs: Vec<Job>, verbose: bool, mut done: impl FnMut(Part, Result<Report>)) {
    let jobs = Mutex::new(VecDeque::from(jobs));
    let next = || {
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front()
    };
    let (sender, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(job) = next() {
                    if sender.send(job.run(verbose)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (part, report) in reports {
            done(part, report);
        }
    });
}
