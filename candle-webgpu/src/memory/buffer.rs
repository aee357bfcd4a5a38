//! Values and the memory behind them. A value is logical: its memory may be assigned as late as the
//! flush, and goes back to the pool when its last holder lets go, which is in queue order because a
//! recorded op is a holder too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Budget, Error, Result};
use crate::util::apart::Apart;
use crate::util::scoped;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory on the device. The id is never used twice, so it can stand for the buffer in a cache's key.
#[derive(Debug)]
pub(crate) struct Block {
    pub buffer: wgpu::Buffer,
    pub id: u64,
    pub size: u64,
}

/// Recycles blocks by size.
pub(crate) struct Pool {
    device: wgpu::Device,
    adapter: String,
    limit: u64,
    /// The most bytes that all blocks may have together.
    budget: Option<u64>,
    free: Apart<Mutex<BTreeMap<u64, Vec<Block>>>>,
    next_id: AtomicU64,
    allocated: AtomicU64,
    peak: AtomicU64,
    idle: Apart<AtomicU64>,
    /// Batches of ops that were recorded; values note by it when tensors let go of them.
    pub batches: Apart<AtomicU64>,
    /// Counts the times that blocks were given back to the driver: caches that hold them follow it.
    pub generation: AtomicU64,
}

/// Kernels may touch a whole quad past the end of a value; buffers are a multiple of this. It is also the
/// largest alignment of a binding's start that WebGPU allows an adapter to ask for.
pub(crate) const GRAIN: u64 = 256;

impl Pool {
    pub fn new(device: wgpu::Device, adapter: String, budget: Option<u64>) -> Self {
        Pool {
            budget,
            limit: device.limits().max_buffer_size & !(GRAIN - 1),
            device,
            adapter,
            free: Apart::default(),
            next_id: AtomicU64::new(1),
            allocated: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            idle: Apart::default(),
            batches: Apart::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Bytes of all blocks and the most there ever were.
    pub fn usage(&self) -> (u64, u64) {
        (
            self.allocated.load(Ordering::Relaxed),
            self.peak.load(Ordering::Relaxed),
        )
    }

    /// Refuses what one buffer cannot hold.
    pub fn check(&self, op: &'static str, bytes: u64) -> Result<()> {
        if bytes > self.limit {
            return Err(Error::TooLarge {
                op,
                bytes,
                of: "one buffer",
                advice: "",
                limit: self.limit,
                adapter: self.adapter.clone(),
            });
        }
        Ok(())
    }

    /// Sizes are rounded up to eight steps per power of two, so that growing tensors meet again.
    fn class(bytes: u64) -> u64 {
        let bytes = bytes.max(GRAIN);
        let step = (bytes.next_power_of_two() / 16).max(GRAIN);
        bytes.next_multiple_of(step)
    }

    /// A block of at least `bytes` bytes, or [`Error::OutOfMemory`]. `exact` keeps long-lived data (weights) from being rounded up.
    pub fn take(&self, bytes: u64, exact: bool) -> Result<Block> {
        let class = Self::class(bytes);
        let want = if exact {
            bytes.next_multiple_of(GRAIN).max(GRAIN)
        } else {
            class
        };
        {
            let mut free = lock(&self.free);
            let most = want + want / 8;
            // Lists that are empty stay: they will be needed again.
            let block = free.range_mut(want..=most).find_map(|(_, list)| list.pop());
            if let Some(block) = block {
                self.idle.fetch_sub(block.size, Ordering::Relaxed);
                return Ok(block);
            }
        }
        let want = if want > self.limit {
            bytes.next_multiple_of(GRAIN)
        } else {
            want
        };
        self.create(want).ok_or_else(|| self.out_of_memory(want, 0))
    }

    /// The error of an allocation that failed though `pooled` idle bytes were given back.
    pub fn out_of_memory(&self, requested: u64, pooled: u64) -> Error {
        let (allocated, idle) = (&self.allocated, &self.idle);
        Error::OutOfMemory {
            requested,
            in_use: allocated
                .load(Ordering::Relaxed)
                .saturating_sub(idle.load(Ordering::Relaxed)),
            pooled,
            budget: Budget(self.budget),
            adapter: self.adapter.clone(),
        }
    }

    /// Counts a block that is about to be made, unless it goes beyond the budget.
    fn count(&self, size: u64) -> bool {
        let most = self.budget.unwrap_or(u64::MAX);
        let counted = self
            .allocated
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                all.checked_add(size).filter(|all| *all <= most)
            });
        counted.is_ok()
    }

    fn create(&self, size: u64) -> Option<Block> {
        if !self.count(size) {
            return None;
        }
        let make = || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size,
                usage: wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_SRC
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let (buffer, error) = scoped(&self.device, wgpu::ErrorFilter::OutOfMemory, make);
        if error.is_some() {
            self.allocated.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        self.peak
            .fetch_max(self.allocated.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(Block {
            buffer,
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            size,
        })
    }

    fn give(&self, block: Block) {
        self.idle.fetch_add(block.size, Ordering::Relaxed);
        lock(&self.free).entry(block.size).or_default().push(block);
    }

    /// Gives all idle memory back to the driver; tells how much.
    pub fn trim(&self) -> u64 {
        let idle = std::mem::take(&mut *lock(&self.free));
        let bytes: u64 = idle.values().flatten().map(|b| b.size).sum();
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Relaxed);
        bytes
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (allocated, peak) = self.usage();
        write!(f, "Pool {{ allocated: {allocated}, peak: {peak} }}")
    }
}

#[derive(Debug)]
struct Inner {
    bytes: u64,
    block: OnceLock<Block>,
    /// An op that was to write it failed: nobody may take its contents for what they should be.
    error: OnceLock<Arc<Error>>,
    /// Handles that no op has.
    handles: AtomicUsize,
    /// The batch of ops that was being recorded when the last of them was dropped.
    let_go: AtomicU64,
    pool: Arc<Pool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give(block);
        }
    }
}

/// A run of bytes on the device. Cloning shares it.
#[derive(Debug)]
pub struct Value {
    inner: Arc<Inner>,
    /// An op has it; else it is a handle, as tensors have it.
    bound: bool,
}

impl Clone for Value {
    fn clone(&self) -> Self {
        if !self.bound {
            self.inner.handles.fetch_add(1, Ordering::Relaxed);
        }
        Value {
            inner: self.inner.clone(),
            bound: self.bound,
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if !self.bound {
            // In this order: whoever sees that no handle is left sees when the last one went.
            let now = self.inner.pool.batches.load(Ordering::Relaxed);
            self.inner.let_go.fetch_max(now, Ordering::Relaxed);
            self.inner.handles.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Value {
    /// A value without memory yet.
    pub(crate) fn logical(pool: &Arc<Pool>, bytes: u64) -> Self {
        Self::new(pool, bytes, false)
    }

    /// One that only ops ever have.
    pub(crate) fn of_ops(pool: &Arc<Pool>, bytes: u64) -> Self {
        Self::new(pool, bytes, true)
    }

    fn new(pool: &Arc<Pool>, bytes: u64, bound: bool) -> Self {
        let inner = Inner {
            bytes,
            block: OnceLock::new(),
            error: OnceLock::new(),
            handles: AtomicUsize::new(usize::from(!bound)),
            let_go: AtomicU64::new(0),
            pool: pool.clone(),
        };
        Value {
            inner: Arc::new(inner),
            bound,
        }
    }

    /// The value as an op has it.
    pub(crate) fn bound(&self) -> Self {
        Value {
            inner: self.inner.clone(),
            bound: true,
        }
    }

    /// Size in bytes, without padding.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// The memory, assigned now if there was none. An error where an op that was to write it failed.
    pub(crate) fn block(&self, exact: bool) -> Result<&Block> {
        if let Some(error) = self.inner.error.get() {
            return Err(Error::clone(error));
        }
        if let Some(block) = self.inner.block.get() {
            return Ok(block);
        }
        let block = self.inner.pool.take(self.inner.bytes, exact)?;
        if let Err(spare) = self.inner.block.set(block) {
            self.inner.pool.give(spare);
        }
        self.inner.block.get().ok_or_else(|| Error::Invalid {
            op: "alloc",
            message: "a value lost its memory".into(),
        })
    }

    /// Gives the memory back if this is the last holder; else it should let go. What is left of the value is dropped by the thread
    /// that made it: allocators are slow where one thread frees what another allocates.
    pub(crate) fn retire(&mut self) -> bool {
        let Some(value) = Arc::get_mut(&mut self.inner) else {
            return false;
        };
        if let Some(block) = value.block.take() {
            value.pool.give(block);
        }
        true
    }

    /// Nothing can be done with it any more, since the op that was to write it failed.
    pub(crate) fn fail(&self, error: &Arc<Error>) {
        let _ = self.inner.error.set(error.clone());
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner.error.get().is_some()
    }

    /// Whether there may be something in it but for what ops write that are not encoded.
    pub(crate) fn is_begun(&self) -> bool {
        self.inner.block.get().is_some()
    }

    /// Whether none but ops of batches up to this one have it: what tensors do later does not change the answer.
    pub(crate) fn was_let_go(&self, batch: u64) -> bool {
        self.inner.handles.load(Ordering::Acquire) == 0
            && self.inner.let_go.load(Ordering::Relaxed) <= batch
    }

    /// Tells values apart, as long as they are held.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    pub(crate) fn same(&self, other: &Value) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}
