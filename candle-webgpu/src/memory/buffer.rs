//! Values and the memory behind them. A value is logical: its memory may be assigned as late as the
//! flush, and goes back to the pool when its last holder lets go, which is in queue order because a
//! recorded op is a holder too.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::memory::pool::Pool;

/// Memory on the device. The id is never used twice, so it can stand for the buffer in a cache's key.
#[derive(Debug)]
pub(crate) struct Block {
    pub buffer: wgpu::Buffer,
    pub id: u64,
    pub size: u64,
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
