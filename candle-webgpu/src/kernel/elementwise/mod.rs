//! Elementwise kernels: one op each, or several fused into one.

pub mod binary;
pub(crate) mod fused;
pub mod unary;
pub mod where_cond;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::{spans, Strided};
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32};
use crate::memory::split::Loops;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{Access, Kernel, Specialization};

/// How these kernels read an operand.
const ACCESS: [Access; 3] = [Access::Flat, Access::Rows, Access::Strided];

impl Recorder {
    /// `y = op(reads)` of dtype `out`, contiguous, for views of the same dims and an op of `kernel` with the scalars a and b.
    fn elementwise<const N: usize>(
        &self,
        kernel: &'static Kernel,
        op: &'static str,
        reads: [View<'_>; N],
        out: DType,
        [a, b]: [[u32; 2]; 2],
    ) -> Result<Value> {
        let name = if op.is_empty() { kernel.name } else { op };
        let y = (out, reads[0].dims);
        self.in_bound_parts(name, reads, y, Loops::Elements, |reads, ranges| {
            let n = reads[0].count();
            let merged = merge(name, reads[0].dims, reads.map(|v| v.strides))?;
            let mut operands = SmallVec::<[(DType, Access); 4]>::new();
            let mut offsets = [0, 0, a[0], a[1]];
            for (i, v) in reads.iter().enumerate() {
                operands.push((v.dtype, merged.access(i, v.offset)));
                offsets[i] = v.offset as u32;
            }
            operands.push((out, Access::Put));
            let spec = Specialization::new(kernel, op, &operands);
            let mut params = Strided::new(to_u32(name, n)?, &merged, offsets);
            params.pad = b;
            let grid = spans(&spec, n);
            self.record(spec, ranges, &params, grid)
        })
    }
}
