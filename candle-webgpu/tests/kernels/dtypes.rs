//! i16, i32, f8e4m3 and f64: conversions, integer and f8 arithmetic, ids and random numbers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::DType;

use crate::hard::{f64_bytes, f64_of, hard, line, read_n, same};
use crate::table::{decode, device, encode, indices, read, Table};

const NEW: [DType; 4] = [DType::I16, DType::I32, DType::F8E4M3, DType::F64];

/// Rounds to odd, so that rounding the result again equals rounding once. On some processors, the crate half converts
/// through an f32 that is rounded to nearest.
fn to_odd(v: f64) -> f64 {
    let near = v as f32;
    if f64::from(near) == v || v.is_nan() || near.to_bits() & 1 == 1 && near.is_finite() {
        return near.into();
    }
    let away = f64::from(near).abs() > v.abs();
    let bits = near.to_bits();
    f32::from_bits(if away { bits - 1 } else { bits + 1 }).into()
}

#[test]
fn casts_from_f64_are_exact() {
    let d = device();
    let x = hard();
    let v = d.upload(&f64_bytes(&x)).unwrap();
    for to in [
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::F8E4M3,
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
    ] {
        let y = d.cast(line(&v, DType::F64, x.len()), to).unwrap();
        let got = d.read(&y, 0, (x.len() * to.size()) as u64).unwrap();
        let want = match to {
            DType::F16 | DType::Bf16 => {
                encode(to, &x.iter().map(|v| to_odd(*v)).collect::<Vec<_>>())
            }
            _ => encode(to, &x),
        };
        let (g, w) = (decode(to, &got), decode(to, &want));
        for (i, v) in x.iter().enumerate() {
            assert!(
                same(g[i], w[i]),
                "{v:e} to {to}: {} instead of {}",
                g[i],
                w[i]
            );
        }
    }
}

#[test]
fn casts_between_all_dtypes() {
    let d = device();
    let all = crate::table::ALL;
    for from in all {
        let x = decode(from, &encode(from, &hard()));
        let bytes = encode(from, &x);
        let v = d.upload(&bytes).unwrap();
        for to in all.into_iter().filter(|to| *to != from) {
            // i64 has more bits than the f64 that these tests compute in; other tests cover it.
            let float = |e: DType| e.is_float();
            let want: Vec<f64> = x
                .iter()
                .map(|&v| match (from, to) {
                    (_, t) if float(from) && !float(t) => v,
                    (DType::F64, DType::F16 | DType::Bf16) => to_odd(v),
                    (DType::I64, DType::F16 | DType::Bf16 | DType::F8E4M3) => f64::from(v as f32),
                    (_, t) if float(t) => v,
                    _ => wrap(v, to),
                })
                .collect();
            let want = decode(to, &encode(to, &want));
            let y = d.cast(line(&v, from, x.len()), to).unwrap();
            let got = read_n(&d, to, &y, x.len());
            for i in 0..x.len() {
                let tiny = want[i] != 0.0 && want[i].abs() < 1.2e-38
                    || x[i] != 0.0 && x[i].abs() < 1.2e-38;
                assert!(
                    same(got[i], want[i]) || tiny && from != DType::F64 && to != DType::F64,
                    "{from} {:e} to {to}: {:e} instead of {:e}",
                    x[i],
                    got[i],
                    want[i]
                );
            }
        }
    }
}

/// Rust's `as` between integers.
fn wrap(v: f64, to: DType) -> f64 {
    let v = v as i64;
    match to {
        DType::U8 => f64::from(v as u8),
        DType::U32 => f64::from(v as u32),
        DType::I16 => f64::from(v as i16),
        DType::I32 => f64::from(v as i32),
        _ => v as f64,
    }
}

#[test]
fn integers_of_64_bits_to_floats() {
    let d = device();
    let x: Vec<i64> = vec![
        0,
        1,
        -1,
        i64::MAX,
        i64::MIN,
        (1 << 53) + 1,
        (1 << 53) + 3,
        -(1 << 54) - 2,
        -(1 << 54) - 6,
        0x7fff_ffff_ffff_fdff,
        0x7fff_ffff_ffff_fe00,
        u32::MAX.into(),
    ];
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let v = d.upload(&bytes).unwrap();
    let y = d.cast(line(&v, DType::I64, x.len()), DType::F64).unwrap();
    let got = f64_of(&d.read(&y, 0, x.len() as u64 * 8).unwrap());
    for (v, g) in x.iter().zip(&got) {
        assert_eq!(*v as f64, *g);
    }
    let back = d.cast(line(&y, DType::F64, x.len()), DType::I64).unwrap();
    let back = d.read(&back, 0, x.len() as u64 * 8).unwrap();
    for (v, c) in got.iter().zip(back.chunks_exact(8)) {
        assert_eq!(*v as i64, i64::from_le_bytes(c.try_into().unwrap()));
    }
}

#[test]
fn integers_and_f8_compute() {
    let d = device();
    for dtype in NEW {
        let a = Table::whole(&d, dtype, 1, &[5, 7], 13);
        let b = Table::whole(&d, dtype, 2, &[7, 5], 13).transposed(0, 1);
        type F = fn(f64, f64) -> f64;
        let ops: [(&'static str, F); 5] = [
            ("badd", |a, b| a + b),
            ("bsub", |a, b| a - b),
            ("bmul", |a, b| a * b),
            ("bminimum", f64::min),
            ("bmaximum", f64::max),
        ];
        for (op, f) in ops {
            let y = read_n(&d, dtype, &d.binary(op, a.view(), b.view()).unwrap(), 35);
            for (at, g) in indices(&[5, 7]).iter().zip(y) {
                let want = f(a.at(at), b.at(at));
                let want = decode(dtype, &encode(dtype, &[want]))[0];
                assert_eq!(g, want, "{op} {dtype}");
            }
        }
        for op in ["sum", "min", "max"] {
            let y = read_n(&d, dtype, &d.reduce(op, a.view(), &[1]).unwrap(), 5);
            for (i, g) in y.into_iter().enumerate() {
                let row = (0..7).map(|j| a.at(&[i, j]));
                let want = match op {
                    "sum" => row.sum(),
                    "min" => row.fold(f64::INFINITY, f64::min),
                    _ => row.fold(f64::NEG_INFINITY, f64::max),
                };
                let want = decode(dtype, &encode(dtype, &[want]))[0];
                assert_eq!(g, want, "{op} {dtype}");
            }
        }
        let order = read(&d, DType::U32, &d.argsort(a.view(), 7, true).unwrap());
        for i in 0..5 {
            let row: Vec<f64> = (0..7)
                .map(|j| a.at(&[i, order[i * 7 + j] as usize]))
                .collect();
            assert!(
                row.windows(2).all(|w| w[0] <= w[1]),
                "argsort {dtype} {row:?}"
            );
        }
    }
    // Wrapping, and division that truncates.
    for (dtype, a, b, op, want) in [
        (DType::I16, 32767.0, 1.0, "badd", -32768.0),
        (DType::I16, -7.0, 2.0, "bdiv", -3.0),
        (DType::I32, 2147483647.0, 2.0, "badd", -2147483647.0),
        (DType::I32, -2147483648.0, -1.0, "bdiv", -2147483648.0),
        (DType::I32, 7.0, -2.0, "bdiv", -3.0),
        (DType::F8E4M3, 400.0, 100.0, "badd", 448.0),
    ] {
        let (ta, tb) = (
            Table::new(&d, dtype, &[1], &[a]),
            Table::new(&d, dtype, &[1], &[b]),
        );
        let y = read_n(&d, dtype, &d.binary(op, ta.view(), tb.view()).unwrap(), 1);
        assert_eq!(y[0], want, "{a} {op} {b} {dtype}");
    }
}

#[test]
fn ids_of_16_and_32_bits() {
    let d = device();
    for ids in [DType::I16, DType::I32] {
        for dtype in NEW {
            let dst = Table::whole(&d, dtype, 3, &[4, 3], 5);
            let src = Table::whole(&d, dtype, 4, &[2, 3], 5);
            let at = Table::new(&d, ids, &[2], &[3.0, 1.0]);
            let y = d.index_add(dst.view(), at.view(), src.view(), 0).unwrap();
            let got = read_n(&d, dtype, &y, 12);
            for (i, g) in indices(&[4, 3]).iter().zip(got) {
                let add = match i[0] {
                    3 => src.at(&[0, i[1]]),
                    1 => src.at(&[1, i[1]]),
                    _ => 0.0,
                };
                assert_eq!(g, dst.at(i) + add, "{dtype} by {ids}");
            }
        }
    }
}

#[test]
fn random_numbers() {
    let d = device();
    for dtype in [DType::F8E4M3, DType::F64] {
        let n = 40_001;
        let x = read_n(&d, dtype, &d.rand_uniform(n, dtype, -1.0, 3.0).unwrap(), n);
        assert!(x.iter().all(|v| (-1.0..3.0).contains(v)), "{dtype}");
        let mean = x.iter().sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.03, "{dtype}: mean {mean}");
        let x = read_n(&d, dtype, &d.rand_normal(n, dtype, 1.0, 2.0).unwrap(), n);
        let mean = x.iter().sum::<f64>() / n as f64;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(
            (mean - 1.0).abs() < 0.05 && (variance - 4.0).abs() < 0.1,
            "{dtype}: {mean} {variance}"
        );
    }
    // Not just the bits of an f32.
    let x = read_n(
        &d,
        DType::F64,
        &d.rand_uniform(100, DType::F64, 0.0, 1.0).unwrap(),
        100,
    );
    assert!(x.iter().filter(|v| f64::from(**v as f32) != **v).count() > 90);
}
