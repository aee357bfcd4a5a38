//! Softmax over the last dim: a workgroup for a few rows, or for a chunk of a row ([`split`]).

pub(crate) mod split;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::norm::rows::{flat, row_kernel, specs, Rows, WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::recorder::Recorder;
use crate::shader::{params, Kernel, Specialization};

pub static SOFTMAX: Kernel = row_kernel(
    kernel!("softmax", "softmax", SoftmaxParams::LAYOUT; read x, write y),
    |_| 8 * WORKGROUP,
);

params! {
    pub(crate) struct SoftmaxParams {
        pub rows: u32,
        pub n: u32,
        pub x_offset: u32,
        pub pad: u32,
    }
}

pub fn catalogue() -> Vec<Specialization> {
    [specs(&SOFTMAX, Some(1)), split::catalogue()].concat()
}

/// Softmax of `rows` contiguous rows of `n` elements of `x` from an offset. None if a workgroup cannot process a row.
pub(crate) fn op(
    gpu: &Gpu,
    dtype: DType,
    (x, x_offset): ((Value, u64), u32),
    y: (Value, u64),
    [rows, n]: [u32; 2],
) -> Option<Box<Op>> {
    let of = Rows {
        op: "softmax",
        dtype,
        rows: rows as usize,
        n: n as usize,
    };
    let params = SoftmaxParams {
        rows,
        n,
        x_offset,
        pad: 0,
    };
    of.op(gpu, &SOFTMAX, [x, y], &[x_offset], &params)
}

impl Recorder {
    /// Softmax over the last dim of a float tensor of any rank.
    pub fn softmax_last_dim(&self, x: View<'_>) -> Result<Value> {
        if x.dtype == DType::F64 {
            return self.softmax_in_steps(x);
        }
        let rows = Rows::new("softmax_last_dim", x)?;
        if !rows.fit(self) {
            let x_f32 = self.cast(x, DType::F32)?;
            let y = self.softmax_in_steps(Part::all(&x_f32, DType::F32, x.dims).view())?;
            return self.cast(Part::all(&y, DType::F32, x.dims).view(), x.dtype);
        }
        if !rows.are_short(self) {
            return rows.in_chunks(self, &flat(self, x)?);
        }
        let n = to_u32(rows.op, rows.n)?;
        rows.record(self, &SOFTMAX, [&flat(self, x)?], |rows, [x_offset]| {
            SoftmaxParams {
                rows,
                n,
                x_offset,
                pad: 0,
            }
        })
    }
}
