//! OPS: the elementwise and reduction ops at a glance. The name is the key: Candle's KERNEL string is the
//! WGSL function, part of the pipeline label and of the test's name.

use crate::elem::{Compute, Elem};
use crate::error::{Error, Result};

/// Which kernel an op is linked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `y = op(x)`, `op(x, a)` or `op(x, a, b)` with scalars.
    Map { scalars: u8 },
    /// `y = op(a, b)`.
    Zip,
    /// `y = op(op(x0, x1), x2) ...` along dims.
    Fold,
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
    pub elems: &'static [Elem],
}

const fn op(name: &'static str, family: Family, output: Output, elems: &'static [Elem]) -> Op {
    Op {
        name,
        family,
        output,
        elems,
    }
}

use Elem::{Bf16, F16, F32, F64, F8E4M3, I16, I32, I64, U32, U8};
use Family::{Fold, Zip};
use Output::{Bool, Index, Same};
const FLOAT: &[Elem] = &[F32, F16, Bf16, F8E4M3, F64];
const ALL: &[Elem] = &[F32, F16, Bf16, F8E4M3, F64, U8, U32, I16, I32, I64];
const MAP: Family = Family::Map { scalars: 0 };
const MAP1: Family = Family::Map { scalars: 1 };
const MAP2: Family = Family::Map { scalars: 2 };

#[rustfmt::skip]
pub const OPS: &[Op] = &[
    // name        family output elems
    op("uexp",      MAP,  Same,  FLOAT),
    op("ulog",      MAP,  Same,  FLOAT),
    op("usin",      MAP,  Same,  FLOAT),
    op("ucos",      MAP,  Same,  FLOAT),
    op("utanh",     MAP,  Same,  FLOAT),
    op("uneg",      MAP,  Same,  FLOAT),
    op("urecip",    MAP,  Same,  FLOAT),
    op("usqr",      MAP,  Same,  FLOAT),
    op("usqrt",     MAP,  Same,  FLOAT),
    op("ugelu",     MAP,  Same,  FLOAT),
    op("ugelu_erf", MAP,  Same,  FLOAT),
    op("uerf",      MAP,  Same,  FLOAT),
    op("usilu",     MAP,  Same,  FLOAT),
    op("usigmoid",  MAP,  Same,  FLOAT),
    op("uabs",      MAP,  Same,  ALL),
    op("uceil",     MAP,  Same,  ALL),
    op("ufloor",    MAP,  Same,  ALL),
    op("uround",    MAP,  Same,  ALL),
    op("urelu",     MAP,  Same,  ALL),
    op("usign",     MAP,  Same,  ALL),
    op("powf",      MAP1, Same,  FLOAT),
    op("elu",       MAP1, Same,  FLOAT),
    op("affine",    MAP2, Same,  ALL),
    op("badd",      Zip,  Same,  ALL),
    op("bsub",      Zip,  Same,  ALL),
    op("bmul",      Zip,  Same,  ALL),
    op("bdiv",      Zip,  Same,  ALL),
    op("bminimum",  Zip,  Same,  ALL),
    op("bmaximum",  Zip,  Same,  ALL),
    op("eq",        Zip,  Bool,  ALL),
    op("ne",        Zip,  Bool,  ALL),
    op("le",        Zip,  Bool,  ALL),
    op("ge",        Zip,  Bool,  ALL),
    op("lt",        Zip,  Bool,  ALL),
    op("gt",        Zip,  Bool,  ALL),
    op("sum",       Fold, Same,  ALL),
    op("min",       Fold, Same,  ALL),
    op("max",       Fold, Same,  ALL),
    op("argmin",    Fold, Index, ALL),
    op("argmax",    Fold, Index, ALL),
];

impl Op {
    /// The row named `name` if it takes `elem`; the error names both.
    pub fn find(name: &'static str, elem: Elem) -> Result<&'static Op> {
        OPS.iter()
            .find(|op| op.name == name)
            .filter(|op| op.elems.contains(&elem))
            .ok_or(Error::Unsupported { op: name, elem })
    }

    pub fn output(&self, input: Elem) -> Elem {
        match self.output {
            Same => input,
            Bool => U8,
            Index => U32,
        }
    }
}

/// Files of `wgsl/op/` by compute type.
pub(crate) fn op_source(compute: Compute) -> &'static str {
    match compute {
        Compute::F32 => include_str!("../wgsl/op/f32.wgsl"),
        Compute::U32 => include_str!("../wgsl/op/u32.wgsl"),
        Compute::I32 => include_str!("../wgsl/op/i32.wgsl"),
        Compute::I64 => include_str!("../wgsl/op/i64.wgsl"),
        Compute::F64 => include_str!("../wgsl/op/f64.wgsl"),
    }
}

/// Functions of fewer operations for what is stored in 16 bits.
pub(crate) const SHORT: &str = include_str!("../wgsl/op/f32_short.wgsl");

/// The function of [`SHORT`] that computes an op on `elem`, if there is one.
pub(crate) fn short(op: &str, elem: Elem) -> Option<&'static str> {
    match op {
        _ if ![F16, Bf16].contains(&elem) => None,
        "usigmoid" => Some("usigmoid_short"),
        "usilu" => Some("usilu_short"),
        "ugelu" => Some("ugelu_short"),
        _ => None,
    }
}

/// Conversions between compute types.
pub(crate) const CAST: &str = include_str!("../wgsl/op/cast.wgsl");

/// The function of `wgsl/op/cast.wgsl` that turns a computed `from` into what `to` packs, if one is needed.
/// Narrowing to 8 and 16 bits differs by source: floats saturate, integers wrap (Rust's `as`); packing masks.
pub(crate) fn cast(from: Elem, to: Elem) -> Result<Option<&'static str>> {
    let (f, t) = (from.row("to_dtype")?, to.row("to_dtype")?);
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
