//! Recorded ops, and the sizes of the batches that are passed to the executor.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::op::{NewOp, Op};

/// In a browser, recording takes longer than the GPU's work, and each submit takes some 20 us of the only thread, so batches are longer.
const IN_BROWSER: bool = cfg!(target_arch = "wasm32");
/// Ops in the first batch after a readback: few, so that the GPU starts early.
const FIRST_BATCH: usize = if IN_BROWSER { 24 } else { 8 };
/// How many times as long each batch is as the one before, up to [`Pending::longest`]. A GPU idles for some 20 us between two submits (NVIDIA H200),
/// but a longer batch delays the readback that waits for it.
const GROWTH: (usize, usize) = if IN_BROWSER { (2, 1) } else { (3, 2) };
/// The part of a pass in a batch while the caller is ahead of its readbacks: nobody waits for the end of a batch, so fewer submits are better,
/// but with fewer than four a pass, the GPU waits for their ops to be rewritten (docs/ahead.md).
const PASS_BATCHES: usize = 4;
pub(crate) const DEFAULT_BATCH: usize = if IN_BROWSER { MAX_BATCH } else { 80 };
pub(crate) const MIN_BATCH: usize = 16;
pub(crate) const MAX_BATCH: usize = 160;
/// Ops in the last batch before a readback: few, since the caller waits for them. The position of the readback is predicted from the
/// previous two.
const LAST_BATCH: usize = 16;
/// The newest ops are not encoded with their batch. Their result tensors are often still alive, since Rust variables live to the end of
/// their function, and later ops may fuse with them.
pub(crate) const DEFERRED_OPS: usize = 32;
/// Maximum ops in one submit. Doubled because a rule may replace one op by two.
pub(crate) const MOST_OPS: usize = 2 * (MAX_BATCH + DEFERRED_OPS);

/// A copy from a value to a staging buffer at the end of a submit.
pub(crate) struct Copy {
    pub source: Value,
    pub from: u64,
    pub bytes: u64,
    pub staging: wgpu::Buffer,
    pub to: u64,
}

/// Called with the submit that everything before is part of, if there is one. Dropped if it cannot be submitted.
pub(crate) type Submitted = Box<dyn FnOnce(Option<wgpu::SubmissionIndex>) + Send>;

/// The end of a batch that defers no ops.
#[derive(Default)]
pub(crate) struct Flush {
    /// The copies of readbacks, which follow the ops.
    pub copies: Vec<Copy>,
    pub submitted: Option<Submitted>,
}

/// Consecutive ops that the recorder passes to the executor together. They are contiguous, and not in boxes, since another thread reads them
/// and used the same memory before: processors prefetch cache lines of other cores in sequence.
#[derive(Default)]
pub(crate) struct Batch {
    pub ops: Vec<Op>,
    /// Values that were last held by ops that are finished. The recorder's thread frees them, since it allocated them.
    pub spent: Vec<Value>,
    pub end: Option<Flush>,
    /// The number of this batch. A value stores it when its last tensor is dropped.
    pub number: u64,
}

/// Ops recorded since the last batch.
pub(crate) struct Pending {
    ops: Vec<Op>,
    /// Finished batches, whose memory is reused.
    finished: Vec<Batch>,
    /// Ops of the longest batches.
    longest: usize,
    /// Ops in the next batch, without deferred ones.
    next_batch: usize,
    /// Ops recorded since the last readback.
    since_readback: usize,
    /// Ops recorded between the previous two readbacks.
    last_interval: usize,
    /// The newest readback, as long as its bytes are not taken.
    reading: Weak<()>,
    /// These ops are recorded before the bytes of the last readback are taken, so the GPU still works on earlier ones.
    ahead: bool,
    /// Whether an op that may report a fault was recorded since the fault record was last read.
    pub faults: bool,
}

impl Pending {
    /// `longest`: the most ops of a batch, without deferred ones, from [`MIN_BATCH`] to [`MAX_BATCH`].
    pub fn new(longest: usize) -> Self {
        Pending {
            longest,
            ops: Vec::new(),
            finished: Vec::new(),
            next_batch: FIRST_BATCH,
            since_readback: 0,
            last_interval: 0,
            reading: Weak::new(),
            ahead: false,
            faults: false,
        }
    }

    pub fn push(&mut self, new: NewOp<'_>) {
        if self.since_readback == 0 {
            self.ahead = self.reading.strong_count() > 0;
            if !self.ahead {
                self.next_batch = FIRST_BATCH;
            }
        }
        self.ops.push(new.into_op());
        self.since_readback += 1;
    }

    pub fn last_mut(&mut self) -> Option<&mut Op> {
        self.ops.last_mut()
    }

    /// Frees what finished batches hold, and keeps their memory.
    pub fn recycle(&mut self, finished: Vec<Batch>) {
        for mut batch in finished {
            batch.ops.clear();
            batch.spent.clear();
            self.finished.push(batch);
        }
    }

    /// Whether there are enough ops for a batch. If the last op is a copy, the limit is doubled, since the next copy may join it.
    fn is_full(&self) -> bool {
        let may_join = self.ops.last().is_some_and(|op| op.run.is_some());
        let executed = self.since_readback - self.ops.len();
        let last_start = self.last_interval.saturating_sub(LAST_BATCH);
        let is_last =
            !self.ahead && !may_join && executed < last_start && last_start <= self.since_readback;
        let deferred = if executed == 0 { DEFERRED_OPS } else { 0 };
        is_last || self.ops.len() >= (deferred + self.next_batch) * if may_join { 2 } else { 1 }
    }

    /// The recorded ops if there are enough for a batch. Makes the next batch longer.
    pub fn full_batch(&mut self, pool: &Pool) -> Option<Batch> {
        if !self.is_full() {
            return None;
        }
        let longest = match self.ahead {
            true => {
                let least = (self.longest * 3 / 2).min(MAX_BATCH);
                (self.last_interval / PASS_BATCHES).clamp(least, 4 * self.longest)
            }
            false => self.longest,
        };
        self.next_batch = (self.next_batch * GROWTH.0 / GROWTH.1).min(longest);
        Some(self.batch(pool, None))
    }

    /// All recorded ops, then the copies of a readback, whose bytes are not taken as long as the reference is held.
    pub fn read(&mut self, pool: &Pool, end: Flush) -> (Batch, Arc<()>) {
        self.last_interval = std::mem::take(&mut self.since_readback);
        let reading = Arc::new(());
        self.reading = Arc::downgrade(&reading);
        (self.batch(pool, Some(end)), reading)
    }

    /// The recorded ops; `end` is set for a flush.
    pub fn batch(&mut self, pool: &Pool, end: Option<Flush>) -> Batch {
        let number = pool.batches.fetch_add(1, Ordering::Relaxed);
        let Batch { ops, spent, .. } = self.finished.pop().unwrap_or_default();
        Batch {
            ops: std::mem::replace(&mut self.ops, ops),
            spent,
            end,
            number,
        }
    }
}
