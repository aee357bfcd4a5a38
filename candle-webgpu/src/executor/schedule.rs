//! The three stages of a batch (rewrite, encode, submit), and the [`Schedule`] that determines which thread runs each.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::fusion::coalesce_copies;
use crate::fusion::graph::Graph;
use crate::kernel::copy;
use crate::memory::buffer::Value;
use crate::recorder::batch::{Batch, Flush, DEFERRED_OPS};
use crate::recorder::op::{Op, Ops};
use crate::util::lock;

/// Rewritten ops to encode, and what follows them.
pub(crate) struct EncodeJob {
    pub ops: Ops,
    /// Values of replaced ops. Encoding returns their memory, since rewriting takes longer, and leaves the last references to the thread that
    /// allocated them.
    pub spent: Vec<Value>,
    end: Flush,
}

/// Where the stages run: [`Inline`](crate::executor::inline::Inline) or [`Threaded`](crate::executor::threaded::Threaded).
///
/// `rewrite` and `encode` return what is finished, so that its memory is reused.
pub(crate) trait Schedule: Send + Sync {
    fn rewrite(&self, executor: &Executor, batch: Batch) -> Vec<Batch>;
    fn encode(&self, executor: &Executor, job: EncodeJob) -> Vec<EncodeJob>;
    fn pass_on(&self, executor: &Executor, commands: Commands) -> Result<()>;
    /// Waits until every encoded command is submitted.
    fn wait_submitted(&self);
    /// Waits until no stage has work.
    fn wait_idle(&self);
    /// How long to poll for an event before blocking.
    #[cfg_attr(
        target_arch = "wasm32",
        allow(dead_code, reason = "browsers never spin")
    )]
    fn spin(&self) -> Duration;
    /// Makes threads that sleep spin again, since they will have work soon.
    #[cfg_attr(
        target_arch = "wasm32",
        allow(dead_code, reason = "browsers never spin")
    )]
    fn wake(&self) {}
}

impl Executor {
    /// First stage: rewrites a batch and passes on the ops that are not deferred. Leaves the values of finished ops in the batch.
    pub(crate) fn rewrite_batch(&self, batch: &mut Batch) {
        let end = batch.end.take();
        let deferred = match end {
            None if self.rules.rewrites_batches() => DEFERRED_OPS,
            _ => 0,
        };
        self.dispatch_copies(&mut batch.ops);
        let (ops, spent) = self.apply_rules(batch, deferred);
        let copied = end.iter().flat_map(|end| &end.copies);
        let ops = self.copy_prefixes(ops, copied.map(|copy| &copy.source));
        if self.options.log {
            ops.iter().for_each(|op| eprintln!("{}", op.spec.name()));
        }
        let ops = match &self.nan_check {
            Some(check) => check.around(&self.gpu, ops),
            None => ops,
        };
        // A flush continues even without ops, since there may be uploads to submit.
        if ops.is_empty() && end.is_none() {
            return;
        }
        for op in &ops {
            let operands = op.operands.iter().enumerate();
            let written = operands.filter(|(i, _)| op.spec.writes(*i));
            written.for_each(|(_, (value, _))| value.set_written());
        }
        // Compile missing pipelines while the encoder works on earlier ops.
        if self.precompiler.is_cold() {
            self.precompiler.request(ops.iter().map(|op| &op.spec));
        }
        let job = EncodeJob {
            ops,
            spent,
            end: end.unwrap_or_default(),
        };
        for mut job in self.schedule.encode(self, job) {
            batch.spent.append(&mut job.spent);
            for op in job.ops {
                op.retire(&mut batch.spent);
            }
        }
    }

    /// Selects the kernels of joined copies.
    fn dispatch_copies(&self, ops: &mut [Op]) {
        let mut joined = 0;
        for op in ops {
            match copy::dispatch_joined(&self.gpu, op) {
                Ok(copies) => joined += copies,
                Err(error) => {
                    self.fail_outputs(op, &error);
                    self.store_error(error);
                }
            }
        }
        self.rules.note(&coalesce_copies::RULE, joined);
    }

    /// Adds the ops that copy the contents of prefixes to memory of their own: before the op that needs them there, or behind all ops for
    /// what is read `last`.
    fn copy_prefixes<'a>(&self, ops: Ops, last: impl Iterator<Item = &'a Value>) -> Ops {
        let mut all = Ops::with_capacity(ops.len());
        let copy = |all: &mut Ops, value: &Value| {
            let Some(from) = value.take_prefix() else {
                return;
            };
            match copy::prefix(&self.gpu, value, &from) {
                Ok(op) => all.push(op),
                Err(error) => {
                    value.fail(&Arc::new(error.clone()));
                    self.store_error(error);
                }
            }
        };
        for op in ops {
            op.operands
                .iter()
                .for_each(|(value, _)| copy(&mut all, value));
            all.push(op);
        }
        last.for_each(|value| copy(&mut all, value));
        all
    }

    /// Applies the fusion rules to the deferred ops and the batch, keeps the newest `deferred` ops for the next batch and returns the
    /// others, and the values of replaced ops.
    fn apply_rules(&self, batch: &mut Batch, deferred: usize) -> (Ops, Vec<Value>) {
        let mut kept = lock(&self.deferred);
        let mut ops = std::mem::take(&mut *kept);
        ops.extend(batch.ops.drain(..).map(Op::boxed));
        let due = ops.len().saturating_sub(deferred);
        let mut graph = Graph::new(ops, due, batch.number);
        self.rules.apply(&self.gpu, &mut graph);
        let (now, later, spent) = graph.into_ops();
        *kept = later;
        (now, spent)
    }

    /// Second stage: encodes ops and passes on their commands. Leaves finished ops in the job. `false` if the job is to be continued once the
    /// pipeline of its first op is compiled.
    pub(crate) fn encode_job(&self, job: &mut EncodeJob) -> bool {
        let encoder = &mut lock(&self.encoder);
        let EncodeJob { ops, spent, end } = job;
        spent.retain_mut(Value::recycle);
        if ops.is_empty() && end.copies.is_empty() && self.submitter().uploaded == 0 {
            if let Some(submitted) = end.submitted.take() {
                submitted(self.newest_submit());
            }
            return true;
        }
        let submit = |commands| self.schedule.pass_on(self, commands);
        // Taken out of the job, which is kept for recycling: a reader whose commands are not submitted waits until this is dropped.
        let mut flush = std::mem::take(end);
        let encoded = self
            .check_lost()
            .and_then(|()| self.encode_all(encoder, ops, &mut flush, submit));
        if matches!(encoded, Ok(false)) {
            *end = flush;
        }
        encoded.unwrap_or_else(|error| {
            self.store_error(error);
            true
        })
    }

    /// Third stage on its own thread. Stores errors for a later call.
    pub(crate) fn submit_job(&self, job: &mut Option<Commands>) {
        let Some(commands) = job.take() else {
            return;
        };
        if let Err(error) = self.submit_commands(&mut lock(&self.submitter), commands) {
            self.store_error(error);
        }
    }
}
