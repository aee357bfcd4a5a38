//! OPS: the elementwise and reduction ops. A row's name is Candle's KERNEL string, which is also the name of the WGSL function and part of
//! pipeline labels and test names.

use crate::dtype::{Compute, DType, FLOATS, NUMBERS};
use crate::error::{Error, Result};

/// The kernel that an op is linked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `y = op(x)`, `op(x, a)` or `op(x, a, b)` with scalars.
    Unary { scalars: u8 },
    /// `y = op(a, b)`.
    Binary,
    /// `y = op(op(x0, x1), x2) ...` along dims.
    Reduce,
}

/// The dtype of an op's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The input's dtype.
    Same,
    /// u8, 0 or 1.
    Bool,
    /// u32: a position along the reduced dim.
    Index,
}

/// One row of [`OPS`].
#[derive(Debug)]
pub struct Op {
    pub name: &'static str,
    pub family: Family,
    pub output: Output,
    pub dtypes: &'static [DType],
}

const fn op(name: &'static str, family: Family, output: Output, dtypes: &'static [DType]) -> Op {
    Op {
        name,
        family,
        output,
        dtypes,
    }
}

use Family::{Binary, Reduce};
use Output::{Bool, Index, Same};
const UNARY: Family = Family::Unary { scalars: 0 };
const UNARY1: Family = Family::Unary { scalars: 1 };
const UNARY2: Family = Family::Unary { scalars: 2 };

#[rustfmt::skip]
pub const OPS: &[Op] = &[
    // name        family output dtypes
    op("uexp",      UNARY,  Same,  &FLOATS),
    op("ulog",      UNARY,  Same,  &FLOATS),
    op("usin",      UNARY,  Same,  &FLOATS),
    op("ucos",      UNARY,  Same,  &FLOATS),
    op("utanh",     UNARY,  Same,  &FLOATS),
    op("uneg",      UNARY,  Same,  &FLOATS),
    op("urecip",    UNARY,  Same,  &FLOATS),
    op("usqr",      UNARY,  Same,  &FLOATS),
    op("usqrt",     UNARY,  Same,  &FLOATS),
    op("ugelu",     UNARY,  Same,  &FLOATS),
    op("ugelu_erf", UNARY,  Same,  &FLOATS),
    op("uerf",      UNARY,  Same,  &FLOATS),
    op("usilu",     UNARY,  Same,  &FLOATS),
    op("usigmoid",  UNARY,  Same,  &FLOATS),
    op("uabs",      UNARY,  Same,  &NUMBERS),
    op("uceil",     UNARY,  Same,  &NUMBERS),
    op("ufloor",    UNARY,  Same,  &NUMBERS),
    op("uround",    UNARY,  Same,  &NUMBERS),
    op("urelu",     UNARY,  Same,  &NUMBERS),
    op("usign",     UNARY,  Same,  &NUMBERS),
    op("powf",      UNARY1, Same,  &FLOATS),
    op("elu",       UNARY1, Same,  &FLOATS),
    op("affine",    UNARY2, Same,  &NUMBERS),
    op("badd",      Binary, Same,  &NUMBERS),
    op("bsub",      Binary, Same,  &NUMBERS),
    op("bmul",      Binary, Same,  &NUMBERS),
    op("bdiv",      Binary, Same,  &NUMBERS),
    op("bminimum",  Binary, Same,  &NUMBERS),
    op("bmaximum",  Binary, Same,  &NUMBERS),
    op("eq",        Binary, Bool,  &NUMBERS),
    op("ne",        Binary, Bool,  &NUMBERS),
    op("le",        Binary, Bool,  &NUMBERS),
    op("ge",        Binary, Bool,  &NUMBERS),
    op("lt",        Binary, Bool,  &NUMBERS),
    op("gt",        Binary, Bool,  &NUMBERS),
    op("sum",       Reduce, Same,  &NUMBERS),
    op("min",       Reduce, Same,  &NUMBERS),
    op("max",       Reduce, Same,  &NUMBERS),
    op("argmin",    Reduce, Index, &NUMBERS),
    op("argmax",    Reduce, Index, &NUMBERS),
];

impl Op {
    /// The row named `name`, or [`Error::Unsupported`] if it does not accept `dtype`.
    pub fn find(name: &'static str, dtype: DType) -> Result<&'static Op> {
        OPS.iter()
            .find(|op| op.name == name)
            .filter(|op| op.dtypes.contains(&dtype))
            .ok_or(Error::Unsupported {
                op: name,
                dtype: dtype.name(),
            })
    }

    /// The dtype of the result for an input of dtype `input`.
    pub fn output(&self, input: DType) -> DType {
        match self.output {
            Same => input,
            Bool => DType::U8,
            Index => DType::U32,
        }
    }
}

/// Number of scalars of an op; 0 if it is not a unary row of OPS.
pub(crate) fn scalars_of(op: &str) -> u8 {
    match OPS.iter().find(|row| row.name == op).map(|row| row.family) {
        Some(Family::Unary { scalars }) => scalars,
        _ => 0,
    }
}

/// The file with the operators of a compute type.
pub(crate) fn op_source(compute: Compute) -> &'static str {
    match compute {
        Compute::F32 => wgsl!("op/f32.wgsl"),
        Compute::U32 => wgsl!("op/u32.wgsl"),
        Compute::I32 => wgsl!("op/i32.wgsl"),
        Compute::I64 => wgsl!("op/i64.wgsl"),
        Compute::F64 => wgsl!("op/f64.wgsl"),
    }
}

/// Cheaper versions of some functions, precise enough for 16-bit results.
pub(crate) const SHORT: &str = wgsl!("op/f32_short.wgsl");

/// The function of [`SHORT`] that computes `op` on `dtype`, if there is one.
pub(crate) fn short(op: &str, dtype: DType) -> Option<&'static str> {
    match op {
        _ if !matches!(dtype, DType::F16 | DType::Bf16) => None,
        "usigmoid" => Some("usigmoid_short"),
        "usilu" => Some("usilu_short"),
        "ugelu" => Some("ugelu_short"),
        _ => None,
    }
}

/// Conversions between compute types.
pub(crate) const CAST: &str = wgsl!("op/cast.wgsl");

/// The function of `wgsl/op/cast.wgsl` that converts the compute type of `from` to that of `to`; `None` if no conversion is needed.
///
/// As with Rust's `as`, floats saturate when cast to 8-bit or 16-bit integers, which need separate functions; integers wrap, which packing
/// does. From f64, a result that packing rounds again is first rounded to odd.
pub(crate) fn cast(from: DType, to: DType) -> Result<Option<String>> {
    from.one_of(&NUMBERS, "to_dtype")?;
    to.one_of(&NUMBERS, "to_dtype")?;
    let (f, t) = (from.info().compute, to.info().compute);
    if f == t {
        return Ok(None);
    }
    let target = match (from.is_float(), to.is_float()) {
        (true, false) if to.size() < 4 => to.name(),
        (true, true) if to.size() < 4 => "f32_odd",
        _ => t.name(),
    };
    Ok(Some(format!("{}_to_{target}", f.name())))
}
