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
use crate::shader::Specialization;
use crate::util::lock;

pub(crate) struct Inline {
    executor: Weak<Executor>,
    steps: Arc<Steps>,
}

/// What is to be done, in order. Empty unless the first step waits for a pipeline.
#[derive(Default)]
struct Steps(Mutex<VecDeque<Step>>);

enum Step {
    Encode(EncodeJob),
    Call(Box<dyn FnOnce() + Send>),
}

impl Inline {
    pub fn new(executor: &Weak<Executor>) -> Self {
        Inline {
            executor: executor.clone(),
            steps: Arc::default(),
        }
    }

    /// Runs a step, after those that wait. Returns finished ops.
    fn run(&self, executor: &Executor, step: Step) -> Ops {
        let mut steps = lock(&self.steps.0);
        steps.push_back(step);
        if steps.len() > 1 {
            return Ops::new();
        }
        drop(steps);
        let (finished, missing) = self.steps.run(executor);
        if let Some(missing) = missing {
            let precompiler = executor.precompiler.clone();
            let (executor, steps) = (self.executor.clone(), self.steps.clone());
            spawn_local(async move {
                let mut missing = Some(missing);
                while let Some(spec) = missing.take() {
                    precompiler.until_compiled(&spec).await;
                    if let Some(executor) = executor.upgrade() {
                        missing = steps.run(&executor).1;
                    }
                }
            });
        }
        finished
    }
}

impl Steps {
    /// Runs steps up to the first one whose pipeline is missing. Returns finished ops and that pipeline.
    fn run(&self, executor: &Executor) -> (Ops, Option<Specialization>) {
        let mut finished = Ops::new();
        let next = || lock(&self.0).pop_front();
        while let Some(step) = next() {
            match step {
                Step::Call(call) => call(),
                Step::Encode(mut job) => {
                    if !executor.encode_job(&mut job) {
                        let missing = job.ops.first().map(|op| op.spec.clone());
                        lock(&self.0).push_front(Step::Encode(job));
                        return (finished, missing);
                    }
                    finished.append(&mut job.ops);
                }
            }
        }
        (finished, None)
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
