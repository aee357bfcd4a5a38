//! Values and their memory. A value is allocated as late as its first op is encoded, and its memory returns to the pool when the last
//! reference is dropped. Recorded ops hold references too, so memory is reused in queue order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::memory::pool::Pool;

/// A device buffer. Ids are never reused, so cache keys can contain an id instead of the buffer.
#[derive(Debug)]
pub(crate) struct Block {
    pub buffer: wgpu::Buffer,
    pub id: u64,
    pub size: u64,
    /// The batch being recorded when the block was last given to a value.
    pub taken: u64,
}

#[derive(Debug)]
struct Inner {
    bytes: u64,
    block: OnceLock<Block>,
    /// Set if the op that writes this value failed.
    error: OnceLock<Arc<Error>>,
    /// References from tensors, not from ops.
    handles: AtomicUsize,
    /// The batch being recorded when the last handle was dropped.
    dropped_in_batch: AtomicU64,
    pool: Arc<Pool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give(block);
        }
    }
}

/// Bytes on the device, shared by clones.
#[derive(Debug)]
pub struct Value {
    inner: Arc<Inner>,
    /// A reference from an op, which does not count as a handle.
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
            // Store the batch before decrementing: a thread that sees zero handles must also see the batch.
            let now = self.inner.pool.batches.load(Ordering::Relaxed);
            self.inner
                .dropped_in_batch
                .fetch_max(now, Ordering::Relaxed);
            self.inner.handles.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Value {
    /// A value whose memory is allocated later.
    pub(crate) fn logical(pool: &Arc<Pool>, bytes: u64) -> Self {
        Self::new(pool, bytes, false)
    }

    /// A temporary that only ops reference.
    pub(crate) fn internal(pool: &Arc<Pool>, bytes: u64) -> Self {
        Self::new(pool, bytes, true)
    }

    fn new(pool: &Arc<Pool>, bytes: u64, bound: bool) -> Self {
        let inner = Inner {
            bytes,
            block: OnceLock::new(),
            error: OnceLock::new(),
            handles: AtomicUsize::new(usize::from(!bound)),
            dropped_in_batch: AtomicU64::new(0),
            pool: pool.clone(),
        };
        Value {
            inner: Arc::new(inner),
            bound,
        }
    }

    /// A reference for an op.
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

    /// The memory, allocated on first use. An error if memory is short or if the op that writes this value failed.
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
            message: "the value has no memory".into(),
        })
    }

    /// Returns the memory to the pool if this is the last reference; `false` means that the caller should drop its reference. The value
    /// itself is not freed here but on the thread that allocated it, since allocators are slow if another thread frees.
    pub(crate) fn recycle(&mut self) -> bool {
        let Some(value) = Arc::get_mut(&mut self.inner) else {
            return false;
        };
        if let Some(block) = value.block.take() {
            value.pool.give(block);
        }
        true
    }

    /// Makes every later use of the value return `error`.
    pub(crate) fn fail(&self, error: &Arc<Error>) {
        let _ = self.inner.error.set(error.clone());
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner.error.get().is_some()
    }

    /// Whether memory has been assigned. Only then can an encoded op or an upload have written the value.
    pub(crate) fn is_allocated(&self) -> bool {
        self.inner.block.get().is_some()
    }

    /// Whether only ops reference the value, and its last handle was dropped while batch `batch` or an earlier one was recorded. Later
    /// drops do not change the result, so fusion does not depend on timing.
    pub(crate) fn dropped_before_batch(&self, batch: u64) -> bool {
        self.inner.handles.load(Ordering::Acquire) == 0
            && self.inner.dropped_in_batch.load(Ordering::Relaxed) <= batch
    }

    /// A key that is unique while a reference to the value exists.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    pub(crate) fn same(&self, other: &Value) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}
