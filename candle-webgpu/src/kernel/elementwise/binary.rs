//! Binary ops: `y = op(a, b)`.

use crate::error::{Error, Result};
use crate::kernel::{span_slot, spans, strided_layout, Strided, WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::{merge, to_u32, View};
use crate::op::{Family, Op, OPS};
use crate::recorder::Recorder;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

pub static BINARY: Kernel = Kernel {
    name: "binary",
    source: wgsl!("kernel/elementwise/binary.wgsl"),
    params: strided_layout!("a": 0, "b": 1),
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    text.ops(spec.info(0).compute);
    text.line(format!(
        "fn op(u: AV, v: BV) -> YV {{ return {}(u, v); }}",
        spec.op
    ));
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let access = [Access::Flat, Access::Rows, Access::Strided];
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Binary) {
        for &e in op.dtypes {
            for a in access {
                all.extend(access.map(|b| {
                    Specialization::new(
                        &BINARY,
                        op.name,
                        &[(e, a), (e, b), (op.output(e), Access::Put)],
                    )
                }));
            }
        }
    }
    all
}

impl Recorder {
    /// `y = op(a, b)` for a binary row of OPS, contiguous. Both views have the same dims and dtype; comparisons give u8.
    pub fn binary(&self, op: &'static str, a: View<'_>, b: View<'_>) -> Result<Value> {
        let row = Op::find(op, a.dtype)?;
        if row.family != Family::Binary || a.dims != b.dims || a.dtype != b.dtype {
            return Err(Error::Invalid {
                op,
                message: format!(
                    "operands differ: {:?} {} and {:?} {}",
                    a.dims, a.dtype, b.dims, b.dtype
                ),
            });
        }
        let out = row.output(a.dtype);
        self.in_parts(op, [a, b], (out, a.dims), Loops::Elements, |[a, b], y| {
            let (a_window, a) = self.binding_range(op, a)?;
            let (b_window, b) = self.binding_range(op, b)?;
            let n = a.count();
            let merged = merge(op, a.dims, [a.strides, b.strides])?;
            let spec = Specialization::new(
                &BINARY,
                row.name,
                &[
                    (a.dtype, merged.access(0, a.offset)),
                    (b.dtype, merged.access(1, b.offset)),
                    (out, Access::Put),
                ],
            );
            let offsets = [a.offset as u32, b.offset as u32, 0, 0];
            let params = Strided::new(to_u32(op, n)?, &merged, offsets);
            let grid = spans(&spec, n);
            self.record(spec, &[a_window, b_window, y], &params, grid)
        })
    }
}
