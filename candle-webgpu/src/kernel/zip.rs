//! zip: `y = op(a, b)`.

use crate::buffer::Value;
use crate::cut::Loops;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{span_slot, spans, Strided, WORKGROUP};
use crate::layout::{merge, to_u32, View};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::op::{Family, Op, OPS};

pub static ZIP: Kernel = Kernel {
    name: "zip",
    source: include_str!("../../wgsl/kernel/zip.wgsl"),
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    text.ops(spec.row(0)?.compute);
    text.line(format!(
        "fn op(u: AV, v: BV) -> YV {{ return {}(u, v); }}",
        spec.op
    ));
    Ok(())
}

pub fn catalogue() -> Vec<Spec> {
    let access = [Access::Flat, Access::Rows, Access::Strided];
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Zip) {
        for &e in op.elems {
            for a in access {
                all.extend(access.map(|b| {
                    Spec::new(
                        &ZIP,
                        op.name,
                        &[(e, a), (e, b), (op.output(e), Access::Put)],
                    )
                }));
            }
        }
    }
    all
}

impl Device {
    /// `y = op(a, b)`: a row of OPS in the zip family. Both views have the same dims and dtype;
    /// comparisons give u8.
    pub fn zip(&self, op: &'static str, a: View<'_>, b: View<'_>) -> Result<Value> {
        let row = Op::find(op, a.elem)?;
        if row.family != Family::Zip || a.dims != b.dims || a.elem != b.elem {
            return Err(Error::Invalid {
                op,
                message: format!(
                    "operands differ: {:?} {} and {:?} {}",
                    a.dims, a.elem, b.dims, b.elem
                ),
            });
        }
        let out = row.output(a.elem);
        self.in_pieces(op, [a, b], (out, a.dims), Loops::Elements, |[a, b], y| {
            let (a_window, a) = self.window(op, a)?;
            let (b_window, b) = self.window(op, b)?;
            let n = a.count();
            let merged = merge(op, a.dims, [a.strides, b.strides])?;
            let spec = Spec::new(
                &ZIP,
                row.name,
                &[
                    (a.elem, merged.access(0, a.offset)),
                    (b.elem, merged.access(1, b.offset)),
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
