//! Ops that wait to be handed over, and how many go at a time.

use std::sync::atomic::Ordering;

use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::op::{NewOp, Ops};

/// Ops that are handed over first after a readback: few, so that the GPU starts to work.
const FIRST_BATCH: usize = 8;
/// By how much the next batch is longer, up to the longest. A GPU idles for some 20 us between two submits (NVIDIA H200), but the longer a
/// batch is, the longer the wait for the last one.
const GROWTH: (usize, usize) = (3, 2);
const LONGEST: usize = 80;
/// Ops of the last batch before a readback, where as many are recorded as before the readback before: the caller waits for them.
const LAST_BATCH: usize = 16;
/// The newest ops stay recorded when a batch is rewritten: tensors still hold what they made, since Rust's variables live to the end of
/// their function, and what follows may fuse with them.
pub(crate) const HELD_BACK: usize = 32;
/// Recycled ops that are kept.
const RECYCLED: usize = 2 * LONGEST;
/// Ops that one submit may have. A rule may make two ops of one.
pub(crate) const MOST_OPS: usize = 2 * (LONGEST + HELD_BACK);

/// A copy from a value to a staging buffer, at the end of a submit.
pub(crate) struct Copy {
    pub source: Value,
    pub from: u64,
    pub bytes: u64,
    pub staging: wgpu::Buffer,
    pub to: u64,
}

/// Ops recorded one after the other, as they are handed over to be rewritten.
pub(crate) struct Batch {
    pub ops: Ops,
    /// What to read back after them, if nothing is to be held back.
    pub end: Option<Vec<Copy>>,
    /// Batches are counted; a value knows in which batch's time tensors let go of it.
    pub number: u64,
}

/// What is recorded and not handed over yet.
pub(crate) struct Pending {
    ops: Ops,
    /// Ops to be used again.
    recycled: Ops,
    /// Ops of the next batch, beside those held back first.
    next_batch: usize,
    /// Ops recorded since the last readback, and between the two readbacks before.
    since: usize,
    before: usize,
    /// Ops that may have reported a fault were recorded since the fault record was last read.
    pub faults: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Pending {
            ops: Vec::with_capacity(MOST_OPS),
            recycled: Ops::new(),
            next_batch: FIRST_BATCH,
            since: 0,
            before: 0,
            faults: false,
        }
    }
}

impl Pending {
    pub fn push(&mut self, new: NewOp<'_>) {
        self.ops.push(new.recycle(&mut self.recycled));
        self.since += 1;
    }

    /// The op recorded last.
    pub fn last_mut(&mut self) -> Option<&mut crate::recorder::op::Op> {
        self.ops.last_mut().map(|op| &mut **op)
    }

    /// Keeps ops that are done for the next ones.
    pub fn recycle(&mut self, ops: Ops) {
        let room = RECYCLED.saturating_sub(self.recycled.len());
        self.recycled
            .extend(ops.into_iter().take(room).map(|mut op| {
                op.operands.clear();
                op
            }));
    }

    /// Whether it is time to hand over. The next copy may join the last op if that is a copy, so it waits a while.
    fn is_full(&self) -> bool {
        let joins = self.ops.last().is_some_and(|op| op.run.is_some());
        let handed_over = self.since - self.ops.len();
        let mark = self.before.saturating_sub(LAST_BATCH);
        let ends = !joins && handed_over < mark && mark <= self.since;
        let held_back = if handed_over == 0 { HELD_BACK } else { 0 };
        ends || self.ops.len() >= (held_back + self.next_batch) * if joins { 2 } else { 1 }
    }

    /// A batch, if it is time for one. The next will be longer.
    pub fn full_batch(&mut self, pool: &Pool) -> Option<Batch> {
        if !self.is_full() {
            return None;
        }
        self.next_batch = (self.next_batch * GROWTH.0 / GROWTH.1).min(LONGEST);
        Some(self.batch(pool, None))
    }

    /// Everything recorded, then `copies`.
    pub fn last_batch(&mut self, pool: &Pool, copies: Vec<Copy>) -> Batch {
        let reads = !copies.is_empty();
        let batch = self.batch(pool, Some(copies));
        if reads {
            self.next_batch = FIRST_BATCH;
            self.before = std::mem::take(&mut self.since);
        }
        batch
    }

    /// What was recorded since the last batch.
    pub fn batch(&mut self, pool: &Pool, end: Option<Vec<Copy>>) -> Batch {
        Batch {
            ops: std::mem::replace(&mut self.ops, Vec::with_capacity(LONGEST)),
            end,
            number: pool.batches.fetch_add(1, Ordering::Relaxed),
        }
    }
}
