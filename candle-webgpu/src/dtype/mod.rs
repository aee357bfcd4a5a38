//! DTYPES: one row per dtype. The lists of dtypes that ops accept are derived from the rows.

pub mod quant;

use float8::F8E4M3;
use half::{bf16, f16};

use crate::error::{Error, Result};

/// The element type of a buffer: every Candle dtype whose elements are whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    F32,
    F16,
    Bf16,
    F8E4M3,
    F64,
    U8,
    U16,
    U32,
    I16,
    I32,
    I64,
}

/// The type in which kernels compute values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compute {
    F32,
    U32,
    I32,
    /// 64-bit integers as (low, high) words. WGSL has no portable 64-bit integers.
    I64,
    /// 64-bit floats as (low, high) words, computed in integer arithmetic. Results are bit-identical on all adapters.
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
            Compute::I64 | Compute::F64 => "PairX4",
        }
    }

    /// The dtype that stores computed values without conversion.
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
        self.dtype().name()
    }

    /// Bytes of one value.
    pub const fn size(self) -> usize {
        self.dtype().size()
    }

    /// A WGSL expression for a value of this type from a scalar parameter, which stores its bits as (low, high) words.
    pub(crate) fn of_words(self, words: &str) -> String {
        match self {
            Compute::F32 => format!("bitcast<f32>({words}.x)"),
            Compute::U32 => format!("{words}.x"),
            Compute::I32 => format!("bitcast<i32>({words}.x)"),
            Compute::I64 | Compute::F64 => words.to_string(),
        }
    }
}

/// The ops that accept a dtype. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Storage, copies and indexing, which move bits.
    Bits,
    /// Arithmetic: elementwise ops, casts, reductions, sorting, pooling, random numbers.
    Arithmetic,
    /// Matmul and convolution.
    Matmul,
}

/// Facts about a floating-point format.
#[derive(Debug, Clone, Copy)]
pub struct FloatInfo {
    /// Bits of infinity, or of NaN if the format has no infinity. For f64, the high word.
    pub infinity: u32,
    /// The smallest positive value that no adapter flushes to zero.
    pub tiny: f32,
}

/// One row of [`DTYPES`].
#[derive(Debug)]
pub struct DTypeInfo {
    pub dtype: DType,
    /// Candle's name of the dtype; also the name of its file in `wgsl/dtype/` and the prefix of the functions there.
    pub name: &'static str,
    /// Bytes of an element.
    pub size: usize,
    /// WGSL type of one storage word.
    pub word: &'static str,
    /// Elements in a word.
    pub lanes: u32,
    /// WGSL storage type of four elements.
    pub quad: &'static str,
    pub compute: Compute,
    pub support: Support,
    pub float: Option<FloatInfo>,
    /// Converts a number to the dtype, as Rust's `as` does, and returns the bits of the compute value.
    pub scalar: fn(f64) -> u64,
    pub source: &'static str,
}

const fn float(infinity: u32, tiny: f32) -> Option<FloatInfo> {
    Some(FloatInfo { infinity, tiny })
}

macro_rules! row {
    ($dtype:ident, $name:literal, $size:literal, $compute:ident, $support:ident, $scalar:expr, $float:expr) => {
        DTypeInfo {
            dtype: DType::$dtype,
            name: $name,
            size: $size,
            word: match $size {
                1 | 2 => "u32",
                _ => Compute::$compute.wgsl(),
            },
            lanes: match $size {
                1 => 4,
                2 => 2,
                _ => 1,
            },
            quad: match $size {
                1 => "u32",
                2 => "vec2<u32>",
                _ => Compute::$compute.lanes(),
            },
            compute: Compute::$compute,
            support: Support::$support,
            float: $float,
            scalar: $scalar,
            source: wgsl!("dtype/", $name, ".wgsl"),
        }
    };
}

/// In the order of [`DType`].
#[rustfmt::skip]
pub const DTYPES: &[DTypeInfo] = &[
    //   dtype    name   size compute support  scalar
    row!(F32,    "f32",    4, F32, Matmul,     |v| f32_bits(v as f32),                     float(0x7f80_0000, f32::MIN_POSITIVE)),
    row!(F16,    "f16",    2, F32, Matmul,     |v| f32_bits(f16::from_f64(v).to_f32()),    float(0x7c00, 6.103_515_6e-5)),
    row!(Bf16,   "bf16",   2, F32, Matmul,     |v| f32_bits(bf16::from_f64(v).to_f32()),   float(0x7f80, f32::MIN_POSITIVE)),
    row!(F8E4M3, "f8e4m3", 1, F32, Arithmetic, |v| f32_bits(F8E4M3::from_f64(v).to_f32()), float(0x7f, 0.001_953_125)),
    row!(F64,    "f64",    8, F64, Matmul,     |v| v.to_bits(),                            float(0x7ff0_0000, f32::MIN_POSITIVE)),
    row!(U8,     "u8",     1, U32, Arithmetic, |v| (v as u8).into(),                       None),
    row!(U16,    "u16",    2, U32, Bits,       |v| (v as u16).into(),                      None),
    row!(U32,    "u32",    4, U32, Arithmetic, |v| (v as u32).into(),                      None),
    row!(I16,    "i16",    2, I32, Arithmetic, |v| (i32::from(v as i16) as u32).into(),    None),
    row!(I32,    "i32",    4, I32, Arithmetic, |v| (v as i32 as u32).into(),               None),
    row!(I64,    "i64",    8, I64, Arithmetic, |v| v as i64 as u64,                        None),
];

fn f32_bits(v: f32) -> u64 {
    v.to_bits().into()
}

/// A bit set of the dtypes whose rows pass a test.
macro_rules! set {
    ($row:ident, $test:expr) => {{
        let (mut set, mut i) = (0u32, 0);
        while i < DTYPES.len() {
            let $row = &DTYPES[i];
            set |= ($test as u32) << i;
            i += 1;
        }
        set
    }};
}

/// The dtypes of a set of `N`, in the order of their rows.
const fn members<const N: usize>(set: u32) -> [DType; N] {
    let (mut list, mut n, mut i) = ([DType::F32; N], 0, 0);
    while i < DTYPES.len() {
        if set >> i & 1 != 0 {
            list[n] = DTYPES[i].dtype;
            n += 1;
        }
        i += 1;
    }
    list
}

macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident = |$row:ident| $test:expr;)+) => {
        $($(#[$doc])*
        pub const $name: [DType; set!($row, $test).count_ones() as usize] = members(set!($row, $test));)+
    };
}

lists! {
    /// Dtypes with arithmetic.
    NUMBERS = |row| row.has(Support::Arithmetic);
    /// Floating-point dtypes.
    FLOATS = |row| row.float.is_some();
    /// Integer dtypes with arithmetic: the dtypes of indices and conditions.
    INTEGERS = |row| row.float.is_none() && row.has(Support::Arithmetic);
    /// One dtype per element size, for ops that only move bits ([`DType::bits`]).
    BITS = |row| row.dtype as usize == row.dtype.bits() as usize;
    /// Dtypes of matmul and convolution.
    MATMUL = |row| row.has(Support::Matmul);
    /// Dtypes of matmuls that accumulate in f32, and of fused neural network ops.
    MATMUL_F32 = |row| row.has(Support::Matmul) && matches!(row.compute, Compute::F32);
}

impl DTypeInfo {
    /// WGSL for four values `v`, rounded to this float dtype as if they had been stored. `zero`: a parameter that is 0. The xor hides the
    /// bits from compilers that would drop the rounding (NVIDIA 580, Mesa 25) or fuse a product with a sum.
    pub(crate) fn rounded(&self, v: &str, zero: &str) -> String {
        let (name, quad) = (self.name, self.quad);
        match self.dtype {
            DType::F32 => {
                format!("bitcast<vec4<f32>>(bitcast<vec4<u32>>({v}) ^ vec4<u32>({zero}))")
            }
            _ => format!("{name}_unpack({name}_pack({v}) ^ {quad}({zero}))"),
        }
    }

    const fn has(&self, support: Support) -> bool {
        self.support as u8 >= support as u8
    }
}

impl DType {
    /// The row of this dtype.
    pub const fn info(self) -> &'static DTypeInfo {
        &DTYPES[self as usize]
    }

    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        self.info().size
    }

    /// The integer dtype of the same size, for ops that only move bits.
    pub const fn bits(self) -> DType {
        match self.size() {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            _ => DType::I64,
        }
    }

    /// Candle's name of the dtype.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    pub const fn is_float(self) -> bool {
        self.info().float.is_some()
    }

    /// [`Error::Unsupported`] unless `dtypes` contains this dtype.
    pub(crate) fn one_of(self, dtypes: &[DType], op: &'static str) -> Result<()> {
        match dtypes.contains(&self) {
            true => Ok(()),
            false => Err(Error::Unsupported {
                op,
                dtype: self.name(),
            }),
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for (i, row) in DTYPES.iter().enumerate() {
            assert_eq!(row.dtype as usize, i, "{}", row.name);
        }
        assert_eq!(DType::I64 as usize + 1, DTYPES.len());
    }

    #[test]
    fn scalars_round_and_saturate() {
        let f8 = |v: f64| f32::from_bits((DType::F8E4M3.info().scalar)(v) as u32);
        assert_eq!([17.0, 19.0].map(f8), [16.0, 20.0]);
        assert_eq!([464.1, f64::NEG_INFINITY].map(f8), [448.0, -448.0]);
        assert_eq!(
            [1.0, 1.1].map(|v| f8(v / 1024.0)),
            [0.0, 0.001_953_125],
            "ties to even"
        );
        assert_eq!((DType::I16.info().scalar)(-40000.0), 0xffff_8000);
        assert_eq!((DType::U8.info().scalar)(300.0), 255);
    }
}
