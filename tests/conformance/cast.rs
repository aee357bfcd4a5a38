//! to_dtype between all dtypes: infinities, NaN, saturation, ties to even, subnormals, integers beyond 2^53.

use candle_core::{DType, Device, Tensor};

use crate::bound::{close, EXACT};
use crate::case::Cases;
use crate::input::{converted, named, same, Fill, Operand, Rng, ALL};

/// Floats around every tie and limit of f16, bf16 and the integers.
fn hard_floats() -> Vec<f32> {
    let mut rng = Rng::new(12);
    let mut all: Vec<f32> = [
        0x0000_0000u32,
        0x8000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_0001,
        0x7f80_0001,
        0x0000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3380_0000,
        0x3300_0000,
        0x3300_0001,
        0x32ff_ffff,
        0x387f_c000,
        0x387f_e000,
        0x3880_0000,
        0x477f_e000,
        0x477f_efff,
        0x477f_f000,
        0x477f_ffff,
        0x4780_0000,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f7f_7fff,
        0x7f7f_8000,
        0x7f7f_0000,
        0x3f80_8000,
        0x3f81_8000,
        0x3f80_1000,
        0x3f80_3000,
        0x3f80_1001,
        0x4f00_0000,
        0x4f7f_ffff,
        0x4f80_0000,
        0xcf00_0000,
        0x5eff_ffff,
        0x5f00_0000,
        0xdf00_0000,
        0xdf00_0001,
        0x5f80_0000,
        0x437f_0000,
        0x437f_8000,
        0x4380_0000,
        0xbf7f_ffff,
        0xbf80_0000,
        0x3f7f_ffff,
        0x4b80_0000,
        0x4b80_0001,
        0x5a00_0000,
        0x5a00_0001,
    ]
    .map(f32::from_bits)
    .to_vec();
    all.extend((0..400).map(|_| f32::from_bits(rng.next() as u32)));
    // Exponents in the range of f16.
    all.extend((0..400).map(|_| {
        let bits = rng.next() as u32;
        f32::from_bits((bits & 0x807f_ffff) | ((100 + (bits >> 23) % 45) << 23))
    }));
    all
}

fn hard_ints() -> Vec<i64> {
    let mut rng = Rng::new(13);
    let mut all = vec![
        0,
        1,
        -1,
        255,
        256,
        257,
        -255,
        -256,
        65503,
        65504,
        65519,
        65520,
        65535,
        65536,
        2047,
        2048,
        2049,
        2050,
        2051,
        (1 << 24) - 1,
        1 << 24,
        (1 << 24) + 1,
        (1 << 24) + 2,
        (1 << 24) + 3,
        (1 << 53) + 1,
        -(1 << 53) - 1,
        i64::MAX,
        i64::MIN,
        i64::MAX - 511,
        i64::MAX - 512,
        u32::MAX.into(),
        1 << 32,
        (1 << 32) + 5,
        -(1 << 32),
        -(1 << 32) - 5,
        (1 << 40) + (1 << 16),
        (1 << 40) + (1 << 16) + 1,
        (1 << 40) + (3 << 16),
    ];
    all.extend((0..400).map(|_| (rng.next() as i64) >> rng.below(63)));
    all
}

pub fn add(cases: &mut Cases) {
    for from in ALL {
        for to in ALL {
            let name = format!("to_dtype/{}_{}", from.as_str(), to.as_str());
            let layouts = [
                "contiguous",
                "transposed",
                "offset",
                "broadcast",
                "rows",
                "odd",
                "empty",
            ];
            for l in layouts.map(named) {
                cases.add(format!("{name}/{}", l.name), move |d| {
                    let x = Operand::new(l, from, 21, Fill::Special)?;
                    same(d, &[x], EXACT, |t| converted(&t[0], to))
                });
            }
            cases.add(format!("{name}/limits"), move |d| limits(d, from, to));
        }
    }
}

/// Values that round, saturate or wrap: cast to `from` from f32 or i64, then to `to`.
fn limits(d: &Device, from: DType, to: DType) -> anyhow::Result<()> {
    let cpu = &Device::Cpu;
    let start = match from.is_float() {
        true => Tensor::new(hard_floats(), cpu)?,
        false => Tensor::new(hard_ints(), cpu)?,
    };
    let x = start.to_dtype(from)?;
    close(&converted(&x, to)?, &x.to_device(d)?.to_dtype(to)?, EXACT)
}
