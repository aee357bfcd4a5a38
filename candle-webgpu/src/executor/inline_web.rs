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
use crate::recorder::op::Ops;
use crate::util::lock;

pub(crate) struct Inline {
    executor: Weak<Executor>,
    /// What waits for a pipeline, in order.
    waiting: Arc<Mutex<VecDeque<Step>>>,
}

enum Step {
    Encode(EncodeJob),
    Call(Box<dyn FnOnce() + Send>),
}

impl Inline {
    pub fn new(executor: &Weak<Executor>) -> Self {
        Inline {
            executor: executor.clone(),
            waiting: Arc::default(),
        }
    }

    /// Runs a step, after those that wait. Returns finished ops.
    fn run(&self, executor: &Executor, step: Step) -> Ops {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_empty() {
            waiting.push_back(step);
            return Ops::new();
        }
        drop(waiting);
        match step {
            Step::Call(call) => call(),
            Step::Encode(mut job) => {
                if executor.encode_job(&mut job) {
                    return job.ops;
                }
                lock(&self.waiting).push_back(Step::Encode(job));
                let (executor, waiting) = (self.executor.clone(), self.waiting.clone());
                spawn_local(run_waiting(executor, waiting));
            }
        }
        Ops::new()
    }
}

/// Runs the steps that wait, as their pipelines become available.
async fn run_waiting(executor: Weak<Executor>, waiting: Arc<Mutex<VecDeque<Step>>>) {
    while let Some(executor) = executor.upgrade() {
        // A job stays in the queue until it is done, so that later steps wait for it.
        let mut steps = lock(&waiting);
        let missing = match steps.pop_front() {
            None => return,
            Some(Step::Call(call)) => {
                drop(steps);
                call();
                continue;
            }
            Some(Step::Encode(mut job)) => {
                if executor.encode_job(&mut job) {
                    continue;
                }
                let missing = job.ops.first().map(|op| op.spec.clone());
                steps.push_front(Step::Encode(job));
                missing
            }
        };
        drop(steps);
        let precompiler = executor.precompiler.clone();
        drop(executor);
        if let Some(spec) = missing {
            precompiler.until_compiled(&spec).await;
        }
    }
}

impl Schedule for Inline {
    fn rewrite(&self, executor: &Executor, mut batch: Batch) -> Ops {
        executor.rewrite_batch(&mut batch);
        batch.ops
    }

    fn encode(&self, executor: &Executor, job: EncodeJob) -> Ops {
        self.run(executor, Step::Encode(job))
    }

    fn pass_on(&self, executor: &Executor, commands: Commands) -> Result<()> {
        executor.submit_commands(&mut lock(&executor.submitter), commands)
    }

    fn wait_submitted(&self) {}

    fn wait_idle(&self) {}

    fn after_submit(&self, executor: &Executor, call: Box<dyn FnOnce() + Send>) {
        self.run(executor, Step::Call(call));
    }

    fn spin(&self) -> Duration {
        Duration::ZERO
    }
}
