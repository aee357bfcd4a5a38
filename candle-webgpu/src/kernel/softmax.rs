//! Softmax of rows that are few and long, by chunks: a pass for their maxima and sums, and one for the result.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::norm::{spec, Flat, Rows, SOFTMAX_MERGE, SOFTMAX_SPLIT, WORKGROUP};
use crate::kernel::ROUNDS;
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::to_u32;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::Specialization;

/// The most chunks of all rows together: as many workgroups keep a large adapter busy.
const CHUNKS: u32 = 2048;
/// The fewest elements of a chunk, and the most.
const LEAST: u32 = 8192;
const MOST: u32 = (ROUNDS as u32) * WORKGROUP;

/// The parameters of a softmax in one pass.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct SoftmaxParams {
    pub rows: u32,
    pub n: u32,
    pub x_offset: u32,
    pub pad: u32,
}

/// The parameters of both passes.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct ChunkParams {
    rows: u32,
    n: u32,
    x_offset: u32,
    chunks: u32,
    chunk: u32,
    pad: [u32; 3],
}

pub(crate) struct Chunked {
    pub params: ChunkParams,
}

impl Chunked {
    /// If rows so few and so long are better cut.
    pub fn new(of: SoftmaxParams) -> Option<Self> {
        let cut = Self::cut(of);
        let scale = if of.rows < 256 { 3 } else { 9 };
        (cut.params.chunks >= scale).then_some(cut)
    }

    pub fn cut(of: SoftmaxParams) -> Self {
        let most = (of.n / LEAST).min(CHUNKS / of.rows.max(1));
        let chunks = most.max(of.n.div_ceil(MOST));
        let chunk = of.n.div_ceil(chunks.max(1)).next_multiple_of(4);
        let params = ChunkParams {
            rows: of.rows,
            n: of.n,
            x_offset: of.x_offset,
            chunks: of.n.div_ceil(chunk.max(1)),
            chunk,
            pad: [0; 3],
        };
        Chunked { params }
    }

    fn groups(&self) -> u64 {
        u64::from(self.params.rows) * u64::from(self.params.chunks)
    }

    /// Of the maxima and sums, two f32 a chunk.
    pub fn bytes(&self) -> u64 {
        8 * self.groups()
    }

    pub fn grid(&self) -> Grid {
        Grid::Linear(self.groups())
    }

    pub fn specs(&self, dtype: DType, whole: bool) -> [Specialization; 2] {
        [&SOFTMAX_SPLIT, &SOFTMAX_MERGE].map(|kernel| spec(kernel, dtype, whole, None))
    }
}

impl Rows {
    /// Softmax by chunks of rows.
    pub fn in_chunks(&self, device: &Recorder, x: &Flat) -> Result<Value> {
        let (dims, strides) = ([self.rows, self.n], [self.n, 1]);
        let x = x.view(self.dtype, &dims, &strides);
        let y = (self.dtype, &dims[..]);
        device.in_parts(self.op, [x], y, Loops::First(1), |[x], y| {
            let (window, x) = device.binding_range(self.op, x)?;
            let chunked = Chunked::cut(SoftmaxParams {
                rows: to_u32(self.op, x.dims[0])?,
                n: to_u32(self.op, self.n)?,
                x_offset: to_u32(self.op, x.offset)?,
                pad: 0,
            });
            let sums = device.output(self.op, chunked.bytes() as usize / 4, DType::F32)?;
            let whole = self.n.is_multiple_of(4) && x.offset.is_multiple_of(4);
            let [parts, join] = chunked.specs(self.dtype, whole);
            let windows = [window, (&sums).into()];
            device.record(parts, &windows, &chunked.params, chunked.grid())?;
            let windows = [window, (&sums).into(), y];
            device.record(join, &windows, &chunked.params, chunked.grid())
        })
    }
}
