//! The recorder: what becomes of an op until it is encoded. It is plain data, recorded by the caller; with others it is handed over
//! to be rewritten, then to be encoded, and what that gives is submitted. Natively a thread does each of the three.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::device::Inner;
use crate::error::{Error, Result};
use crate::executor::readback::Copy;
use crate::executor::submit::Commands;
use crate::executor::threaded::Worker;
use crate::fusion::graph::Graph;
use crate::fusion::{coalesce_copies, Set, COPIES};
use crate::kernel::copy::Run;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Pool;
use crate::recorder::op::{Grid, New, Op, Ops, PARAMS_SLOT};
use crate::shader::Specialization;
use crate::util::lock;

/// Ops that are sent first after a readback: few, so that the device starts to work.
const FIRST_BATCH: usize = 8;
/// How many more are sent each time, up to the most: between two submits a device does nothing for some 20 us (NVIDIA H200), but has
/// the longer to wait for the last one.
const GROWTH: (usize, usize) = (3, 2);
const LONGEST: usize = 80;
/// Ops of the last batch before a readback, where as many are recorded as before the last one: the device waits for them.
const LAST_BATCH: usize = 16;
/// The newest ops, which are not sent when a batch has been rewritten: tensors still hold what they made, as Rust's variables
/// live to the end of their function, and what follows may become one op with them.
const HELD_BACK: usize = 32;
/// Boxes of ops that are kept to be used again.
const SPARE: usize = 2 * LONGEST;
/// Ops that one submit may have. A rule may make two ops of one.
pub(crate) const MOST_OPS: usize = 2 * (LONGEST + HELD_BACK);

/// `ops` writes the name of each op to stderr as it is encoded.
pub const LOG_VAR: &str = "CANDLE_WEBGPU_LOG";

/// Ops that were recorded one after the other, as they are handed over to be rewritten.
pub(crate) struct Batch {
    ops: Ops,
    /// What is to be read back behind them, if nothing is to be held back.
    end: Option<Vec<Copy>>,
    /// Batches are counted, and values know during which one tensors let go of them.
    number: u64,
}

impl Batch {
    #[cfg(test)]
    pub fn into_parts(self) -> (Ops, u64) {
        (self.ops, self.number)
    }
}

/// Rewritten ops, to be encoded, and what is to be read back behind them.
pub(crate) struct Load {
    ops: Ops,
    copies: Vec<Copy>,
}

/// The threads that go on with what callers have recorded.
pub(crate) struct Threads {
    pub rewriter: Worker<Batch>,
    pub encoder: Worker<Load>,
    pub sender: Worker<Option<Commands>>,
}

impl Threads {
    /// None where threads cannot be had.
    pub fn start(device: &Arc<Inner>) -> Option<Self> {
        let (spin, device) = (device.spin(), Arc::downgrade(device));
        Some(Threads {
            rewriter: Worker::start("candle-rewrite", device.clone(), spin, Inner::process)?,
            encoder: Worker::start("candle-encode", device.clone(), spin, Inner::encode_load)?,
            sender: Worker::start("candle-submit", device, spin, Inner::submit_next)?,
        })
    }
}

pub(crate) struct Recorder {
    pending: Ops,
    /// Boxes for others.
    spare: Ops,
    /// Ops that are handed over next, beside those that are held back first.
    window: usize,
    /// Ops recorded since the last readback, and how many there were between the two before.
    since: usize,
    before: usize,
    /// Ops that may have reported a fault were recorded since the record was last read.
    pub faults: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            pending: Vec::with_capacity(MOST_OPS),
            spare: Ops::new(),
            window: FIRST_BATCH,
            since: 0,
            before: 0,
            faults: false,
        }
    }
}

impl Recorder {
    /// Records an op.
    pub fn push(&mut self, new: New<'_>) {
        self.pending.push(new.boxed(&mut self.spare));
        self.since += 1;
    }

    /// Keeps the boxes of ops that are over.
    fn reuse(&mut self, ops: Ops) {
        let room = SPARE.saturating_sub(self.spare.len());
        self.spare.extend(ops.into_iter().take(room).map(|mut op| {
            op.operands.clear();
            op
        }));
    }

    /// Whether it is time to hand over. The next copy may be one with the last op, if that is a copy; so it waits a while.
    fn is_full(&self) -> bool {
        let joins = self.pending.last().is_some_and(|op| op.run.is_some());
        let handed_over = self.since - self.pending.len();
        let mark = self.before.saturating_sub(LAST_BATCH);
        let ends = !joins && handed_over < mark && mark <= self.since;
        let held_back = if handed_over == 0 { HELD_BACK } else { 0 };
        ends || self.pending.len() >= (held_back + self.window) * if joins { 2 } else { 1 }
    }

    /// What comes next waits for a readback.
    fn restart(&mut self) {
        self.window = FIRST_BATCH;
        self.before = std::mem::take(&mut self.since);
    }

    /// What was recorded since the last batch.
    pub fn batch(&mut self, pool: &Pool) -> Batch {
        Batch {
            ops: std::mem::replace(&mut self.pending, Vec::with_capacity(LONGEST)),
            end: None,
            number: pool.batches.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Records one dispatch. Operands are in binding order, from binding 1.
    pub(crate) fn record(
        &self,
        spec: Specialization,
        operands: &[BindingRange<'_>],
        params: &[u8],
        grid: Grid,
        run: Option<Run>,
    ) -> Result<()> {
        self.check_lost()?;
        if self.denies_variant(&spec) {
            return Err(Error::Denied {
                kernel: spec.kernel.name,
            });
        }
        let grid = self.split(&spec, grid)?;
        if grid.contains(&0) {
            return Ok(());
        }
        if params.len() > PARAMS_SLOT as usize {
            return Err(Error::OverLimit {
                kernel: spec.name(),
                what: "bytes of parameters",
                needed: params.len() as u64,
                limit: PARAMS_SLOT,
                adapter: self.report.name.clone(),
            });
        }
        let faults = self.check.is_some() || spec.binds("fault");
        let new = New {
            spec,
            operands,
            params,
            grid,
            run,
        };
        let mut recorder = lock(&self.recorder);
        recorder.push(new);
        recorder.faults |= faults;
        if recorder.is_full() {
            let longer = recorder.window * GROWTH.0 / GROWTH.1;
            recorder.window = longer.min(LONGEST);
            let batch = recorder.batch(&self.pool);
            self.hand_over(&mut recorder, batch);
            return self.take_error().map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// Takes a copy into the one that was recorded last, if the two make one loop. What it dispatches is known when it is handed over.
    pub(crate) fn join(&self, run: &Run, operands: &[BindingRange<'_>]) -> Result<bool> {
        self.check_lost()?;
        let recorder = &mut lock(&self.recorder);
        let joins = |last: &mut Box<Op>| coalesce_copies::join(last, run, operands);
        let joined = self.rewrites.is_on(COPIES) && recorder.pending.last_mut().is_some_and(joins);
        if joined {
            self.rewrites.note(COPIES);
        }
        Ok(joined)
    }

    pub(crate) fn split(&self, spec: &Specialization, grid: Grid) -> Result<[u32; 3]> {
        let most = u64::from(self.limits.max_compute_workgroups_per_dimension);
        match grid {
            Grid::Xyz(xyz) => match xyz.into_iter().max().map(u64::from) {
                Some(n) if n > most => Err(self.too_many(spec, n, most)),
                _ => Ok(xyz),
            },
            Grid::Linear(0) => Ok([0, 1, 1]),
            Grid::Linear(n) => {
                let y = n.div_ceil(most);
                if y > most {
                    return Err(self.too_many(spec, n, most * most));
                }
                Ok([n.div_ceil(y) as u32, y as u32, 1])
            }
        }
    }

    fn too_many(&self, spec: &Specialization, needed: u64, limit: u64) -> Error {
        Error::OverLimit {
            kernel: spec.name(),
            what: "workgroups",
            needed,
            limit,
            adapter: self.report.name.clone(),
        }
    }

    /// Has a batch rewritten, encoded and submitted, by threads where there are some.
    fn hand_over(&self, recorder: &mut Recorder, mut batch: Batch) {
        match self.threads.get() {
            Some(threads) => {
                let spent = threads.rewriter.send(batch);
                let ops = spent.into_iter().map(|batch| batch.ops);
                ops.for_each(|ops| recorder.reuse(ops));
            }
            None => {
                self.process(&mut batch);
                recorder.reuse(batch.ops);
            }
        }
    }

    /// Rewrites a batch, and has encoded what is not held back. What can be dropped is left in the batch.
    fn process(&self, batch: &mut Batch) {
        let end = batch.end.take();
        let held_back = match end {
            None if self.rewrites.look() => HELD_BACK,
            _ => 0,
        };
        let ops = self.rewrite(batch, held_back);
        // Behind the last ops there may be uploads, which nothing else submits.
        if ops.is_empty() && end.is_none() {
            return;
        }
        self.compile_ahead(&ops);
        let mut load = Load {
            ops,
            copies: end.unwrap_or_default(),
        };
        match self.threads.get() {
            Some(threads) => {
                for mut spent in threads.encoder.send(load) {
                    batch.ops.append(&mut spent.ops);
                }
            }
            None => {
                self.encode_load(&mut load);
                batch.ops.append(&mut load.ops);
            }
        }
    }

    /// Encodes ops, and has them submitted. What can be dropped is left.
    fn encode_load(&self, load: &mut Load) {
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

    /// Has pipelines compiled while ops that were sent before are encoded.
    fn compile_ahead(&self, ops: &Ops) {
        if self.ahead.is_cold() {
            self.ahead.want(ops.iter().map(|op| &op.spec));
        }
    }

    /// Waits until all that was handed over is submitted, but for what is held back.
    pub(crate) fn settle(&self) {
        if let Some(threads) = self.threads.get() {
            threads.rewriter.settle();
            threads.encoder.settle();
            threads.sender.settle();
        }
    }

    /// Submits everything recorded.
    pub(crate) fn submit_recorded(&self) -> Result<()> {
        self.flush(&mut lock(&self.recorder), Vec::new())
            .map(|_| ())
    }

    /// Submits everything recorded; what comes next is rewritten by other rules.
    pub(crate) fn go_by(&self, rules: Set) -> Result<()> {
        let mut recorder = lock(&self.recorder);
        let sent = self.flush(&mut recorder, Vec::new()).map(|_| ());
        self.rewrites.go_by(rules);
        sent
    }

    /// Submits everything recorded, then `copies`. Gives what is to be waited for, None for all of it.
    pub(crate) fn flush(
        &self,
        recorder: &mut Recorder,
        copies: Vec<Copy>,
    ) -> Result<Option<wgpu::SubmissionIndex>> {
        let reads = !copies.is_empty();
        let mut batch = recorder.batch(&self.pool);
        batch.end = Some(copies);
        if reads {
            recorder.restart();
        }
        self.hand_over(recorder, batch);
        self.settle();
        self.check_lost()?;
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        let mut sender = lock(&self.sender);
        let newest = sender.newest();
        if reads {
            sender.forget();
        }
        Ok(newest)
    }

    /// Applies the rules to a batch and what was held back before it, and gives what is to be encoded. What was replaced is left in
    /// the batch.
    fn rewrite(&self, batch: &mut Batch, held_back: usize) -> Ops {
        let mut held = lock(&self.held);
        let mut ops = std::mem::take(&mut *held);
        for op in &mut batch.ops {
            if let Err(error) = coalesce_copies::dispatch(self, op) {
                self.fail(op, &error);
                self.keep_error(error);
            }
        }
        ops.append(&mut batch.ops);
        let due = ops.len().saturating_sub(held_back);
        let mut graph = Graph::new(ops, due, batch.number);
        self.rewrites.apply(self, &mut graph);
        let [now, later, dead] = graph.into_ops();
        (*held, batch.ops) = (later, dead);
        if self.log {
            now.iter().for_each(|op| eprintln!("{}", op.spec.name()));
        }
        match &self.check {
            Some(check) => self.with_checks(check, now),
            None => now,
        }
    }
}
