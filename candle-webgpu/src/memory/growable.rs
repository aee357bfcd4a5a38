//! Growable values: matrices with room for more rows. A KV cache that a concatenation makes longer, row by row, is a prefix of one instead of
//! a copy of its predecessor.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use crate::memory::buffer::Value;
use crate::memory::pool::Pool;

/// Rows are added in multiples of this.
const ROOM: u32 = 64;

/// Matrices of rows of one size, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub matrices: u32,
    pub row_bytes: u64,
}

impl Rows {
    /// The bytes of so many rows of each matrix.
    pub fn bytes(self, rows: u32) -> u64 {
        u64::from(self.matrices) * u64::from(rows) * self.row_bytes
    }
}

/// A value with room for `capacity` rows of each matrix.
#[derive(Debug)]
pub(crate) struct Growable {
    value: Value,
    pub rows: Rows,
    pub capacity: u32,
    /// Rows of each matrix that were written. These never change.
    filled: AtomicU32,
}

impl Growable {
    /// With room for more than `rows` rows; `None` if it would exceed one binding.
    pub fn new(pool: &Arc<Pool>, of: Rows, rows: u32) -> Option<Arc<Self>> {
        let capacity = rows.checked_add(1)?.checked_next_multiple_of(ROOM)?;
        let bytes = of.bytes(capacity);
        let growable = || Growable {
            value: Value::logical(pool, bytes),
            rows: of,
            capacity,
            filled: AtomicU32::new(rows),
        };
        (bytes <= pool.binding).then(|| Arc::new(growable()))
    }

    /// The value, for an op.
    pub fn bound(&self) -> Value {
        self.value.bound()
    }
}

/// A value with the first rows of each matrix of a growable one.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    pub of: Arc<Growable>,
    pub rows: u32,
}

impl Prefix {
    /// Whether another row can follow: there is room, and no other value has used it.
    pub fn may_grow(&self) -> bool {
        let filled = self.of.filled.load(Ordering::Relaxed);
        filled == self.rows && self.rows < self.of.capacity
    }

    /// Marks the rows as written.
    pub fn claim(&self) {
        self.of.filled.fetch_max(self.rows, Ordering::Relaxed);
    }
}
