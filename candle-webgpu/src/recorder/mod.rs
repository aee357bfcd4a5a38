//! What callers record: ops as plain data, handed over in batches to whoever encodes and submits them.

pub(crate) mod batch;
pub(crate) mod copy_run;
pub(crate) mod gpu;
pub(crate) mod op;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::recorder::batch::{Batch, Copy, Pending};
use crate::recorder::copy_run::{join, CopyRun};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, NewOp, Ops};
use crate::shader::{Specialization, PARAMS_SLOT};
use crate::util::lock;

/// What becomes of recorded ops.
pub(crate) trait Execute: Send + Sync {
    /// The error for which the device takes no more work, if there is one.
    fn check(&self) -> Result<()>;
    /// Has a batch rewritten, encoded and submitted, now or later. Gives ops that are done with.
    fn hand_over(&self, batch: Batch) -> Ops;
    /// Waits until all that was handed over is submitted, but for what is held back.
    fn settle(&self);
    /// What went wrong since it was asked last.
    fn take_error(&self) -> Option<Error>;
    /// Keeps an error for the next call that can return it.
    fn keep_error(&self, error: Error);
    /// Copies host bytes to a fresh value. Where memory is short it waits for what is submitted if it `may_wait`.
    fn upload(&self, bytes: &[u8], may_wait: bool) -> Result<Value>;
}

struct Rng {
    seed: u64,
    counter: u64,
}

/// Records ops for a [`Gpu`]. Every op of the backend is a method of it, in the file of its kernel family.
pub struct Recorder {
    gpu: Arc<Gpu>,
    executor: Arc<dyn Execute>,
    pub(crate) pending: CachePadded<Mutex<Pending>>,
    /// Copies are joined as they are recorded (the rule `coalesce_copies`), and how many were.
    pub(crate) joins_copies: AtomicBool,
    pub(crate) joined_copies: AtomicU64,
    /// Every op may report a fault, since all are checked for NaN.
    checks: bool,
    rng: Mutex<Rng>,
}

impl Deref for Recorder {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.gpu
    }
}

impl Recorder {
    pub(crate) fn new(gpu: Arc<Gpu>, executor: Arc<dyn Execute>, checks: bool) -> Self {
        Recorder {
            gpu,
            executor,
            pending: CachePadded::default(),
            joins_copies: AtomicBool::new(true),
            joined_copies: AtomicU64::new(0),
            checks,
            rng: Mutex::new(Rng {
                seed: 299_792_458,
                counter: 0,
            }),
        }
    }

    /// Records one dispatch. Operands are in binding order, from binding 1; a value must not be bound twice if one of the bindings
    /// writes, not even by different ranges.
    pub fn record(
        &self,
        spec: Specialization,
        operands: &[BindingRange<'_>],
        params: &impl bytemuck::NoUninit,
        grid: Grid,
    ) -> Result<()> {
        self.record_op(spec, operands, bytemuck::bytes_of(params), grid, None)
    }

    /// Records a copy, or joins it to the copy before. `dispatch` chooses its kernel, parameters and grid.
    pub(crate) fn record_copy<P: bytemuck::NoUninit>(
        &self,
        run: CopyRun,
        operands: &[BindingRange<'_>],
        dispatch: impl FnOnce(&CopyRun) -> Result<(Specialization, P, Grid)>,
    ) -> Result<()> {
        self.executor.check()?;
        if self.joins_copies.load(Ordering::Relaxed) {
            let mut pending = lock(&self.pending);
            if pending
                .last_mut()
                .is_some_and(|last| join(last, &run, operands))
            {
                self.joined_copies.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
        }
        let (spec, params, grid) = dispatch(&run)?;
        let params = bytemuck::bytes_of(&params);
        self.record_op(spec, operands, params, grid, Some(run))
    }

    fn record_op(
        &self,
        spec: Specialization,
        operands: &[BindingRange<'_>],
        params: &[u8],
        grid: Grid,
        run: Option<CopyRun>,
    ) -> Result<()> {
        self.executor.check()?;
        self.check_operands(&spec, operands)?;
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
            let bytes = params.len() as u64;
            return Err(self.over_limit(&spec, "bytes of parameters", bytes, PARAMS_SLOT));
        }
        let faults = self.checks || spec.binds("fault");
        let new = NewOp {
            spec,
            operands,
            params,
            grid,
            run,
        };
        let mut pending = lock(&self.pending);
        pending.push(new);
        pending.faults |= faults;
        if let Some(batch) = pending.full_batch(&self.pool) {
            let done = self.executor.hand_over(batch);
            pending.recycle(done);
            return self.executor.take_error().map_or(Ok(()), Err);
        }
        Ok(())
    }

    fn check_operands(&self, spec: &Specialization, operands: &[BindingRange<'_>]) -> Result<()> {
        for (i, (a, binding)) in operands.iter().zip(spec.bindings()).enumerate() {
            let twice = operands
                .iter()
                .enumerate()
                .any(|(j, b)| i != j && a.value.same(b.value));
            if binding.write && !binding.read_only && twice {
                return Err(Error::Invalid {
                    op: spec.kernel.name,
                    message: "one operand is both read and written".into(),
                });
            }
            a.check(spec.kernel.name, &self.pool)?;
        }
        Ok(())
    }

    /// Submits everything recorded, then `copies`, and waits until that is done.
    pub(crate) fn flush(&self, pending: &mut Pending, copies: Vec<Copy>) -> Result<()> {
        let batch = pending.last_batch(&self.pool, copies);
        let done = self.executor.hand_over(batch);
        pending.recycle(done);
        self.executor.settle();
        self.executor.check()?;
        self.executor.take_error().map_or(Ok(()), Err)
    }

    /// Submits everything recorded.
    pub(crate) fn submit_recorded(&self) -> Result<()> {
        self.flush(&mut lock(&self.pending), Vec::new())
    }

    /// Copies host bytes to a fresh value. Does not wait, unless memory is short.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value> {
        match self.executor.upload(bytes, false) {
            Err(Error::OutOfMemory { .. }) => {
                // What is recorded holds memory until it has been done.
                if let Err(error) = self.submit_recorded() {
                    self.executor.keep_error(error);
                }
                self.executor.upload(bytes, true)
            }
            uploaded => uploaded,
        }
    }

    /// Reserves `blocks` counter values of the random generator; gives the seed and the first of them.
    pub fn rng_next(&self, blocks: u64) -> (u64, u64) {
        let mut rng = lock(&self.rng);
        let first = rng.counter;
        rng.counter = first.wrapping_add(blocks);
        (rng.seed, first)
    }

    pub fn set_seed(&self, seed: u64) {
        *lock(&self.rng) = Rng { seed, counter: 0 };
    }

    pub fn seed(&self) -> u64 {
        lock(&self.rng).seed
    }
}
