//! f64: arithmetic bit for bit, functions within a few ULP, matmuls and fused ops.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Device};

use crate::hard::{f64_bytes, f64_of, hard, line, read_n, same};
use crate::table::{device, indices, Table};

fn unary_f64(d: &Device, op: &'static str, x: &[f64], scalars: [f64; 2]) -> Vec<f64> {
    let v = d.upload(&f64_bytes(x)).unwrap();
    let y = d.unary(op, line(&v, DType::F64, x.len()), scalars).unwrap();
    f64_of(&d.read(&y, 0, x.len() as u64 * 8).unwrap())
}

#[test]
fn f64_arithmetic_is_ieee() {
    let d = device();
    let x = hard();
    let n = x.len();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 0..n * 40 {
        a.push(x[i % n]);
        // Special values are paired with all others, the rest with similar ones.
        b.push(x[(i / n * 7 + i * (i / n)) % n]);
    }
    // Cancellation, and ties.
    for v in x {
        a.push(v);
        b.push(-f64::from_bits(v.to_bits() ^ 1));
        a.push(v);
        b.push(v * 2f64.powi(-53));
    }
    let n = a.len();
    let (va, vb) = (
        d.upload(&f64_bytes(&a)).unwrap(),
        d.upload(&f64_bytes(&b)).unwrap(),
    );
    type F = fn(f64, f64) -> f64;
    let ops: [(&'static str, F); 6] = [
        ("badd", |a, b| a + b),
        ("bsub", |a, b| a - b),
        ("bmul", |a, b| a * b),
        ("bdiv", |a, b| a / b),
        ("bminimum", |a, b| if a > b { b } else { a }),
        ("bmaximum", |a, b| if a < b { b } else { a }),
    ];
    for (op, f) in ops {
        let y = d
            .binary(op, line(&va, DType::F64, n), line(&vb, DType::F64, n))
            .unwrap();
        let got = f64_of(&d.read(&y, 0, n as u64 * 8).unwrap());
        for i in 0..n {
            let want = f(a[i], b[i]);
            assert!(
                same(got[i], want),
                "{op} {:e} {:e}: {:e} instead of {want:e}",
                a[i],
                b[i],
                got[i]
            );
        }
    }
    type C = fn(f64, f64) -> bool;
    let compares: [(&'static str, C); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("le", |a, b| a <= b),
        ("ge", |a, b| a >= b),
        ("lt", |a, b| a < b),
        ("gt", |a, b| a > b),
    ];
    for (op, f) in compares {
        let y = d
            .binary(op, line(&va, DType::F64, n), line(&vb, DType::F64, n))
            .unwrap();
        let got = d.read(&y, 0, n as u64).unwrap();
        for i in 0..n {
            assert_eq!(got[i] != 0, f(a[i], b[i]), "{op} {:e} {:e}", a[i], b[i]);
        }
    }
}

#[test]
fn f64_exact_functions() {
    let d = device();
    let x = hard();
    type F = fn(f64) -> f64;
    let ops: [(&'static str, F); 9] = [
        ("usqrt", f64::sqrt),
        ("uneg", |v| -v),
        ("uabs", f64::abs),
        ("uceil", f64::ceil),
        ("ufloor", f64::floor),
        ("uround", f64::round),
        ("urecip", |v| 1.0 / v),
        ("usqr", |v| v * v),
        ("urelu", |v| if v > 0.0 { v } else { 0.0 }),
    ];
    for (op, f) in ops {
        for (v, g) in x.iter().zip(unary_f64(&d, op, &x, [0.0; 2])) {
            assert!(
                same(g, f(*v)) || g == f(*v),
                "{op} {v:e}: {g:e} instead of {:e}",
                f(*v)
            );
        }
    }
    for (v, g) in x.iter().zip(unary_f64(&d, "affine", &x, [1.7, -0.3])) {
        assert!(same(g, v * 1.7 - 0.3), "affine {v:e}: {g:e}");
    }
}

#[test]
fn f64_functions_are_close() {
    let d = device();
    let mut x: Vec<f64> = (-1000..1000)
        .map(|i| f64::from(i) * 0.0317 + 0.001)
        .collect();
    x.extend(hard());
    type F = fn(f64) -> f64;
    let ops: [(&'static str, F, f64); 8] = [
        ("uexp", f64::exp, 2.0),
        ("ulog", f64::ln, 2.0),
        ("usin", f64::sin, 2.0),
        ("ucos", f64::cos, 2.0),
        ("utanh", f64::tanh, 4.0),
        (
            "usilu",
            |v| {
                if v == f64::NEG_INFINITY {
                    f64::NAN
                } else {
                    v / (1.0 + (-v).exp())
                }
            },
            4.0,
        ),
        ("usigmoid", |v| 1.0 / (1.0 + (-v).exp()), 4.0),
        (
            "ugelu",
            |v| 0.5 * v * (1.0 + (0.797_884_560_802_865_4 * v * (1.0 + 0.044715 * v * v)).tanh()),
            4.0,
        ),
    ];
    for (op, f, places) in ops {
        let mut worst = (0.0, 0.0);
        for (v, g) in x.iter().zip(unary_f64(&d, op, &x, [0.0; 2])) {
            let want = f(*v);
            if same(g, want) || g == want || v.is_infinite() {
                continue;
            }
            let error = (g - want).abs();
            let scale = match op {
                // 1 + tanh cancels for negative numbers.
                "ugelu" => v.abs() * f64::EPSILON * places,
                _ => (want.abs() * f64::EPSILON * places).max(1e-300),
            };
            if error / scale > worst.0 || error.is_nan() {
                worst = (error / scale, *v);
            }
            assert!(error <= scale, "{op} {v:e}: {g:e} instead of {want:e}");
        }
        println!("{op}: {:.2} of the bound at {:e}", worst.0, worst.1);
    }
}

#[test]
fn f64_erf_and_powers() {
    let d = device();
    // From tables with more bits than an f64 has.
    let table = [
        (0.1, 0.112_462_916_018_284_89),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (1.5, 0.966_105_146_475_310_7),
        (2.5, 0.999_593_047_982_555),
        (3.5, 0.999_999_256_901_627_7),
        (5.0, 0.999_999_999_998_462_6),
        (7.0, 1.0),
    ];
    let x: Vec<f64> = table.iter().flat_map(|t| [t.0, -t.0]).collect();
    for (i, g) in unary_f64(&d, "uerf", &x, [0.0; 2]).into_iter().enumerate() {
        let want = table[i / 2].1 * if i % 2 == 0 { 1.0 } else { -1.0 };
        assert!((g - want).abs() < 3e-16, "erf {}: {g:e}", x[i]);
    }
    let mut x: Vec<f64> = (1..200).map(|i| f64::from(i) * 0.173).collect();
    x.extend([
        0.0,
        -0.0,
        -1.0,
        -2.5,
        1e-310,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ]);
    for a in [
        0.0,
        1.0,
        2.0,
        3.0,
        -1.0,
        -3.0,
        0.5,
        2.5,
        -0.3,
        17.0,
        33.0,
        100.25,
        1e20,
        f64::INFINITY,
    ] {
        for (v, g) in x.iter().zip(unary_f64(&d, "powf", &x, [a, 0.0])) {
            let want = v.powf(a);
            let bound = want.abs() * 2e-14 + 1e-307;
            if v.is_infinite() && a == 0.5 || a.is_infinite() {
                continue;
            }
            assert!(
                same(g, want) || g == want || (g - want).abs() <= bound,
                "{v:e}^{a}: {g:e} instead of {want:e}"
            );
        }
    }
    for (v, g) in x.iter().zip(unary_f64(&d, "elu", &x, [1.5, 0.0])) {
        let want = if *v > 0.0 { *v } else { 1.5 * v.exp_m1() };
        assert!(
            same(g, want) || (g - want).abs() <= want.abs() * 1e-15,
            "elu {v:e}: {g:e}"
        );
    }
}

#[test]
fn f64_sums_of_many() {
    let d = device();
    let n = 100_000;
    let x: Vec<f64> = (0..n).map(|i| f64::from(i % 1000) * 0.1 - 31.0).collect();
    let v = d.upload(&f64_bytes(&x)).unwrap();
    let y = d
        .reduce("sum", line(&v, DType::F64, x.len()), &[0])
        .unwrap();
    let got = f64_of(&d.read(&y, 0, 8).unwrap())[0];
    let want: f64 = x.iter().sum();
    assert!((got - want).abs() < 1e-7, "{got} instead of {want}");
}

fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

#[test]
fn f64_matmul_softmax_and_rope() {
    let d = device();
    let (b, m, k, n) = (3, 7, 19, 6);
    let x = Table::new(&d, DType::F64, &[b, k, m], &noise(b * k * m, 1)).transposed(1, 2);
    let w = Table::new(&d, DType::F64, &[k, n], &noise(k * n, 2)).repeated(0, b);
    let y = d.matmul(x.view(), w.view(), (b, m, n, k)).unwrap();
    for (at, g) in indices(&[b, m, n])
        .iter()
        .zip(read_n(&d, DType::F64, &y, b * m * n))
    {
        let want: f64 = (0..k)
            .map(|i| x.at(&[at[0], at[1], i]) * w.at(&[at[0], i, at[2]]))
            .sum();
        assert!((g - want).abs() < 1e-14, "{at:?}: {g} instead of {want}");
    }

    let y = read_n(
        &d,
        DType::F64,
        &d.softmax_last_dim(x.view()).unwrap(),
        b * m * k,
    );
    for (i, row) in indices(&[b, m]).iter().enumerate() {
        let powers: Vec<f64> = (0..k).map(|j| x.at(&[row[0], row[1], j]).exp()).collect();
        let sum: f64 = powers.iter().sum();
        for j in 0..k {
            assert!((y[i * k + j] - powers[j] / sum).abs() < 1e-16);
        }
    }

    let (h, t, e) = (2, 5, 8);
    let cos = Table::new(&d, DType::F64, &[t + 1, e / 2], &noise((t + 1) * e / 2, 3));
    let sin = Table::new(&d, DType::F64, &[t + 1, e / 2], &noise((t + 1) * e / 2, 4));
    let x = Table::new(&d, DType::F64, &[b, t, h, e], &noise(b * t * h * e, 5));
    let xt = Table::new(&d, DType::F64, &[b, t, h, e], &noise(b * t * h * e, 5)).transposed(1, 2);
    for (name, y, x, time, halves) in [
        (
            "rope",
            d.rope(xt.view(), cos.view(), sin.view()),
            &xt,
            2,
            true,
        ),
        (
            "rope_i",
            d.rope_i(xt.view(), cos.view(), sin.view()),
            &xt,
            2,
            false,
        ),
        (
            "rope_thd",
            d.rope_thd(x.view(), cos.view(), sin.view()),
            &x,
            1,
            true,
        ),
    ] {
        let got = read_n(&d, DType::F64, &y.unwrap(), b * t * h * e);
        for (at, g) in indices(&x.dims).iter().zip(got) {
            let i = at[3];
            let (pair, other, second) = if halves {
                (i % (e / 2), (i + e / 2) % e, i >= e / 2)
            } else {
                (i / 2, i ^ 1, i % 2 == 1)
            };
            let (c, s) = (cos.at(&[at[time], pair]), sin.at(&[at[time], pair]));
            let o = x.at(&[at[0], at[1], at[2], other]);
            let want = x.at(at) * c + if second { o * s } else { -o * s };
            assert!(
                (g - want).abs() < 1e-15,
                "{name} {at:?}: {g} instead of {want}"
            );
        }
    }
}
