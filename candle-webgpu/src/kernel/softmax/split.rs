//! Softmax of few long rows, split into chunks: one pass for the chunks' maxima and sums, one for the result.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::norm::rows::{row_kernel, spec, specs, Flat, Rows, WORKGROUP};
use crate::kernel::softmax::SoftmaxParams;
use crate::kernel::ROUNDS;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::Loops;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{params, Kernel, Specialization};

pub static SOFTMAX_SPLIT: Kernel = row_kernel(
    kernel!("softmax", "softmax_split", Chunks::LAYOUT; read x, write stats),
    |_| 8 * WORKGROUP,
);
pub static SOFTMAX_MERGE: Kernel = row_kernel(
    kernel!("softmax", "softmax_merge", Chunks::LAYOUT; read x, read stats, write y),
    |_| 8 * WORKGROUP,
);

/// The most chunks of all rows together: as many workgroups fill a large adapter.
const CHUNKS: u32 = 2048;
/// The fewest and the most elements of a chunk.
const LEAST: u32 = 8192;
const MOST: u32 = (ROUNDS as u32) * WORKGROUP;

params! {
    /// How rows are split into chunks: the parameters of both passes.
    pub(crate) struct Chunks {
        rows: u32,
        n: u32,
        x_offset: u32,
        chunks: u32,
        chunk: u32,
        pad: [u32; 3],
    }
}

impl Chunks {
    /// None where one workgroup a row is as fast.
    pub fn if_faster(rows: SoftmaxParams) -> Option<Self> {
        let chunks = Self::new(rows);
        let least = if rows.rows < 256 { 3 } else { 9 };
        (chunks.chunks >= least).then_some(chunks)
    }

    pub fn new(of: SoftmaxParams) -> Self {
        let (rows, n) = (of.rows, of.n);
        let most = (n / LEAST).min(CHUNKS / rows.max(1));
        let chunks = most.max(n.div_ceil(MOST));
        let chunk = n.div_ceil(chunks.max(1)).next_multiple_of(4);
        Chunks {
            rows,
            n,
            x_offset: of.x_offset,
            chunks: n.div_ceil(chunk.max(1)),
            chunk,
            pad: [0; 3],
        }
    }

    fn groups(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.chunks)
    }

    /// Size of the maxima and sums: two f32 a chunk.
    pub fn bytes(&self) -> u64 {
        8 * self.groups()
    }

    pub fn grid(&self) -> Grid {
        Grid::Linear(self.groups())
    }

    /// The two passes.
    pub fn specs(&self, dtype: DType, whole: bool) -> [Specialization; 2] {
        [&SOFTMAX_SPLIT, &SOFTMAX_MERGE].map(|kernel| spec(kernel, dtype, whole, None))
    }
}

impl Rows {
    /// Softmax in chunks.
    pub fn in_chunks(&self, device: &Recorder, x: &Flat) -> Result<Value> {
        let (dims, strides) = ([self.rows, self.n], [self.n, 1]);
        let x = x.view(self.dtype, &dims, &strides);
        let y = (self.dtype, &dims[..]);
        device.in_bound_parts(self.op, [x], y, Loops::First(1), |[x], ranges| {
            let [range, y] = [ranges[0], ranges[1]];
            let chunks = Chunks::new(SoftmaxParams {
                rows: to_u32(self.op, x.dims[0])?,
                n: to_u32(self.op, self.n)?,
                x_offset: to_u32(self.op, x.offset)?,
                pad: 0,
            });
            let stats = device.output(self.op, chunks.bytes() as usize / 4, DType::F32)?;
            let whole = self.n.is_multiple_of(4) && x.offset.is_multiple_of(4);
            let [split, merge] = chunks.specs(self.dtype, whole);
            let ranges = [range, (&stats).into()];
            device.record(split, &ranges, &chunks, chunks.grid())?;
            let ranges = [range, (&stats).into(), y];
            device.record(merge, &ranges, &chunks, chunks.grid())
        })
    }
}

pub fn catalogue() -> Vec<Specialization> {
    [&SOFTMAX_SPLIT, &SOFTMAX_MERGE]
        .map(|kernel| specs(kernel, None))
        .concat()
}
