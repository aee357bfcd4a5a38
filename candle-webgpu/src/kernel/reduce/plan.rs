//! The strategy of a reduction, and the number of chunks into which the reduced dims are split.

use crate::kernel::reduce::specialization::{Strategy, TREE_WORKGROUP};
use crate::kernel::{thread_group, ROUNDS};
use crate::memory::merge::MAX_RANK;
use crate::recorder::Recorder;
use crate::shader::params;

params! {
    /// Parameters of all kernels of the family, for `n` outputs of `m` elements each.
    pub(crate) struct Params {
        pub n: u32,
        pub m: u32,
        pub chunks: u32,
        /// Elements of a chunk.
        pub chunk: u32,
        pub x_offset: u32,
        pub rank: u32,
        pub m_rank: u32,
        /// 1 if `x` is a part of the reduced tensor, and not the first one.
        pub later: u32,
        pub dims: [u32; MAX_RANK],
        pub strides: [u32; MAX_RANK],
        pub m_dims: [u32; MAX_RANK],
        pub m_strides: [u32; MAX_RANK],
    }
}

impl Params {
    /// Whether one pass reduces all of `n` contiguous rows of `m` elements.
    pub fn are_of_rows(&self) -> bool {
        (self.rank, self.m_rank, self.chunks, self.later) == (1, 1, 1, 0)
            && (self.n == 1 || self.strides[0] == self.m)
            && self.m_strides[0] == 1
    }

    /// The number of elements that are reduced.
    pub fn elements(&self) -> Option<u32> {
        self.n.checked_mul(self.m)
    }
}

pub(crate) struct Plan {
    pub strategy: Strategy,
    pub chunks: usize,
    /// Elements of a chunk.
    pub chunk: usize,
}

/// Threads and workgroups that keep an adapter busy, so that the reduced dims need not be split.
const BUSY_THREADS: usize = 1 << 17;
const BUSY_WORKGROUPS: usize = 512;
/// Outputs from which a thread per output is enough for a short reduction.
const COLUMN_THREADS: usize = 1 << 14;
/// Outputs from which a thread takes several units.
const BUSY_ROWS: usize = 4096;
/// Elements of a chunk below which splitting does not pay: for a thread, for a workgroup along a row, and for one across rows.
const THREAD_WORK: usize = 128;
const ROW_WORK: usize = 4096;
const COLUMNS_WORK: usize = 256;

impl Plan {
    /// `lanes`: elements in a word of y. The number of chunks does not depend on it.
    pub fn new(device: &Recorder, params: &Params, lanes: usize) -> Self {
        let (n, m) = (params.n as usize, params.m as usize);
        let (inner, m_inner) = (params.rank as usize - 1, params.m_rank as usize - 1);
        let by_four = |strides: &[u32]| strides.iter().all(|s| s.is_multiple_of(4));
        let aligned = params.x_offset.is_multiple_of(4) && by_four(&params.strides[..inner]);
        let across = params.strides[inner] == 1 && params.m_strides[m_inner] != 1;
        let row = params.m_rank == 1
            && params.m_strides[0] == 1
            && m.is_multiple_of(4)
            && aligned
            && params.strides[inner].is_multiple_of(4);
        let columns = across
            && params.dims[inner].is_multiple_of(4)
            && aligned
            && by_four(&params.m_strides[..=m_inner]);
        let short = m <= 32 || (m <= 256 && n >= COLUMN_THREADS);
        let strategy = if columns {
            Strategy::Columns {
                down: if m > 32 { 8 } else { 1 },
            }
        } else if !row && (short || across && params.dims[inner] >= 16) {
            Strategy::Column
        } else {
            Strategy::Row {
                quads: row,
                rows: 1,
            }
        };
        // The most chunks that pay, and the most elements that a thread's loop may have in one.
        let (most, steps) = match strategy {
            Strategy::Row { .. } => {
                let most = (m / ROW_WORK).min(4 * BUSY_WORKGROUPS / n);
                (most, ROUNDS * TREE_WORKGROUP as usize)
            }
            Strategy::Column => ((m / THREAD_WORK).min(BUSY_THREADS / n), ROUNDS),
            Strategy::Columns { down } => {
                let sets = (n / 4).div_ceil((TREE_WORKGROUP / down) as usize);
                let most = (m / COLUMNS_WORK).min(4 * BUSY_WORKGROUPS / sets);
                (most, ROUNDS * down as usize)
            }
        };
        // A partial result has at most eight bytes.
        let chunks = most
            .min((device.binding_limit() / 8) as usize / n)
            .max(m.div_ceil(steps));
        let chunk = m.div_ceil(chunks.max(1));
        let (strategy, chunk) = match strategy {
            Strategy::Row { quads, .. } => {
                let unit = if quads { 4 } else { 1 };
                let chunk = chunk.next_multiple_of(unit);
                let rows = rows(device, chunk / unit, n, lanes);
                (Strategy::Row { quads, rows }, chunk)
            }
            strategy => (strategy, chunk),
        };
        Plan {
            strategy,
            chunks: m.div_ceil(chunk),
            chunk,
        }
    }
}

/// Outputs of a workgroup, whole words of `lanes`. With few outputs, as many threads as possible share one; with many, a thread takes
/// about 16 units.
fn rows(device: &Recorder, units: usize, n: usize, lanes: usize) -> u32 {
    let each = if n >= BUSY_ROWS { 16 } else { 1 };
    let most = TREE_WORKGROUP / lanes as u32;
    TREE_WORKGROUP / thread_group(device, n, units, each, TREE_WORKGROUP).min(most)
}
