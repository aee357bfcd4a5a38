//! OPS: the elementwise and reduction ops at a glance. The name is the key: Candle's KERNEL string is the
//! WGSL function, part of the pipeline label and of the test's name.

use crate::dtype::{Compute, DType};
use crate::error::{Error, Result};

/// Which kernel an op is linked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `y = op(x)`, `op(x, a)` or `op(x, a, b)` with scalars.
    Unary { scalars: u8 },
    /// `y = op(a, b)`.
    Binary,
    /// `y = op(op(x0, x1), x2) ...` along dims.
    Reduce,
}

/// What an op gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The input's dtype.
    Same,
    /// u8 0 or 1.
    Bool,
    /// u32 positions.
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

use DType::{Bf16, F16, F32, F64, F8E4M3, I16, I32, I64, U32, U8};
use Family::{Binary, Reduce};
use Output::{Bool, Index, Same};
const FLOAT: &[DType] = &[F32, F16, Bf16, F8E4M3, F64];
const ALL: &[DType] = &[F32, F16, Bf16, F8E4M3, F64, U8, U32, I16, I32, I64];
const UNARY: Family = Family::Unary { scalars: 0 };
const UNARY1: Family = Family::Unary { scalars: 1 };
const UNARY2: Family = Family::Unary { scalars: 2 };

#[rustfmt::skip]
pub const OPS: &[Op] = &[
    // name        family output dtypes
    op("uexp",      UNARY,  Same,  FLOAT),
    op("ulog",      UNARY,  Same,  FLOAT),
    op("usin",      UNARY,  Same,  FLOAT),
    op("ucos",      UNARY,  Same,  FLOAT),
    op("utanh",     UNARY,  Same,  FLOAT),
    op("uneg",      UNARY,  Same,  FLOAT),
    op("urecip",    UNARY,  Same,  FLOAT),
    op("usqr",      UNARY,  Same,  FLOAT),
    op("usqrt",     UNARY,  Same,  FLOAT),
    op("ugelu",     UNARY,  Same,  FLOAT),
    op("ugelu_erf", UNARY,  Same,  FLOAT),
    op("uerf",      UNARY,  Same,  FLOAT),
    op("usilu",     UNARY,  Same,  FLOAT),
    op("usigmoid",  UNARY,  Same,  FLOAT),
    op("uabs",      UNARY,  Same,  ALL),
    op("uceil",     UNARY,  Same,  ALL),
    op("ufloor",    UNARY,  Same,  ALL),
    op("uround",    UNARY,  Same,  ALL),
    op("urelu",     UNARY,  Same,  ALL),
    op("usign",     UNARY,  Same,  ALL),
    op("powf",      UNARY1, Same,  FLOAT),
    op("elu",       UNARY1, Same,  FLOAT),
    op("affine",    UNARY2, Same,  ALL),
    op("badd",      Binary,  Same,  ALL),
    op("bsub",      Binary,  Same,  ALL),
    op("bmul",      Binary,  Same,  ALL),
    op("bdiv",      Binary,  Same,  ALL),
    op("bminimum",  Binary,  Same,  ALL),
    op("bmaximum",  Binary,  Same,  ALL),
    op("eq",        Binary,  Bool,  ALL),
    op("ne",        Binary,  Bool,  ALL),
    op("le",        Binary,  Bool,  ALL),
    op("ge",        Binary,  Bool,  ALL),
    op("lt",        Binary,  Bool,  ALL),
    op("gt",        Binary,  Bool,  ALL),
    op("sum",       Reduce, Same,  ALL),
    op("min",       Reduce, Same,  ALL),
    op("max",       Reduce, Same,  ALL),
    op("argmin",    Reduce, Index, ALL),
    op("argmax",    Reduce, Index, ALL),
];

impl Op {
    /// The row named `name` if it takes `dtype`; the error names both.
    pub fn find(name: &'static str, dtype: DType) -> Result<&'static Op> {
        OPS.iter()
            .find(|op| op.name == name)
            .filter(|op| op.dtypes.contains(&dtype))
            .ok_or(Error::Unsupported { op: name, dtype })
    }

    pub fn output(&self, input: DType) -> DType {
        match self.output {
            Same => input,
            Bool => U8,
            Index => U32,
        }
    }
}

/// How many scalars an op takes; 0 if it is not a unary row of OPS.
pub(crate) fn scalars_of(op: &str) -> u8 {
    match OPS.iter().find(|row| row.name == op).map(|row| row.family) {
        Some(Family::Unary { scalars }) => scalars,
        _ => 0,
    }
}

/// Files of `wgsl/op/` by compute type.
pub(crate) fn op_source(compute: Compute) -> &'static str {
    match compute {
        Compute::F32 => wgsl!("op/f32.wgsl"),
        Compute::U32 => wgsl!("op/u32.wgsl"),
        Compute::I32 => wgsl!("op/i32.wgsl"),
        Compute::I64 => wgsl!("op/i64.wgsl"),
        Compute::F64 => wgsl!("op/f64.wgsl"),
    }
}

/// Functions of fewer operations for what is stored in 16 bits.
pub(crate) const SHORT: &str = wgsl!("op/f32_short.wgsl");

/// The function of [`SHORT`] that computes an op on `dtype`, if there is one.
pub(crate) fn short(op: &str, dtype: DType) -> Option<&'static str> {
    match op {
        _ if ![F16, Bf16].contains(&dtype) => None,
        "usigmoid" => Some("usigmoid_short"),
        "usilu" => Some("usilu_short"),
        "ugelu" => Some("ugelu_short"),
        _ => None,
    }
}

/// Conversions between compute types.
pub(crate) const CAST: &str = wgsl!("op/cast.wgsl");

/// The function of `wgsl/op/cast.wgsl` that turns a computed `from` into what `to` packs, if one is needed.
/// Narrowing to 8 and 16 bits differs by source: floats saturate, integers wrap (Rust's `as`); packing masks.
pub(crate) fn cast(from: DType, to: DType) -> Result<Option<&'static str>> {
    let (f, t) = (from.info("to_dtype")?, to.info("to_dtype")?);
    Ok(match (f.compute, t.compute) {
        (a, b) if a == b => None,
        (Compute::F32, Compute::U32) if to == U8 => Some("f32_to_u8"),
        (Compute::F32, Compute::U32) => Some("f32_to_u32"),
        (Compute::F32, Compute::I32) if to == I16 => Some("f32_to_i16"),
        (Compute::F32, Compute::I32) => Some("f32_to_i32"),
        (Compute::F32, Compute::I64) => Some("f32_to_i64"),
        (Compute::F32, Compute::F64) => Some("f32_to_f64"),
        (Compute::U32, Compute::F32) => Some("u32_to_f32"),
        (Compute::U32, Compute::I32) => Some("u32_to_i32"),
        (Compute::U32, Compute::I64) => Some("u32_to_i64"),
        (Compute::U32, Compute::F64) => Some("u32_to_f64"),
        (Compute::I32, Compute::F32) => Some("i32_to_f32"),
        (Compute::I32, Compute::U32) => Some("i32_to_u32"),
        (Compute::I32, Compute::I64) => Some("i32_to_i64"),
        (Compute::I32, Compute::F64) => Some("i32_to_f64"),
        (Compute::I64, Compute::F32) => Some("i64_to_f32"),
        (Compute::I64, Compute::U32) => Some("i64_to_u32"),
        (Compute::I64, Compute::I32) => Some("i64_to_i32"),
        (Compute::I64, Compute::F64) => Some("i64_to_f64"),
        (Compute::F64, Compute::F32) if to == F32 => Some("f64_to_f32"),
        (Compute::F64, Compute::F32) => Some("f64_to_f32_odd"),
        (Compute::F64, Compute::U32) if to == U8 => Some("f64_to_u8"),
        (Compute::F64, Compute::U32) => Some("f64_to_u32"),
        (Compute::F64, Compute::I32) if to == I16 => Some("f64_to_i16"),
        (Compute::F64, Compute::I32) => Some("f64_to_i32"),
        (Compute::F64, Compute::I64) => Some("f64_to_i64"),
        (_, _) => None,
    })
}
