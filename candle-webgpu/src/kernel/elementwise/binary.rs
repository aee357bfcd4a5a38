//! Binary ops: `y = op(a, b)`.

use crate::error::{Error, Result};
use crate::kernel::elementwise::ACCESS;
use crate::kernel::{span_slot, strided_layout};
use crate::memory::buffer::Value;
use crate::memory::view::View;
use crate::op::{Family, Op, OPS};
use crate::recorder::Recorder;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static BINARY: Kernel = Kernel {
    slots,
    ..kernel!("elementwise", "binary", strided_layout!("a": 0, "b": 1); read a, read b, write y)
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
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Binary) {
        for &e in op.dtypes {
            let y = (op.output(e), Access::Put);
            let spec = |a, b| Specialization::new(&BINARY, op.name, &[(e, a), (e, b), y]);
            all.extend(ACCESS.iter().flat_map(|&a| ACCESS.map(|b| spec(a, b))));
        }
    }
    all
}

impl Recorder {
    /// `y = op(a, b)` for a binary row of OPS, contiguous. Both views have the same dims and dtype; comparisons give u8.
    pub fn binary(&self, op: &'static str, a: View<'_>, b: View<'_>) -> Result<Value> {
        let row = Op::find(op, a.dtype)?;
        if row.family != Family::Binary || a.dims != b.dims || a.dtype != b.dtype {
            let message = format!(
                "operands differ: {:?} {} and {:?} {}",
                a.dims, a.dtype, b.dims, b.dtype
            );
            return Err(Error::Invalid { op, message });
        }
        let out = row.output(a.dtype);
        self.elementwise(&BINARY, row.name, [a, b], out, [[0; 2]; 2])
    }
}
