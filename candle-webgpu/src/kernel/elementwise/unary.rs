//! Unary ops `y = op(x)`, casts and contiguous copies.

use crate::dtype::{Compute, DType, BITS, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::{span_slot, spans, strided_layout, words, Strided, WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::{merge, to_u32, View};
use crate::op::{cast, short, Family, Op, CAST, OPS, SHORT};
use crate::recorder::Recorder;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

pub static UNARY: Kernel = Kernel {
    name: "unary",
    source: wgsl!("kernel/elementwise/unary.wgsl"),
    params: strided_layout!("x": 0; "a": 16, "b": 24),
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
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

const ACCESS: [Access; 3] = [Access::Flat, Access::Rows, Access::Strided];

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
            return Err(Error::Invalid {
                op,
                message: "not a unary op".into(),
            });
        }
        let [a, b] = scalars.map(|v| scalar(x.dtype, v));
        self.unary_with(row.name, x, row.output(x.dtype), a, b)
    }

    /// `x` cast to another dtype as Rust's `as` does (ties to even), contiguous.
    pub fn cast(&self, x: View<'_>, to: DType) -> Result<Value> {
        if x.dtype == to {
            return self.contiguous(x);
        }
        cast(x.dtype, to)?;
        self.unary_with(CAST_OP, x, to, [0; 2], [0; 2])
    }

    /// A contiguous copy of any dtype.
    pub fn contiguous(&self, x: View<'_>) -> Result<Value> {
        let bits = x.dtype.bits();
        self.unary_with(COPY, x.with_dtype(bits), bits, [0; 2], [0; 2])
    }

    fn unary_with(
        &self,
        op: &'static str,
        x: View<'_>,
        out: DType,
        a: [u32; 2],
        b: [u32; 2],
    ) -> Result<Value> {
        self.in_parts(op, [x], (out, x.dims), Loops::Elements, |[x], y| {
            let (window, x) = self.binding_range(op, x)?;
            let n = x.count();
            let merged = merge(op, x.dims, [x.strides])?;
            let spec = Specialization::new(
                &UNARY,
                op,
                &[(x.dtype, merged.access(0, x.offset)), (out, Access::Put)],
            );
            let offsets = [x.offset as u32, 0, a[0], a[1]];
            let mut params = Strided::new(to_u32(op, n)?, &merged, offsets);
            params.pad = b;
            let grid = spans(&spec, n);
            self.record(spec, &[window, y], &params, grid)
        })
    }
}
