//! DTYPES: one row per dtype. How elements lie in 32-bit words and in which type they are computed.

pub(crate) mod f8e4m3;
pub mod quant;

use crate::error::{Error, Result};

/// The element type of a buffer. Every Candle dtype with elements of whole bytes has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    U8,
    U16,
    U32,
    I16,
    I32,
    I64,
    Bf16,
    F16,
    F32,
    F64,
    F8E4M3,
}

/// The WGSL type in which values are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compute {
    F32,
    U32,
    I32,
    /// 64-bit integers as (low, high) words: works everywhere, browsers included.
    I64,
    /// 64-bit floats as (low, high) words, computed in integer arithmetic: the same bits everywhere.
    F64,
}

impl Compute {
    /// WGSL type of one value.
    pub const fn wgsl(self) -> &'static str {
        match self {
            Compute::F32 => "f32",
            Compute::U32 => "u32",
            Compute::I32 => "i32",
            Compute::I64 | Compute::F64 => "vec2<u32>",
        }
    }

    /// WGSL type of four values.
    pub const fn lanes(self) -> &'static str {
        match self {
            Compute::F32 => "vec4<f32>",
            Compute::U32 => "vec4<u32>",
            Compute::I32 => "vec4<i32>",
            Compute::I64 => "I64x4",
            Compute::F64 => "F64x4",
        }
    }

    /// The dtype that holds values as they are computed.
    pub const fn dtype(self) -> DType {
        match self {
            Compute::F32 => DType::F32,
            Compute::U32 => DType::U32,
            Compute::I32 => DType::I32,
            Compute::I64 => DType::I64,
            Compute::F64 => DType::F64,
        }
    }

    /// The file in `wgsl/op/` with the operators of this type.
    pub const fn name(self) -> &'static str {
        match self {
            Compute::F32 => "f32",
            Compute::U32 => "u32",
            Compute::I32 => "i32",
            Compute::I64 => "i64",
            Compute::F64 => "f64",
        }
    }
}

/// One row of [`DTYPES`].
#[derive(Debug)]
pub struct DTypeInfo {
    pub dtype: DType,
    /// Prefix of the functions in `wgsl/dtype/<name>.wgsl`.
    pub name: &'static str,
    /// WGSL type of one storage word.
    pub word: &'static str,
    /// Elements in a word.
    pub lanes: u32,
    /// WGSL storage type of four elements.
    pub quad: &'static str,
    pub compute: Compute,
    pub source: &'static str,
}

macro_rules! row {
    ($dtype:ident, $name:literal, $word:literal, $lanes:literal, $quad:literal, $compute:ident) => {
        DTypeInfo {
            dtype: DType::$dtype,
            name: $name,
            word: $word,
            lanes: $lanes,
            quad: $quad,
            compute: Compute::$compute,
            source: wgsl!("dtype/", $name, ".wgsl"),
        }
    };
}

/// The dtypes that kernels compute with. A dtype without a row can still be stored, copied and
/// indexed: those move bits (see [`DType::bits`]).
#[rustfmt::skip]
pub const DTYPES: &[DTypeInfo] = &[
    //   dtype    name      word         lanes quad         compute
    row!(F32,    "f32",    "f32",       1,    "vec4<f32>", F32),
    row!(F16,    "f16",    "u32",       2,    "vec2<u32>", F32),
    row!(Bf16,   "bf16",   "u32",       2,    "vec2<u32>", F32),
    row!(F8E4M3, "f8e4m3", "u32",       4,    "u32",       F32),
    row!(F64,    "f64",    "vec2<u32>", 1,    "F64x4",     F64),
    row!(U8,     "u8",     "u32",       4,    "u32",       U32),
    row!(U16,    "u16",    "u32",       2,    "vec2<u32>", U32),
    row!(U32,    "u32",    "u32",       1,    "vec4<u32>", U32),
    row!(I16,    "i16",    "u32",       2,    "vec2<u32>", I32),
    row!(I32,    "i32",    "i32",       1,    "vec4<i32>", I32),
    row!(I64,    "i64",    "vec2<u32>", 1,    "I64x4",     I64),
];

impl DType {
    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::U8 | DType::F8E4M3 => 1,
            DType::U16 | DType::I16 | DType::Bf16 | DType::F16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The row of [`DTYPES`] that moves elements of this size without looking at them.
    pub const fn bits(self) -> DType {
        match self.size() {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            _ => DType::I64,
        }
    }

    /// The row of this dtype, or [`Error::Unsupported`] that names `op`.
    pub fn info(self, op: &'static str) -> Result<&'static DTypeInfo> {
        DTYPES
            .iter()
            .find(|r| r.dtype == self)
            .ok_or(Error::Unsupported { op, dtype: self })
    }

    /// Candle's name of the dtype.
    pub const fn name(self) -> &'static str {
        match self {
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F8E4M3 => "f8e4m3",
        }
    }

    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::Bf16 | DType::F16 | DType::F32 | DType::F64 | DType::F8E4M3
        )
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
