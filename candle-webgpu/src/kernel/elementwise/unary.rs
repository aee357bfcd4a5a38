//! Unary ops `y = op(x)`, casts and contiguous copies.

use crate::dtype::{Compute, DType, BITS, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::elementwise::ACCESS;
use crate::kernel::{span_slot, strided_layout, words};
use crate::memory::buffer::Value;
use crate::memory::view::View;
use crate::op::{cast, short, Family, Op, CAST, OPS, SHORT};
use crate::recorder::Recorder;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static UNARY: Kernel = Kernel {
    slots,
    ..kernel!("elementwise", "unary", strided_layout!("x": 0; "a": 16, "b": 24); read x, write y)
};

/// Copies bits.
pub(crate) const COPY: &str = "copy";
/// Casts to another dtype.
pub(crate) const CAST_OP: &str = "cast";

/// WGSL that applies an op to the value `v`; `scalars` are expressions of two words each.
pub(crate) fn apply(
    op: &'static str,
    (from, to): (DType, DType),
    v: &str,
    scalars: [&str; 2],
) -> Result<String> {
    if op == CAST_OP {
        return Ok(match cast(from, to)? {
            Some(f) => format!("{f}({v})"),
            None => v.to_string(),
        });
    }
    if let Some(op) = short(op, from) {
        return Ok(format!("{op}({v})"));
    }
    let [a, b] = scalars.map(|words| from.info().compute.of_words(words));
    Ok(match Op::find(op, from)?.family {
        Family::Unary { scalars: 0 } => format!("{op}({v})"),
        Family::Unary { scalars: 1 } => format!("{op}({v}, {a})"),
        _ => format!("{op}({v}, {a}, {b})"),
    })
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    let compute = spec.info(0).compute;
    match spec.op {
        COPY => {}
        CAST_OP => text.file(CAST),
        op if short(op, spec.dtype(0)).is_some() => text.file(SHORT),
        _ => text.ops(compute),
    }
    let call = match spec.op {
        COPY => "v".to_string(),
        op => apply(op, (spec.dtype(0), spec.dtype(1)), "v", ["p.a", "p.b"])?,
    };
    text.line(format!("fn op(v: XV) -> YV {{ return {call}; }}"));
    if compute == Compute::F64 && spec.op != COPY {
        text.part(wgsl!("kernel/elementwise/unary_loop.wgsl"));
    } else {
        text.line("fn each(v: XL) -> YL { return YL(op(v[0]), op(v[1]), op(v[2]), op(v[3])); }");
    }
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let spec = |op, x, access, y| Specialization::new(&UNARY, op, &[(x, access), (y, Access::Put)]);
    let mut all = Vec::new();
    for access in ACCESS {
        for op in OPS {
            if let Family::Unary { .. } = op.family {
                all.extend(op.dtypes.iter().map(|&e| spec(op.name, e, access, e)));
            }
        }
        all.extend(BITS.map(|bits| spec(COPY, bits, access, bits)));
        for x in NUMBERS {
            let casts = NUMBERS.into_iter().filter(|y| x != *y);
            all.extend(casts.map(|y| spec(CAST_OP, x, access, y)));
        }
    }
    all
}

/// A scalar of Candle's API as the (low, high) words of a compute value, rounded to the dtype first as on the CPU.
pub(crate) fn scalar(dtype: DType, v: f64) -> [u32; 2] {
    words((dtype.info().scalar)(v))
}

impl Recorder {
    /// `y = op(x)`, `op(x, a)` or `op(x, a, b)` for a unary row of OPS, contiguous. Scalars that the op does not take are ignored.
    pub fn unary(&self, op: &'static str, x: View<'_>, scalars: [f64; 2]) -> Result<Value> {
        let row = Op::find(op, x.dtype)?;
        if !matches!(row.family, Family::Unary { .. }) {
            let message = "not a unary op".into();
            return Err(Error::Invalid { op, message });
        }
        let scalars = scalars.map(|v| scalar(x.dtype, v));
        self.elementwise(&UNARY, row.name, [x], row.output(x.dtype), scalars)
    }

    /// `x` cast to another dtype as Rust's `as` does (ties to even), contiguous.
    pub fn cast(&self, x: View<'_>, to: DType) -> Result<Value> {
        if x.dtype == to {
            return self.contiguous(x);
        }
        cast(x.dtype, to)?;
        self.elementwise(&UNARY, CAST_OP, [x], to, [[0; 2]; 2])
    }

    /// A contiguous copy of any dtype.
    pub fn contiguous(&self, x: View<'_>) -> Result<Value> {
        let bits = x.dtype.bits();
        self.elementwise(&UNARY, COPY, [x.with_dtype(bits)], bits, [[0; 2]; 2])
    }
}
