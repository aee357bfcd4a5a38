//! The inline schedule: every stage runs immediately on the calling thread.

use std::sync::Weak;
use std::time::Duration;

use crate::error::Result;
use crate::executor::schedule::{EncodeJob, Schedule};
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::recorder::batch::Batch;
use crate::util::lock;

pub(crate) struct Inline;

impl Inline {
    pub fn new(_executor: &Weak<Executor>) -> Self {
        Inline
    }
}

impl Schedule for Inline {
    fn rewrite(&self, executor: &Executor, mut batch: Batch) -> Vec<Batch> {
        executor.rewrite_batch(&mut batch);
        vec![batch]
    }

    fn encode(&self, executor: &Executor, mut job: EncodeJob) -> Vec<EncodeJob> {
        executor.encode_job(&mut job);
        vec![job]
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
