//! Values and their memory. A value is allocated as late as its first op is encoded, and its memory returns to the pool when the last
//! reference is dropped. Recorded ops hold references too, so memory is reused in queue order.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::error::{Error, Result};
use crate::memory::growable::Prefix;
use crate::memory::pool::Pool;
use crate::util::lock;

/// A device buffer. Ids are never reused, so cache keys can contain an id instead of the buffer.
#[derive(Debug)]
pub(crate) struct Block {
    pub buffer: wgpu::Buffer,
    pub id: u64,
    pub size: u64,
    /// The batch being recorded when the block was last given to a value.
    pub taken: u64,
}

/// A value that was derived from another one.
#[derive(Debug)]
struct Derived {
    /// From which part of it, and how.
    key: Box<[u8]>,
    value: Value,
    when: When,
}

/// What runs through the ops in order. Ops are recorded while earlier ones have not been rewritten yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Recording,
    Rewriting,
}

/// In C's layout, so that the first fields, which recording and rewriting use, share cache lines with the reference count.
#[derive(Debug)]
#[repr(C)]
struct Inner {
    /// References from tensors, not from ops.
    handles: AtomicUsize,
    /// The batch being recorded when the last handle was dropped.
    dropped_in_batch: AtomicU64,
    /// See [`Value::slot`].
    slot: AtomicU32,
    /// An op that writes the value was passed to the encoder.
    written: AtomicBool,
    /// `derived` may be set: spares most writes the lock.
    derives: AtomicBool,
    /// `prefix` may be set: spares most operands the lock.
    is_prefix: AtomicBool,
    bytes: u64,
    pool: Arc<Pool>,
    block: OnceLock<Block>,
    /// Set if the op that writes this value failed.
    error: OnceLock<Arc<Error>>,
    /// A value that an op derived from this one, until an op writes this one.
    derived: Mutex<Option<Box<Derived>>>,
    /// Where the contents are, if they are in a growable value.
    prefix: Mutex<Option<Prefix>>,
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
            let last = &self.inner.dropped_in_batch;
            if last.load(Ordering::Relaxed) < now {
                last.fetch_max(now, Ordering::Relaxed);
            }
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
            derived: Mutex::default(),
            derives: AtomicBool::new(false),
            written: AtomicBool::new(false),
            prefix: Mutex::default(),
            is_prefix: AtomicBool::new(false),
            slot: AtomicU32::new(u32::MAX),
            pool: pool.clone(),
        };
        Value {
            inner: Arc::new(inner),
            bound,
        }
    }

    /// A reference from outside of ops.
    pub(crate) fn handle(&self) -> Self {
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        Value {
            inner: self.inner.clone(),
            bound: false,
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
        drop(self.take_prefix());
        true
    }

    /// Makes every later use of the value return `error`.
    pub(crate) fn fail(&self, error: &Arc<Error>) {
        let _ = self.inner.error.set(error.clone());
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.inner.error.get().is_some()
    }

    /// Called when an op that writes the value is passed to the encoder, which may assign memory much later.
    pub(crate) fn set_written(&self) {
        self.inner.written.store(true, Ordering::Release);
    }

    /// Whether an op that was passed to the encoder, or an upload, has written the value.
    pub(crate) fn has_contents(&self) -> bool {
        self.inner.written.load(Ordering::Acquire) || self.inner.block.get().is_some()
    }

    /// The growable value that has the contents, if one does.
    pub(crate) fn prefix(&self) -> Option<Prefix> {
        let is = self.inner.is_prefix.load(Ordering::Acquire);
        is.then(|| lock(&self.inner.prefix).clone()).flatten()
    }

    /// From now on, a growable value has the contents, until an op that needs them here copies them.
    pub(crate) fn keep_prefix(&self, prefix: Prefix) {
        *lock(&self.inner.prefix) = Some(prefix);
        self.inner.is_prefix.store(true, Ordering::Release);
        self.set_written();
    }

    /// The same as [`prefix`](Value::prefix), for the op that copies the contents here.
    pub(crate) fn take_prefix(&self) -> Option<Prefix> {
        // Not a swap, which would take the cache line of each operand from other threads.
        if !self.inner.is_prefix.load(Ordering::Acquire) {
            return None;
        }
        self.inner.is_prefix.store(false, Ordering::Release);
        lock(&self.inner.prefix).take()
    }

    /// Whether only ops reference the value, and its last handle was dropped while batch `batch` or an earlier one was recorded. Later
    /// drops do not change the result, so fusion does not depend on timing.
    pub(crate) fn dropped_before_batch(&self, batch: u64) -> bool {
        self.inner.handles.load(Ordering::Acquire) == 0
            && self.inner.dropped_in_batch.load(Ordering::Relaxed) <= batch
    }

    /// The value that an op derived from the present contents under this key.
    pub(crate) fn derived(&self, key: &[u8]) -> Option<Value> {
        let derived = lock(&self.inner.derived);
        let Derived { key: of, value, .. } = derived.as_deref()?;
        (**of == *key && !value.has_failed()).then(|| value.clone())
    }

    /// Keeps what an op derives from the present contents, in place of what was kept before. A key is used in one stage only.
    pub(crate) fn keep_derived(&self, key: &[u8], value: Value, when: When) {
        let key = key.into();
        *lock(&self.inner.derived) = Some(Box::new(Derived { key, value, when }));
        self.inner.derives.store(true, Ordering::Release);
    }

    /// Called when an op that writes the value is recorded, and when it is rewritten. What was kept while recording follows later ops.
    pub(crate) fn forget_derived(&self, when: When) {
        if self.inner.derives.load(Ordering::Acquire) {
            let mut derived = lock(&self.inner.derived);
            derived.take_if(|kept| when == When::Recording || kept.when == when);
        }
    }

    /// A key that is unique while a reference to the value exists.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    /// Where the graph that is being rewritten lists the value, if it does. Only one graph of a device is rewritten at a time.
    pub(crate) fn slot(&self) -> &AtomicU32 {
        &self.inner.slot
    }

    pub(crate) fn same(&self, other: &Value) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::DType;
    use crate::memory::split::Part;

    #[test]
    fn writes_forget_what_was_derived() -> Result<()> {
        let device = Device::separate(0)?;
        let [x, y] = [0, 1].map(|bits| device.fill(64, DType::F32, bits));
        let (x, y) = (x?, y?);
        let [key, other] = [[0], [1]];
        x.keep_derived(&key, y.clone(), When::Recording);
        assert!(x.derived(&key).is_some_and(|kept| kept.same(&y)));
        assert!(x.derived(&other).is_none());
        let [from, to] = [&x, &y].map(|value| Part::all(value, DType::F32, &[64]));
        device.copy_into(from.view(), to.view())?;
        assert!(x.derived(&key).is_some(), "read");
        device.copy_into(to.view(), from.view())?;
        assert!(x.derived(&key).is_none(), "written");
        for (when, kept) in [(When::Recording, true), (When::Rewriting, false)] {
            x.keep_derived(&key, y.clone(), when);
            x.forget_derived(When::Rewriting);
            assert_eq!(x.derived(&key).is_some(), kept, "{when:?}");
        }
        x.keep_derived(&other, y.clone(), When::Rewriting);
        y.fail(&Arc::new(Error::Validation("of an op".into())));
        assert!(x.derived(&other).is_none(), "failed");
        Ok(())
    }
}
