//! The memory pool: device memory in blocks, recycled by size.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crossbeam_utils::CachePadded;

use crate::error::{Error, Result};
use crate::memory::buffer::Block;
use crate::util::{lock, scoped};

pub(crate) struct Pool {
    device: wgpu::Device,
    pub adapter: String,
    limit: u64,
    /// The most bytes of one binding, a multiple of [`GRAIN`].
    pub binding: u64,
    /// The most bytes of all blocks together (`CANDLE_WEBGPU_MEMORY_LIMIT`).
    budget: Option<u64>,
    free: CachePadded<Mutex<BTreeMap<u64, Vec<Block>>>>,
    next_id: AtomicU64,
    allocated: AtomicU64,
    peak: AtomicU64,
    idle: CachePadded<AtomicU64>,
    /// Number of recorded batches. A value stores it when its last handle is dropped.
    pub batches: CachePadded<AtomicU64>,
}

/// Buffer sizes are multiples of this, since kernels may access a whole vec4 past the end of a value. It is also the largest alignment
/// of a binding's start that WebGPU lets an adapter require.
pub(crate) const GRAIN: u64 = 256;

/// Batches after which idle memory is stale: those of some 25 decoded tokens, or of a few training steps.
const STALE: u64 = 256;

impl Pool {
    pub fn new(device: wgpu::Device, adapter: String, budget: Option<u64>, binding: u64) -> Self {
        Pool {
            binding,
            budget,
            limit: device.limits().max_buffer_size & !(GRAIN - 1),
            device,
            adapter,
            free: CachePadded::default(),
            next_id: AtomicU64::new(1),
            allocated: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            idle: CachePadded::default(),
            batches: CachePadded::default(),
        }
    }

    /// The most bytes of all blocks together (`CANDLE_WEBGPU_MEMORY_LIMIT`).
    pub fn budget(&self) -> Option<u64> {
        self.budget
    }

    /// Bytes of all blocks, now and at peak.
    pub fn usage(&self) -> (u64, u64) {
        (
            self.allocated.load(Ordering::Relaxed),
            self.peak.load(Ordering::Relaxed),
        )
    }

    /// [`Error::TooLarge`] if one buffer cannot contain `bytes`.
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

    /// Rounds a size up to one of eight steps per power of two, so that growing tensors reuse blocks.
    fn class(bytes: u64) -> u64 {
        let bytes = bytes.max(GRAIN);
        let step = (bytes.next_power_of_two() / 16).max(GRAIN);
        bytes.next_multiple_of(step)
    }

    /// A block of at least `bytes` bytes, or [`Error::OutOfMemory`]. With `exact`, the size is not rounded up, to save memory for
    /// long-lived data (weights).
    pub fn take(&self, bytes: u64, exact: bool) -> Result<Block> {
        let least = bytes.max(GRAIN).next_multiple_of(GRAIN);
        let want = if exact { least } else { Self::class(bytes) };
        {
            let mut free = lock(&self.free);
            let most = want + want / 8;
            // Empty lists stay in the map, since they will be needed again.
            let block = free.range_mut(want..=most).find_map(|(_, list)| list.pop());
            if let Some(mut block) = block {
                block.taken = self.batches.load(Ordering::Relaxed);
                self.idle.fetch_sub(block.size, Ordering::Relaxed);
                return Ok(block);
            }
        }
        let want = if want > self.limit { least } else { want };
        self.create(want).ok_or_else(|| self.out_of_memory(want, 0))
    }

    /// The error for an allocation that failed after `pooled` idle bytes were returned to the driver.
    pub fn out_of_memory(&self, requested: u64, pooled: u64) -> Error {
        let (allocated, idle) = (&self.allocated, &self.idle);
        Error::OutOfMemory {
            requested,
            in_use: allocated
                .load(Ordering::Relaxed)
                .saturating_sub(idle.load(Ordering::Relaxed)),
            pooled,
            budget: self.budget,
            adapter: self.adapter.clone(),
        }
    }

    /// Adds a new block to `allocated`; `false` if that would exceed the budget.
    fn reserve(&self, size: u64) -> bool {
        let most = self.budget.unwrap_or(u64::MAX);
        let counted = self
            .allocated
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                all.checked_add(size).filter(|all| *all <= most)
            });
        counted.is_ok()
    }

    fn create(&self, size: u64) -> Option<Block> {
        if !self.reserve(size) {
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
            taken: self.batches.load(Ordering::Relaxed),
        })
    }

    pub fn give(&self, block: Block) {
        self.idle.fetch_add(block.size, Ordering::Relaxed);
        lock(&self.free).entry(block.size).or_default().push(block);
    }

    /// Returns all idle memory to the driver, and the number of its bytes.
    pub fn trim(&self) -> u64 {
        self.release(0, |_| true)
    }

    /// [`trim`](Self::trim) for memory that was not used lately, once it is a quarter of all memory: a model was dropped, or the work has
    /// changed.
    pub fn trim_stale(&self) -> u64 {
        let least = self.allocated.load(Ordering::Relaxed) / 4;
        if self.idle.load(Ordering::Relaxed) <= least {
            return 0;
        }
        let batches = self.batches.load(Ordering::Relaxed);
        self.release(least, |block| block.taken + STALE < batches)
    }

    /// Returns the idle blocks that are `unused` to the driver if they have more than `least` bytes.
    fn release(&self, least: u64, unused: impl Fn(&Block) -> bool) -> u64 {
        let mut free = lock(&self.free);
        let blocks = free.values().flatten().filter(|block| unused(block));
        let bytes: u64 = blocks.map(|block| block.size).sum();
        if bytes <= least {
            return 0;
        }
        let blocks = free.values_mut();
        let blocks = blocks.flat_map(|list| list.extract_if(.., |block| unused(block)));
        let blocks: Vec<Block> = blocks.collect();
        // Destroying buffers takes long, so it happens after the lock is released.
        drop(free);
        drop(blocks);
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (allocated, peak) = self.usage();
        write!(f, "Pool {{ allocated: {allocated}, peak: {peak} }}")
    }
}
