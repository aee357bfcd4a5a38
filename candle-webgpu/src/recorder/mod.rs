//! Records ops as plain data and passes them to the executor in batches.

pub(crate) mod batch;
pub(crate) mod copy_run;
pub(crate) mod gpu;
pub(crate) mod op;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;

use crate::dtype::quant::Quant;
use crate::error::{Error, Result};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::{Value, When};
use crate::recorder::batch::{Batch, Flush, Pending};
use crate::recorder::copy_run::{join, CopyRun};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, NewOp};
use crate::shader::{Specialization, PARAMS_SLOT};
use crate::util::lock;

/// The most bytes of an upload that are read, written or submitted at once.
pub(crate) const UPLOAD_CHUNK: usize = 8 << 20;

/// The executor as the recorder sees it.
pub(crate) trait Execute: Send + Sync {
    /// An error if the device accepts no more work.
    fn check_lost(&self) -> Result<()>;
    /// Rewrites, encodes and submits a batch, now or later. Returns finished batches to recycle.
    fn execute(&self, batch: Batch) -> Vec<Batch>;
    /// Waits until every op that is not deferred is submitted.
    fn wait_idle(&self);
    /// Takes the error of an earlier op.
    fn take_stored_error(&self) -> Option<Error>;
    /// Stores an error for the next call that can return it.
    fn store_error(&self, error: Error);
    /// Memory for an upload of `bytes` bytes. `may_wait` allows a wait for the device if memory is short.
    fn allocate_upload(&self, bytes: u64, may_wait: bool) -> Result<Value>;
    /// Copies host bytes to such memory, from byte `at` on.
    fn write_upload(&self, value: &Value, at: u64, bytes: &[u8]) -> Result<()>;
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
    /// The rule `coalesce_copies` is on.
    pub(crate) joins_copies: AtomicBool,
    /// Every op is checked for NaN, so every op may report a fault.
    check_nan: bool,
    rng: Mutex<Rng>,
}

impl Deref for Recorder {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.gpu
    }
}

impl Recorder {
    pub(crate) fn new(
        gpu: Arc<Gpu>,
        executor: Arc<dyn Execute>,
        check_nan: bool,
        longest_batch: usize,
    ) -> Self {
        Recorder {
            gpu,
            executor,
            pending: CachePadded::new(Mutex::new(Pending::new(longest_batch))),
            joins_copies: AtomicBool::new(true),
            check_nan,
            rng: Mutex::new(Rng {
                seed: 299_792_458,
                counter: 0,
            }),
        }
    }

    /// Records one dispatch. Operands are in binding order, from binding 1. A value that one binding writes must not be bound a second
    /// time, not even by another range.
    pub fn record(
        &self,
        spec: Specialization,
        operands: &[BindingRange<'_>],
        params: &impl bytemuck::NoUninit,
        grid: Grid,
    ) -> Result<()> {
        let grid = self.split(&spec, grid)?;
        self.record_op(NewOp {
            spec,
            operands,
            params: bytemuck::bytes_of(params),
            grid,
            run: None,
        })
    }

    /// Records a copy, or joins it to the copy before. `dispatch` chooses kernel, parameters and grid.
    pub(crate) fn record_copy<P: bytemuck::NoUninit>(
        &self,
        run: CopyRun,
        operands: &[BindingRange<'_>],
        dispatch: impl FnOnce(&CopyRun) -> Result<(Specialization, P, Grid)>,
    ) -> Result<()> {
        self.executor.check_lost()?;
        if self.joins_copies.load(Ordering::Relaxed) {
            let mut pending = lock(&self.pending);
            if pending
                .last_mut()
                .is_some_and(|last| join(last, &run, operands))
            {
                return Ok(());
            }
        }
        let (spec, params, grid) = dispatch(&run)?;
        let grid = self.split(&spec, grid)?;
        self.record_op(NewOp {
            spec,
            operands,
            params: bytemuck::bytes_of(&params),
            grid,
            run: Some(Box::new(run)),
        })
    }

    fn record_op(&self, new: NewOp<'_>) -> Result<()> {
        self.executor.check_lost()?;
        let spec = &new.spec;
        self.check_operands(spec, new.operands)?;
        if self.denies_variant(spec) {
            return Err(Error::Denied {
                kernel: spec.kernel.name,
            });
        }
        if new.grid.contains(&0) {
            return Ok(());
        }
        let bytes = new.params.len() as u64;
        if bytes > PARAMS_SLOT {
            return Err(self.over_limit(spec, "bytes of parameters", bytes, PARAMS_SLOT));
        }
        let faults = self.check_nan || spec.binds("fault");
        let mut pending = lock(&self.pending);
        pending.push(new);
        pending.faults |= faults;
        if let Some(batch) = pending.full_batch(&self.pool) {
            self.pass_on(&mut pending, batch);
            return self.executor.take_stored_error().map_or(Ok(()), Err);
        }
        Ok(())
    }

    fn check_operands(&self, spec: &Specialization, operands: &[BindingRange<'_>]) -> Result<()> {
        for (i, (a, binding)) in operands.iter().zip(spec.bindings()).enumerate() {
            let twice = operands
                .iter()
                .enumerate()
                .any(|(j, b)| i != j && a.value.same(b.value));
            if binding.writes() && twice {
                return Err(Error::Invalid {
                    op: spec.kernel.name,
                    message: "the output is also an input".into(),
                });
            }
            if binding.writes() {
                a.value.forget_derived(When::Recording);
            }
            a.check(spec.kernel.name, &self.pool)?;
        }
        Ok(())
    }

    /// Passes a batch to the executor.
    pub(crate) fn pass_on(&self, pending: &mut Pending, batch: Batch) {
        let finished = self.executor.execute(batch);
        pending.recycle(finished);
    }

    /// Submits all recorded ops. Returns once they are submitted, with the error of an earlier op if there is one.
    pub(crate) fn flush(&self, pending: &mut Pending) -> Result<()> {
        let batch = pending.batch(&self.pool, Some(Flush::default()));
        self.pass_on(pending, batch);
        self.wait_submitted()
    }

    /// Waits until everything passed on is submitted. Returns the error of an earlier op if there is one.
    pub(crate) fn wait_submitted(&self) -> Result<()> {
        self.executor.wait_idle();
        self.executor.check_lost()?;
        self.executor.take_stored_error().map_or(Ok(()), Err)
    }

    /// Submits all recorded ops.
    pub(crate) fn submit_recorded(&self) -> Result<()> {
        self.flush(&mut lock(&self.pending))
    }

    /// Copies host bytes to a fresh value. Waits for the device only if memory is short.
    pub(crate) fn upload_buffer(&self, bytes: &[u8]) -> Result<Value> {
        let value = self.allocate_upload(bytes.len() as u64)?;
        self.executor.write_upload(&value, 0, bytes)?;
        Ok(value)
    }

    /// Uploads `bytes` bytes in chunks, which `read` provides in order, so that the host never holds all of them. `quant`: they are
    /// quantized blocks in file layout, to be converted to the device's layout.
    pub fn upload_from<E: From<Error>>(
        &self,
        quant: Option<Quant>,
        bytes: usize,
        mut read: impl FnMut(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Value, E> {
        let format = quant.map(Quant::info);
        let on_device = format.map_or(bytes, |f| f.device_bytes(bytes / f.bytes));
        let value = self.allocate_upload(on_device as u64)?;
        // Chunks of whole groups are at the same place in both layouts.
        let unit = format.map_or(1, |f| f.group * f.bytes);
        let chunk = UPLOAD_CHUNK / unit * unit;
        let mut buffer = vec![0; chunk.min(bytes)];
        for at in (0..bytes).step_by(chunk) {
            let part = &mut buffer[..chunk.min(bytes - at)];
            read(part)?;
            let packed = format.map_or(Cow::Borrowed(&*part), |f| f.pack(part));
            self.executor.write_upload(&value, at as u64, &packed)?;
        }
        Ok(value)
    }

    /// Memory for an upload. Waits for the device only if memory is short.
    fn allocate_upload(&self, bytes: u64) -> Result<Value> {
        match self.executor.allocate_upload(bytes, false) {
            Err(Error::OutOfMemory { .. }) => {
                // Recorded ops hold memory until they have run.
                if let Err(error) = self.submit_recorded() {
                    self.executor.store_error(error);
                }
                self.executor.allocate_upload(bytes, true)
            }
            allocated => allocated,
        }
    }

    /// Reserves `blocks` counter values of the random generator; returns the seed and the first counter.
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
