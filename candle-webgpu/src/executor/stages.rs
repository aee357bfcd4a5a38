//! The three stages of a batch: rewrite, encode, submit. The caller runs them one after the other, or each has a thread.

use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::fusion::coalesce_copies;
use crate::fusion::graph::Graph;
use crate::recorder::batch::{Batch, Copy, HELD_BACK};
use crate::recorder::op::Ops;
use crate::recorder::Execute;
use crate::util::lock;

/// Rewritten ops, to be encoded, and what to read back after them.
pub(crate) struct Load {
    ops: Ops,
    copies: Vec<Copy>,
}

impl Executor {
    /// Has a batch rewritten, encoded and submitted. Gives ops that are done with.
    pub(crate) fn hand_over_batch(&self, mut batch: Batch) -> Ops {
        match self.threads.get() {
            Some(threads) => {
                let done = threads.rewriter.send(batch);
                done.into_iter().flat_map(|batch| batch.ops).collect()
            }
            None => {
                self.process(&mut batch);
                batch.ops
            }
        }
    }

    /// Rewrites a batch, and has encoded what is not held back. Leaves in the batch what can be dropped.
    pub(crate) fn process(&self, batch: &mut Batch) {
        let end = batch.end.take();
        let held_back = match end {
            None if self.rules.rewrites_batches() => HELD_BACK,
            _ => 0,
        };
        let ops = self.rewrite(batch, held_back);
        // There may be uploads after the last ops, which nothing else submits.
        if ops.is_empty() && end.is_none() {
            return;
        }
        // Pipelines that are lacking compile while ops sent before are encoded.
        if self.ahead.is_cold() {
            self.ahead.want(ops.iter().map(|op| &op.spec));
        }
        let mut load = Load {
            ops,
            copies: end.unwrap_or_default(),
        };
        match self.threads.get() {
            Some(threads) => {
                for mut done in threads.encoder.send(load) {
                    batch.ops.append(&mut done.ops);
                }
            }
            None => {
                self.encode_load(&mut load);
                batch.ops.append(&mut load.ops);
            }
        }
    }

    /// Applies the rules to a batch and what was held back before it, and gives what is to be encoded. Leaves in the batch what was
    /// replaced.
    fn rewrite(&self, batch: &mut Batch, held_back: usize) -> Ops {
        let mut held = lock(&self.held);
        let mut ops = std::mem::take(&mut *held);
        for op in &mut batch.ops {
            if let Err(error) = coalesce_copies::dispatch(&self.gpu, op) {
                self.fail(op, &error);
                self.keep_error(error);
            }
        }
        ops.append(&mut batch.ops);
        let due = ops.len().saturating_sub(held_back);
        let mut graph = Graph::new(ops, due, batch.number);
        self.rules.apply(&self.gpu, &mut graph);
        let [now, later, dead] = graph.into_ops();
        (*held, batch.ops) = (later, dead);
        if self.log {
            now.iter().for_each(|op| eprintln!("{}", op.spec.name()));
        }
        match &self.check {
            Some(check) => check.around(&self.gpu, now),
            None => now,
        }
    }

    /// Encodes ops and has them submitted. Leaves what can be dropped.
    pub(crate) fn encode_load(&self, load: &mut Load) {
        let encoder = &mut lock(&self.encoder);
        let Load { ops, copies } = load;
        if ops.is_empty() && copies.is_empty() && self.sender().uploaded == 0 {
            return;
        }
        let send = |commands| match self.threads.get() {
            Some(threads) => {
                threads.sender.send(Some(commands));
                Ok(())
            }
            None => self.submit_commands(&mut lock(&self.sender), commands),
        };
        let encoded = self
            .check_lost()
            .and_then(|()| self.encode_all(encoder, ops, copies, send));
        if let Err(error) = encoded {
            self.keep_error(error);
        }
    }

    /// Submits commands that a thread has taken up; what goes wrong comes back from the next call.
    pub(crate) fn submit_next(&self, commands: &mut Option<Commands>) {
        let Some(commands) = commands.take() else {
            return;
        };
        if let Err(error) = self.submit_commands(&mut lock(&self.sender), commands) {
            self.keep_error(error);
        }
    }
}
