//! map: `y = op(x)`, casts and contiguous copies.

use crate::buffer::Value;
use crate::cut::Loops;
use crate::device::Device;
use crate::elem::{Compute, Elem, ELEMS};
use crate::error::{Error, Result};
use crate::f8e4m3;
use crate::kernel::{span_slot, spans, Strided, WORKGROUP};
use crate::layout::{merge, to_u32, View};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::op::{cast, short, Family, Op, CAST, OPS, SHORT};

pub static MAP: Kernel = Kernel {
    name: "map",
    source: include_str!("../../wgsl/kernel/map.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

/// Moves bits; the input and the output have the same dtype.
pub(crate) const COPY: &str = "copy";
/// Converts between dtypes.
pub(crate) const CAST_OP: &str = "cast";

/// How many scalars an op takes.
pub(crate) fn scalars_of(op: &str) -> u8 {
    match OPS.iter().find(|row| row.name == op).map(|row| row.family) {
        Some(Family::Map { scalars }) => scalars,
        _ => 0,
    }
}

/// The call of an op with a value and pairs of words that hold its scalars.
pub(crate) fn apply(
    op: &'static str,
    (from, to): (Elem, Elem),
    v: &str,
    scalars: [&str; 2],
) -> Result<String> {
    let compute = from.row(op)?.compute;
    if op == CAST_OP {
        return Ok(match cast(from, to)? {
            Some(f) => format!("{f}({v})"),
            None => v.to_string(),
        });
    }
    if let Some(op) = short(op, from) {
        return Ok(format!("{op}({v})"));
    }
    let [a, b] = scalars.map(|s| match compute {
        Compute::F32 => format!("bitcast<f32>({s}.x)"),
        Compute::U32 => format!("{s}.x"),
        Compute::I32 => format!("bitcast<i32>({s}.x)"),
        Compute::I64 | Compute::F64 => s.to_string(),
    });
    Ok(match Op::find(op, from)?.family {
        Family::Map { scalars: 0 } => format!("{op}({v})"),
        Family::Map { scalars: 1 } => format!("{op}({v}, {a})"),
        _ => format!("{op}({v}, {a}, {b})"),
    })
}

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    let compute = spec.row(0)?.compute;
    match spec.op {
        COPY => {}
        CAST_OP => text.file(CAST),
        op if short(op, spec.elem(0)).is_some() => text.file(SHORT),
        _ => text.ops(compute),
    }
    let call = match spec.op {
        COPY => "v".to_string(),
        op => apply(op, (spec.elem(0), spec.elem(1)), "v", ["p.a", "p.b"])?,
    };
    text.line(format!("fn op(v: XV) -> YV {{ return {call}; }}"));
    // Long operators are written out once, not four times.
    text.line(if compute == Compute::F64 && spec.op != COPY {
        "fn each(v: XL) -> YL {
    var u = v;
    var w: YL;
    for (var i = 0u; i < 4u; i++) { w[i] = op(u[i]); }
    return w;
}"
    } else {
        "fn each(v: XL) -> YL { return YL(op(v[0]), op(v[1]), op(v[2]), op(v[3])); }"
    });
    Ok(())
}

const ACCESS: [Access; 3] = [Access::Flat, Access::Rows, Access::Strided];

pub fn catalogue() -> Vec<Spec> {
    let spec = |op, x, access, y| Spec::new(&MAP, op, &[(x, access), (y, Access::Put)]);
    let mut all = Vec::new();
    for access in ACCESS {
        for op in OPS {
            if let Family::Map { .. } = op.family {
                all.extend(op.elems.iter().map(|&e| spec(op.name, e, access, e)));
            }
        }
        for x in ELEMS {
            if x.elem == x.elem.bits() {
                all.push(spec(COPY, x.elem, access, x.elem));
            }
            let casts = ELEMS
                .iter()
                .filter(|y| x.elem != y.elem && x.elem != Elem::U16 && y.elem != Elem::U16);
            all.extend(casts.map(|y| spec(CAST_OP, x.elem, access, y.elem)));
        }
    }
    all
}

/// A scalar of Candle's API as the bits of a compute value, rounded to the dtype first as on the CPU.
pub(crate) fn scalar(elem: Elem, v: f64) -> [u32; 2] {
    let float = |v: f32| [v.to_bits(), 0];
    let words = |bits: u64| [bits as u32, (bits >> 32) as u32];
    match elem {
        Elem::F16 => float(half::f16::from_f64(v).to_f32()),
        Elem::Bf16 => float(half::bf16::from_f64(v).to_f32()),
        Elem::F8E4M3 => float(f8e4m3::to_f32(f8e4m3::from_f64(v))),
        Elem::F64 => words(v.to_bits()),
        Elem::U8 => [u32::from(v as u8), 0],
        Elem::U32 => [v as u32, 0],
        Elem::I16 => [i32::from(v as i16) as u32, 0],
        Elem::I32 => [v as i32 as u32, 0],
        Elem::I64 => words(v as i64 as u64),
        _ => float(v as f32),
    }
}

impl Device {
    /// `y = op(x)`: a row of OPS in the map family. `scalars` beyond those the op takes are ignored.
    pub fn map(&self, op: &'static str, x: View<'_>, scalars: [f64; 2]) -> Result<Value> {
        let row = Op::find(op, x.elem)?;
        if !matches!(row.family, Family::Map { .. }) {
            return Err(Error::Invalid {
                op,
                message: "not an op of one operand".into(),
            });
        }
        let [a, b] = scalars.map(|v| scalar(x.elem, v));
        self.map_with(row.name, x, row.output(x.elem), a, b)
    }

    /// `x` in another dtype, contiguous: Rust's `as`, ties to even.
    pub fn cast(&self, x: View<'_>, to: Elem) -> Result<Value> {
        if x.elem == to {
            return self.contiguous(x);
        }
        cast(x.elem, to)?;
        self.map_with(CAST_OP, x, to, [0; 2], [0; 2])
    }

    /// A contiguous copy, of any dtype.
    pub fn contiguous(&self, x: View<'_>) -> Result<Value> {
        let bits = x.elem.bits();
        self.map_with(COPY, x.with_elem(bits), bits, [0; 2], [0; 2])
    }

    fn map_with(
        &self,
        op: &'static str,
        x: View<'_>,
        out: Elem,
        a: [u32; 2],
        b: [u32; 2],
    ) -> Result<Value> {
        self.in_pieces(op, [x], (out, x.dims), Loops::Elements, |[x], y| {
            let (window, x) = self.window(op, x)?;
            let n = x.count();
            let merged = merge(op, x.dims, [x.strides])?;
            let spec = Spec::new(
                &MAP,
                op,
                &[(x.elem, merged.access(0, x.offset)), (out, Access::Put)],
            );
            let offsets = [x.offset as u32, 0, a[0], a[1]];
            let mut params = Strided::new(to_u32(op, n)?, &merged, offsets);
            params.pad = b;
            let grid = spans(&spec, n);
            self.record(spec, &[window, y], &params, grid)
        })
    }
}
