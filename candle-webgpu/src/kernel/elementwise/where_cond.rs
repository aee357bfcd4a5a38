//! where_cond: `y = c ? t : f` on bits.

use crate::dtype::{Compute, BITS, INTEGERS};
use crate::error::{Error, Result};
use crate::kernel::{span_slot, spans, strided_layout, Strided, WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::{merge, to_u32, View};
use crate::recorder::Recorder;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

pub static WHERE_COND: Kernel = Kernel {
    name: "where_cond",
    source: wgsl!("kernel/elementwise/where_cond.wgsl"),
    params: strided_layout!("c": 0, "t": 1, "f": 2),
    bindings: &[read("c"), read("t"), read("f"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    let test = match spec.info(0).compute {
        Compute::I64 => "(c.x | c.y) != 0u",
        Compute::I32 => "c != 0i",
        _ => "c != 0u",
    };
    text.line(format!("fn holds(c: CV) -> bool {{ return {test}; }}"));
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let access = [Access::Flat, Access::Rows, Access::Strided];
    let mut all = Vec::new();
    for c in INTEGERS {
        for e in BITS {
            for (ca, ta, fa) in access
                .iter()
                .flat_map(|c| access.iter().map(move |t| (c, t)))
                .flat_map(|(c, t)| access.iter().map(move |f| (*c, *t, *f)))
            {
                all.push(Specialization::new(
                    &WHERE_COND,
                    "",
                    &[(c, ca), (e, ta), (e, fa), (e, Access::Put)],
                ));
            }
        }
    }
    all
}

impl Recorder {
    /// `y = c != 0 ? t : f` elementwise, contiguous. The three views have the same dims, `t` and `f` the same dtype, `c` an integer one.
    pub fn where_cond(&self, c: View<'_>, t: View<'_>, f: View<'_>) -> Result<Value> {
        const OP: &str = "where_cond";
        c.dtype.one_of(&INTEGERS, OP)?;
        if t.dtype != f.dtype || c.dims != t.dims || c.dims != f.dims {
            return Err(Error::Invalid {
                op: OP,
                message: format!(
                    "operands differ: {:?}, {:?} {} and {:?} {}",
                    c.dims, t.dims, t.dtype, f.dims, f.dtype
                ),
            });
        }
        let (reads, bits) = ([c, t, f], t.dtype.bits());
        self.in_parts(
            OP,
            reads,
            (bits, c.dims),
            Loops::Elements,
            |[c, t, f], y| {
                let (c_window, c) = self.binding_range(OP, c)?;
                let (t_window, t) = self.binding_range(OP, t)?;
                let (f_window, f) = self.binding_range(OP, f)?;
                let n = c.count();
                let merged = merge(OP, c.dims, [c.strides, t.strides, f.strides])?;
                let spec = Specialization::new(
                    &WHERE_COND,
                    "",
                    &[
                        (c.dtype, merged.access(0, c.offset)),
                        (bits, merged.access(1, t.offset)),
                        (bits, merged.access(2, f.offset)),
                        (bits, Access::Put),
                    ],
                );
                let offsets = [c.offset as u32, t.offset as u32, f.offset as u32, 0];
                let params = Strided::new(to_u32(OP, n)?, &merged, offsets);
                let windows = [c_window, t_window, f_window, y];
                let grid = spans(&spec, n);
                self.record(spec, &windows, &params, grid)
            },
        )
    }
}
