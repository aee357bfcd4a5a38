//! Casts against Rust's `as` and the crate half.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Device};
use half::{bf16, f16};

use crate::hard::line;
use crate::ops::{integers, samples};
use crate::table::device;

fn cast<T: bytemuck::Pod, U: bytemuck::Pod>(d: &Device, from: DType, to: DType, x: &[T]) -> Vec<U> {
    let value = d.upload(bytemuck::cast_slice(x)).unwrap();
    let y = d.cast(line(&value, from, x.len()), to).unwrap();
    bytemuck::pod_collect_to_vec(&d.read(&y, 0, y.bytes()).unwrap())
}

#[test]
fn every_half_unpacks() {
    let d = device();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for (dtype, decode) in [
        (
            DType::F16,
            (|b| f16::from_bits(b).to_f32()) as fn(u16) -> f32,
        ),
        (DType::Bf16, |b| bf16::from_bits(b).to_f32()),
    ] {
        let y: Vec<f32> = cast(&d, dtype, DType::F32, &all);
        let mut bad = 0;
        for (&b, y) in all.iter().zip(y) {
            let want = decode(b);
            if want.is_nan() && y.is_nan() || want.to_bits() == y.to_bits() {
                continue;
            }
            if bad < 5 {
                println!("{dtype} {b:#06x}: {y:e}, not {want:e}");
            }
            bad += 1;
        }
        assert_eq!(bad, 0, "{dtype}");
    }
}

#[test]
fn halves_pack_to_even() {
    let d = device();
    // Every half, every midpoint between halves, and the neighbours of both.
    let mut x = Vec::new();
    for b in 0..=u16::MAX {
        for v in [f16::from_bits(b).to_f32(), bf16::from_bits(b).to_f32()] {
            let next = if b & 0x7fff < 0x7bff {
                f16::from_bits(b + 1).to_f32()
            } else {
                v
            };
            for w in [v, 0.5 * v + 0.5 * next] {
                let bits = w.to_bits();
                x.extend([
                    w,
                    f32::from_bits(bits.wrapping_add(1)),
                    f32::from_bits(bits.wrapping_sub(1)),
                ]);
            }
        }
    }
    x.extend([
        65519.0,
        65520.0,
        1e9,
        -1e9,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NAN,
    ]);
    for b in (0..1 << 16).map(|b: u32| (b << 16) | 0x8000) {
        x.extend([
            f32::from_bits(b),
            f32::from_bits(b + 1),
            f32::from_bits(b - 1),
        ]);
    }
    // Adapters may flush subnormals to zero.
    x.retain(|v| *v == 0.0 || !v.is_subnormal());
    let y: Vec<u16> = cast(&d, DType::F32, DType::F16, &x);
    for (&x, y) in x.iter().zip(y) {
        let (want, y) = (f16::from_f32(x), f16::from_bits(y));
        assert!(
            want.is_nan() && y.is_nan() || want.to_bits() == y.to_bits(),
            "f16({x:e}) = {y:e}, not {want:e}"
        );
    }
    let y: Vec<u16> = cast(&d, DType::F32, DType::Bf16, &x);
    for (&x, y) in x.iter().zip(y) {
        let (want, y) = (bf16::from_f32(x), bf16::from_bits(y));
        assert!(
            want.is_nan() && y.is_nan() || want.to_bits() == y.to_bits(),
            "bf16({x:e}) = {y:e}, not {want:e}"
        );
    }
}

#[test]
fn casts_are_those_of_rust() {
    let d = device();
    let mut f = samples(1e20);
    f.extend([
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        4294967295.0,
        4294967040.0,
        255.0,
        255.9,
        256.0,
        -0.9,
    ]);
    f.extend((0..64).flat_map(|e| [(e as f32).exp2(), -(e as f32).exp2()]));
    let y: Vec<u8> = cast(&d, DType::F32, DType::U8, &f);
    assert_eq!(y, f.iter().map(|&v| v as u8).collect::<Vec<_>>());
    let y: Vec<u32> = cast(&d, DType::F32, DType::U32, &f);
    assert_eq!(y, f.iter().map(|&v| v as u32).collect::<Vec<_>>());
    let y: Vec<i64> = cast(&d, DType::F32, DType::I64, &f);
    assert_eq!(y, f.iter().map(|&v| v as i64).collect::<Vec<_>>());

    let w = integers();
    let y: Vec<f32> = cast(&d, DType::I64, DType::F32, &w);
    assert_eq!(y, w.iter().map(|&v| v as f32).collect::<Vec<_>>());
    let y: Vec<u8> = cast(&d, DType::I64, DType::U8, &w);
    assert_eq!(y, w.iter().map(|&v| v as u8).collect::<Vec<_>>());
    let y: Vec<u32> = cast(&d, DType::I64, DType::U32, &w);
    assert_eq!(y, w.iter().map(|&v| v as u32).collect::<Vec<_>>());

    let u: Vec<u32> = w.iter().map(|&v| v as u32).collect();
    let y: Vec<f32> = cast(&d, DType::U32, DType::F32, &u);
    assert_eq!(y, u.iter().map(|&v| v as f32).collect::<Vec<_>>());
    let y: Vec<i64> = cast(&d, DType::U32, DType::I64, &u);
    assert_eq!(y, u.iter().map(|&v| v as i64).collect::<Vec<_>>());
    let y: Vec<u8> = cast(&d, DType::U32, DType::U8, &u);
    assert_eq!(y, u.iter().map(|&v| v as u8).collect::<Vec<_>>());
}
