//! Which kernel reduces, how threads share the work, and into how many chunks the folded dims are cut.

use crate::kernel::reduce::specialization::{Way, TREE_WORKGROUP, UNITS};
use crate::kernel::{thread_group, ROUNDS};
use crate::memory::view::MAX_RANK;
use crate::recorder::Recorder;

/// Parameters of all kernels of the family.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub n: u32,
    pub m: u32,
    pub chunks: u32,
    pub chunk: u32,
    pub x_offset: u32,
    pub rank: u32,
    pub m_rank: u32,
    /// 1 if other parts of the fold come before this one.
    pub later: u32,
    pub dims: [u32; MAX_RANK],
    pub strides: [u32; MAX_RANK],
    pub m_dims: [u32; MAX_RANK],
    pub m_strides: [u32; MAX_RANK],
}

pub(crate) struct Plan {
    pub way: Way,
    pub chunks: usize,
    /// Elements of a chunk.
    pub chunk: usize,
}

/// Outputs from which a device is busy without splitting the folded dims.
const BUSY_THREADS: usize = 1 << 17;
const BUSY_WORKGROUPS: usize = 512;
/// Outputs from which a thread each is enough for a short fold.
const COLUMN_THREADS: usize = 1 << 14;
/// Outputs from which threads take several units each.
const BUSY_ROWS: usize = 4096;
/// Elements scale a thread, and scale a workgroup, along a row and across rows.
const THREAD_WORK: usize = 128;
const ROW_WORK: usize = 4096;
const COLUMNS_WORK: usize = 256;

impl Plan {
    /// `lanes`: of a word of y, on which the number of chunks does not depend.
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
        let way = if columns {
            Way::Columns {
                down: if m > 32 { 8 } else { 1 },
            }
        } else if !row && (short || across && params.dims[inner] >= 16) {
            Way::Column
        } else {
            Way::Row {
                quads: row,
                rows: 1,
            }
        };
        // The most chunks that are scale it, and the most steps of a thread's loop.
        let (most, steps) = match way {
            Way::Row { .. } => {
                let most = (m / ROW_WORK).min(4 * BUSY_WORKGROUPS / n);
                (most, ROUNDS * TREE_WORKGROUP as usize)
            }
            Way::Column => ((m / THREAD_WORK).min(BUSY_THREADS / n), ROUNDS),
            Way::Columns { down } => {
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
        match way {
            Way::Row { quads, .. } => {
                let unit = UNITS[usize::from(!quads)].size as usize;
                let chunk = chunk.next_multiple_of(unit);
                let way = Way::Row {
                    quads,
                    rows: rows(device, chunk / unit, n, lanes),
                };
                Plan {
                    way,
                    chunks: m.div_ceil(chunk),
                    chunk,
                }
            }
            way => Plan {
                way,
                chunks: m.div_ceil(chunk),
                chunk,
            },
        }
    }
}

/// Outputs of a workgroup, whole words of `lanes`: all threads share a few, but where there are many outputs a thread takes
/// some 16 units.
fn rows(device: &Recorder, units: usize, n: usize, lanes: usize) -> u32 {
    let each = if n >= BUSY_ROWS { 16 } else { 1 };
    let most = TREE_WORKGROUP / lanes as u32;
    TREE_WORKGROUP / thread_group(device, n, units, each, TREE_WORKGROUP).min(most)
}
