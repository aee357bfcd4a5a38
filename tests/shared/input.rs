//! Seeded inputs and their layouts.

use anyhow::Result;
use candle_core::{DType, Device, Tensor};

use super::bound::{close, Bound};

pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
pub const INTS: [DType; 3] = [DType::U8, DType::U32, DType::I64];
/// All float dtypes and all integer dtypes; the shorter lists above are those of fused ops and of ids.
pub const REALS: [DType; 5] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::F64,
];
pub const WHOLES: [DType; 5] = [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64];
pub const ALL: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::F64,
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
];

/// SplitMix64: small, and the same on every platform.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..n.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// In lo..hi.
    pub fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The values of an input.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    /// Floats from -2 to 2; small integers.
    Small,
    /// Floats from 0.05 to 3; integers from 1 to 12, so that products with `Large` fit in a u8.
    Positive,
    /// Integers from 12 to 20.
    Large,
    /// Zeros of both signs, infinities, NaN, subnormals, the largest finite numbers, and ordinary ones.
    Special,
    /// Special without subnormals, which WGSL allows an adapter to flush to zero in arithmetic, as NVIDIA does. That is
    /// harmless in most ops, but not in a division by one or a product of one and a large number.
    Normal,
    /// Finite values of magnitudes from 1e-4 to 10.
    Wide,
    /// Few different values, so that many are equal.
    Ties,
}

#[rustfmt::skip]
const SPECIAL: [f64; 28] = [
    0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN,
    // Subnormals of f32 and f16, and the limits of both.
    1e-40, -1e-40, 6e-8, 1.1754943508222875e-38, 3.4028234663852886e38, -3.4028234663852886e38, 65504.0, -65504.0,
    // Ties of rounding to whole numbers.
    0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 11.5, -11.5,
    // Around the limits of exp in f32.
    88.5, -88.5, 120.0, -120.0,
    1e-5, 300000.7,
];

/// A seeded tensor on the CPU.
pub fn tensor(dtype: DType, dims: &[usize], seed: u64, fill: Fill) -> Result<Tensor> {
    let n: usize = dims.iter().product();
    let mut rng = Rng::new(seed);
    let cpu = Device::Cpu;
    let t = if dtype.is_float() {
        let value = |i: usize| match fill {
            Fill::Small => rng.uniform(-2.0, 2.0),
            Fill::Positive | Fill::Large => rng.uniform(0.05, 3.0),
            Fill::Special if i < SPECIAL.len() => SPECIAL[i],
            Fill::Normal if i < SPECIAL.len() => match SPECIAL[i] {
                v if v != 0.0 && v.abs() < f64::from(f32::MIN_POSITIVE) => 0.25,
                v => v,
            },
            Fill::Special | Fill::Normal => {
                rng.uniform(-1.0, 1.0) * 10f64.powf(rng.uniform(-3.0, 1.5))
            }
            Fill::Wide => rng.uniform(-1.0, 1.0) * 10f64.powf(rng.uniform(-4.0, 1.0)),
            Fill::Ties => rng.below(4) as f64 - 1.0,
        };
        Tensor::from_vec((0..n).map(value).collect::<Vec<f64>>(), dims, &cpu)?
    } else {
        let signed = !matches!(dtype, DType::U8 | DType::U32);
        let value = |i: usize| match fill {
            Fill::Small if signed => rng.below(25) as i64 - 12,
            Fill::Small => rng.below(13) as i64,
            Fill::Positive => 1 + rng.below(12) as i64,
            Fill::Large => 12 + rng.below(9) as i64,
            Fill::Ties => rng.below(3) as i64,
            Fill::Special | Fill::Normal | Fill::Wide => integer(dtype, i, &mut rng),
        };
        Tensor::from_vec((0..n).map(value).collect::<Vec<i64>>(), dims, &cpu)?
    };
    Ok(t.to_dtype(dtype)?)
}

/// Uses all bits of the dtype.
fn integer(dtype: DType, i: usize, rng: &mut Rng) -> i64 {
    match dtype {
        DType::U8 => [0, 1, 127, 128, 255]
            .get(i)
            .copied()
            .unwrap_or(rng.below(256) as i64),
        DType::U32 => [
            0,
            1,
            1 << 24,
            (1 << 24) + 1,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
        ]
        .get(i)
        .copied()
        .unwrap_or((rng.next() >> (32 + rng.below(32))) as i64),
        DType::I16 => [0, 1, -1, 32767, -32768]
            .get(i)
            .copied()
            .unwrap_or(i64::from(rng.next() as i16)),
        DType::I32 => [0, 1, -1, 1 << 24, (1 << 24) + 1, 0x7fff_ffff, -0x8000_0000]
            .get(i)
            .copied()
            .unwrap_or(i64::from(rng.next() as i32) >> rng.below(31)),
        _ => [
            0,
            1,
            -1,
            1 << 24,
            (1 << 53) + 1,
            -(1 << 53) - 1,
            i64::MAX,
            i64::MIN,
            1 << 32,
            -(1 << 32),
        ]
        .get(i)
        .copied()
        .unwrap_or((rng.next() as i64) >> rng.below(63)),
    }
}

type View = fn(Tensor) -> candle_core::Result<Tensor>;

/// A view of a storage.
pub struct Layout {
    pub name: &'static str,
    /// Dims of the storage.
    pub base: &'static [usize],
    pub view: View,
}

const fn layout(name: &'static str, base: &'static [usize], view: View) -> Layout {
    Layout { name, base, view }
}

/// Views of the shape (3, 4, 8).
#[rustfmt::skip]
pub static LAYOUTS: [Layout; 8] = [
    layout("contiguous", &[3, 4, 8],    Ok),
    layout("transposed", &[3, 8, 4],    |t| t.transpose(1, 2)),
    layout("permuted",   &[8, 3, 4],    |t| t.permute((1, 2, 0))),
    layout("broadcast",  &[3, 1, 8],    |t| t.broadcast_as((3, 4, 8))),
    layout("offset",     &[101],        |t| t.narrow(0, 5, 96)?.reshape((3, 4, 8))),
    layout("strided",    &[3, 4, 8, 2], |t| t.narrow(3, 1, 1)?.squeeze(3)),
    layout("rows",       &[3, 8, 12],   |t| t.narrow(2, 4, 8)?.narrow(1, 2, 4)),
    layout("scalar",     &[1, 1, 1],    |t| t.broadcast_as((3, 4, 8))),
];

/// Views of other shapes.
#[rustfmt::skip]
pub static SHAPES: [Layout; 8] = [
    layout("odd",            &[3, 5, 7],                Ok),
    layout("odd_transposed", &[3, 7, 5],                |t| t.transpose(1, 2)),
    layout("one",            &[1],                      Ok),
    layout("empty",          &[0, 4],                   Ok),
    layout("empty_view",     &[3, 4],                   |t| t.narrow(0, 2, 0)),
    layout("rank0",          &[],                       Ok),
    layout("rank8",          &[2, 3, 1, 2, 2, 1, 2, 3], |t| t.permute(vec![7, 1, 2, 4, 3, 5, 6, 0])),
    layout("rank7_mixed",    &[2, 2, 2, 2, 2, 2, 2],    |t| t.permute(vec![6, 5, 4, 3, 2, 1, 0])),
];

pub fn named(name: &str) -> &'static Layout {
    LAYOUTS
        .iter()
        .chain(&SHAPES)
        .find(|l| l.name == name)
        .unwrap_or(&LAYOUTS[0])
}

/// An operand: a storage on the CPU and a view of it.
#[derive(Clone)]
pub struct Operand {
    base: Tensor,
    view: View,
}

impl Operand {
    pub fn new(layout: &Layout, dtype: DType, seed: u64, fill: Fill) -> Result<Self> {
        Ok(Operand {
            base: tensor(dtype, layout.base, seed, fill)?,
            view: layout.view,
        })
    }

    pub fn of(base: Tensor) -> Self {
        Operand { base, view: Ok }
    }

    pub fn viewed(base: Tensor, view: View) -> Self {
        Operand { base, view }
    }

    pub fn on(&self, device: &Device) -> Result<Tensor> {
        Ok((self.view)(self.base.to_device(device)?)?)
    }

    /// For the reference: floats in f64, contiguous.
    pub fn wide(&self) -> Result<Tensor> {
        let t = (self.view)(self.base.clone())?;
        Ok(if t.dtype() == DType::F8E4M3 {
            // The CPU's cast to f64 recurses forever (0.11.1).
            t.to_dtype(DType::F32)?.to_dtype(DType::F64)?
        } else if t.dtype().is_float() {
            t.to_dtype(DType::F64)?.contiguous()?
        } else {
            t.contiguous()?
        })
    }
}

/// Compares `op` on the device with `op` in f64 on the CPU.
pub fn check<F>(device: &Device, operands: &[Operand], bound: Bound, op: F) -> Result<()>
where
    F: Fn(&[Tensor]) -> candle_core::Result<Tensor>,
{
    let wide: Vec<Tensor> = operands.iter().map(Operand::wide).collect::<Result<_>>()?;
    let here: Vec<Tensor> = operands
        .iter()
        .map(|o| o.on(device))
        .collect::<Result<_>>()?;
    close(&op(&wide)?, &op(&here)?, bound)
}

/// Compares `op` on the device with `op` on the CPU in the same dtype.
pub fn same<F>(device: &Device, operands: &[Operand], bound: Bound, op: F) -> Result<()>
where
    F: Fn(&[Tensor]) -> candle_core::Result<Tensor>,
{
    let cpu: Vec<Tensor> = operands
        .iter()
        .map(|o| Ok(o.on(&Device::Cpu)?.contiguous()?))
        .collect::<Result<_>>()?;
    let here: Vec<Tensor> = operands
        .iter()
        .map(|o| o.on(device))
        .collect::<Result<_>>()?;
    close(&op(&cpu)?, &op(&here)?, bound)
}

/// Rounds to odd, so that rounding the result again equals rounding once.
fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    let bits = near.to_bits();
    if f64::from(near) == v || near.is_nan() || (bits & 1 == 1 && near.is_finite()) {
        return near;
    }
    let away = f64::from(near).abs() > v.abs();
    f32::from_bits(if away { bits - 1 } else { bits + 1 })
}

/// The CPU's cast, except where it is wrong (0.11.1): from f8e4m3 to f64 it recurses forever, and from f64 to f16 and
/// bf16 it rounds twice or ignores the lower half of the f64.
pub fn converted(x: &Tensor, to: DType) -> candle_core::Result<Tensor> {
    match (x.dtype(), x.device()) {
        (DType::F8E4M3, Device::Cpu) => x.to_dtype(DType::F32)?.to_dtype(to),
        (DType::F64, Device::Cpu) if matches!(to, DType::F16 | DType::BF16) => {
            let odd: Vec<f32> = x
                .flatten_all()?
                .to_vec1()?
                .into_iter()
                .map(to_odd)
                .collect();
            Tensor::from_vec(odd, x.dims(), &Device::Cpu)?.to_dtype(to)
        }
        _ => x.to_dtype(to),
    }
}
