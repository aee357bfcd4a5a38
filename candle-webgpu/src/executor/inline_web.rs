//! The schedule of browsers: every stage runs on the calling thread, immediately unless an op's pipeline is still being compiled. Encoding
//! then continues in a task of the page's event loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use js_sys::futures::spawn_local;

use crate::error::Result;
use crate::executor::schedule::{EncodeJob, Schedule};
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::recorder::batch::Batch;
use crate::shader::Specialization;
use crate::util::lock;

pub(crate) struct Inline {
    executor: Weak<Executor>,
    jobs: Arc<Jobs>,
}

/// Jobs in order. Empty unless the first one waits for a pipeline.
#[derive(Default)]
struct Jobs(Mutex<VecDeque<EncodeJob>>);

impl Inline {
    pub fn new(executor: &Weak<Executor>) -> Self {
        Inline {
            executor: executor.clone(),
            jobs: Arc::default(),
        }
    }

    /// Encodes a job, after those that wait. Returns finished jobs.
    fn run(&self, executor: &Executor, job: EncodeJob) -> Vec<EncodeJob> {
        let mut jobs = lock(&self.jobs.0);
        jobs.push_back(job);
        if jobs.len() > 1 {
            return Vec::new();
        }
        drop(jobs);
        let (finished, missing) = self.jobs.run(executor);
        if let Some(missing) = missing {
            let precompiler = executor.precompiler.clone();
            let (executor, jobs) = (self.executor.clone(), self.jobs.clone());
            spawn_local(async move {
                let mut missing = Some(missing);
                while let Some(spec) = missing.take() {
                    precompiler.until_compiled(&spec).await;
                    if let Some(executor) = executor.upgrade() {
                        missing = jobs.run(&executor).1;
                    }
                }
            });
        }
        finished
    }
}

impl Jobs {
    /// Encodes jobs up to the first one whose pipeline is missing. Returns finished jobs and that pipeline.
    fn run(&self, executor: &Executor) -> (Vec<EncodeJob>, Option<Specialization>) {
        let mut finished = Vec::new();
        let next = || lock(&self.0).pop_front();
        while let Some(mut job) = next() {
            if !executor.encode_job(&mut job) {
                let missing = job.ops.first().map(|op| op.spec.clone());
                lock(&self.0).push_front(job);
                return (finished, missing);
            }
            finished.push(job);
        }
        (finished, None)
    }
}

impl Schedule for Inline {
    fn rewrite(&self, executor: &Executor, mut batch: Batch) -> Vec<Batch> {
        executor.rewrite_batch(&mut batch);
        vec![batch]
    }

    fn encode(&self, executor: &Executor, job: EncodeJob) -> Vec<EncodeJob> {
        self.run(executor, job)
    }

    fn pass_on(&self, executor: &Executor, commands: Commands) -> Result<()> {
        executor.submit_commands(&mut lock(&executor.submitter), commands)
    }

    fn wait_submitted(&self) {}

    fn wait_idle(&self) {}

    fn spin(&self) -> Duration {
        Duration::ZERO
    }
}
