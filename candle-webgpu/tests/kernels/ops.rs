//! Elementwise ops against plain loops in f64, over ranges where WGSL's builtins fail.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Device};

use crate::hard::line;
use crate::table::device;

fn unary<T: bytemuck::Pod>(
    d: &Device,
    op: &'static str,
    dtype: DType,
    x: &[T],
    s: [f64; 2],
) -> Vec<T> {
    let value = d.upload(bytemuck::cast_slice(x)).unwrap();
    let y = d.unary(op, line(&value, dtype, x.len()), s).unwrap();
    bytemuck::pod_collect_to_vec(&d.read(&y, 0, y.bytes()).unwrap())
}

fn binary<T: bytemuck::Pod, U: bytemuck::Pod>(
    d: &Device,
    op: &'static str,
    dtype: DType,
    a: &[T],
    b: &[T],
) -> Vec<U> {
    let (va, vb) = (
        d.upload(bytemuck::cast_slice(a)).unwrap(),
        d.upload(bytemuck::cast_slice(b)).unwrap(),
    );
    let y = d
        .binary(op, line(&va, dtype, a.len()), line(&vb, dtype, b.len()))
        .unwrap();
    bytemuck::pod_collect_to_vec(&d.read(&y, 0, y.bytes()).unwrap())
}

/// Both signs of magnitudes spread evenly over exponents, and evenly over a range.
pub fn samples(most: f32) -> Vec<f32> {
    let n = 20_000;
    let mut out = vec![0.0, -0.0, 0.5, -0.5, 1.0, -1.0];
    for i in 0..n {
        let t = i as f32 / n as f32;
        let log = 1e-6_f32 * (most / 1e-6).powf(t);
        let even = t * most;
        out.extend([log, -log, even, -even]);
    }
    out
}

/// Largest error in units of the last place (of values no smaller than `floor`).
fn check(name: &str, x: &[f32], y: &[f32], f: impl Fn(f64) -> f64, ulps: f64, floor: f64) {
    let mut worst = (0.0, 0.0, 0.0, 0.0);
    for (&x, &y) in x.iter().zip(y) {
        let want = f(x as f64);
        let as_f32 = want as f32;
        if as_f32.is_nan() || as_f32.is_infinite() {
            assert!(
                as_f32.is_nan() && y.is_nan() || as_f32 == y,
                "{name}({x}) = {y}, not {want}"
            );
            continue;
        }
        if y == 0.0 && want.abs() < f32::MIN_POSITIVE as f64 {
            continue; // the adapter flushes subnormals
        }
        let scale = want.abs().max(floor).max(f32::MIN_POSITIVE as f64) * f32::EPSILON as f64;
        let error = (y as f64 - want).abs() / scale;
        assert!(!error.is_nan(), "{name}({x}) = {y}, not {want}");
        if error > worst.0 {
            worst = (error, x as f64, y as f64, want);
        }
    }
    println!(
        "{name}: {:.2} ulp at {}: {} {}",
        worst.0, worst.1, worst.2, worst.3
    );
    assert!(
        worst.0 <= ulps,
        "{name}({}) = {}, not {}: {} ulp",
        worst.1,
        worst.2,
        worst.3,
        worst.0
    );
}

/// The error function by its series and its continued fraction.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    let magnitude = if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..120 {
            term *= -a * a / n as f64;
            sum += term / (2 * n + 1) as f64;
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else if a > 6.0 {
        1.0
    } else {
        let mut f = a;
        for n in (1..200).rev() {
            f = a + (n as f64 / 2.0) / f;
        }
        1.0 - (-a * a).exp() / (f * std::f64::consts::PI.sqrt())
    };
    magnitude.copysign(x)
}

#[test]
fn functions_are_accurate() {
    let d = device();
    let special = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e4,
        -1e4,
        3e38,
        -3e38,
    ];
    let with = |most: f32| [samples(most), special.to_vec()].concat();
    let run = |op, x: &[f32]| unary(&d, op, DType::F32, x, [0.0; 2]);
    type Case<'a> = (&'static str, Vec<f32>, &'a dyn Fn(f64) -> f64, f64, f64);
    let k = (2.0 / std::f64::consts::PI).sqrt();
    #[rustfmt::skip]
    let cases: [Case<'_>; 17] = [
        // op        inputs                       reference   ulps  smallest scale
        ("uexp",     with(90.0),                  &f64::exp,   2.0, 0.0),
        ("ulog",     with(1e30),                  &f64::ln,    2.0, 0.0),
        ("usin",     with(2e5),                   &f64::sin,   2.0, 1e-3),
        ("ucos",     with(2e5),                   &f64::cos,   2.0, 1e-3),
        ("usin",     samples(1e30),               &f64::sin,   2.0, 1e-3),
        ("utanh",    with(20.0),                  &f64::tanh,  3.0, 0.0),
        ("uerf",     with(6.0),                   &erf,        3.0, 0.0),
        ("usqrt",    with(1e30),                  &f64::sqrt,  2.5, 0.0),
        ("urecip",   samples(1e30)[2..].to_vec(), &f64::recip, 2.5, 0.0),
        ("uround",   with(1e8),                   &f64::round, 0.0, 0.0),
        ("uceil",    with(1e8),                   &f64::ceil,  0.0, 0.0),
        ("ufloor",   with(1e8),                   &f64::floor, 0.0, 0.0),
        ("usigmoid", with(80.0), &|v| 1.0 / (1.0 + (-v).exp()), 4.0, 0.0),
        ("usilu", samples(80.0), &|v| v / (1.0 + (-v).exp()), 4.0, 0.0),
        ("ugelu", samples(20.0), &|v| 0.5 * v * (1.0 + (k * v * (1.0 + 0.044715 * v * v)).tanh()), 8.0, 1.0),
        ("ugelu_erf", samples(20.0), &|v| 0.5 * v * (1.0 + erf(v / 2f64.sqrt())), 8.0, 1.0),
        ("usign", samples(1e3), &|v| f64::from(u8::from(v > 0.0)) - f64::from(u8::from(v < 0.0)), 0.0, 0.0),
    ];
    for (op, x, f, ulps, floor) in cases {
        let y = run(op, &x);
        check(op, &x, &y, f, ulps, floor);
    }
    assert_eq!(run("urelu", &[f32::NAN, -1.0, 2.0]), [0.0, 0.0, 2.0]);
    assert_eq!(run("usign", &[f32::NAN]), [0.0]);
}

#[test]
fn powers() {
    let d = device();
    let x = samples(50.0);
    for a in [
        0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 7.0, 0.3, -0.7, 2.5, 19.0, -21.0,
    ] {
        let y = unary(&d, "powf", DType::F32, &x, [a, 0.0]);
        let a = a as f32 as f64;
        check(&format!("powf {a}"), &x, &y, |v| v.powf(a), 24.0, 0.0);
    }
    let edges = [
        0.0_f32,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    for a in [0.0, 2.0, 3.0, -3.0, 0.5, -0.5, 1.7, 33.0, 34.0] {
        let y = unary(&d, "powf", DType::F32, &edges, [a, 0.0]);
        for (x, y) in edges.iter().zip(y) {
            let want = x.powf(a as f32);
            assert!(
                want == y || want.is_nan() && y.is_nan(),
                "{x}^{a} = {y}, not {want}"
            );
        }
    }
    let y = unary(&d, "elu", DType::F32, &x, [1.5, 0.0]);
    check(
        "elu",
        &x,
        &y,
        |v| if v > 0.0 { v } else { 1.5 * v.exp_m1() },
        3.0,
        0.0,
    );
}

pub fn integers() -> Vec<i64> {
    let mut out = vec![
        0,
        1,
        -1,
        2,
        -2,
        3,
        7,
        -7,
        10,
        255,
        256,
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
        i64::MIN + 1,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in 0..3000 {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let v = (state ^ (state >> 29)) as i64;
        out.push(v >> (i % 64));
        out.push((1_i64 << (i % 63)) + (i as i64 % 5) - 2);
    }
    out
}

#[test]
fn integers_of_64_bits() {
    let d = device();
    let a = integers();
    let b: Vec<i64> = a.iter().rev().copied().collect();
    type Binary = fn(i64, i64) -> i64;
    let ops: [(&'static str, Binary); 6] = [
        ("badd", i64::wrapping_add),
        ("bsub", i64::wrapping_sub),
        ("bmul", i64::wrapping_mul),
        ("bdiv", |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        ("bminimum", i64::min),
        ("bmaximum", i64::max),
    ];
    for (op, f) in ops {
        let y: Vec<i64> = binary(&d, op, DType::I64, &a, &b);
        for ((&a, &b), y) in a.iter().zip(&b).zip(y) {
            assert_eq!(f(a, b), y, "{op}({a}, {b})");
        }
    }
    type Compare = fn(&i64, &i64) -> bool;
    let ops: [(&'static str, Compare); 6] = [
        ("eq", i64::eq),
        ("ne", i64::ne),
        ("le", i64::le),
        ("ge", i64::ge),
        ("lt", i64::lt),
        ("gt", i64::gt),
    ];
    for (op, f) in ops {
        let y: Vec<u8> = binary(&d, op, DType::I64, &a, &b);
        for ((a, b), y) in a.iter().zip(&b).zip(y) {
            assert_eq!(u8::from(f(a, b)), y, "{op}({a}, {b})");
        }
    }
    for (op, f) in [
        ("uabs", i64::wrapping_abs as fn(i64) -> i64),
        ("usign", i64::signum),
        ("urelu", |v| v.max(0)),
        ("uceil", |v| v),
    ] {
        let y = unary(&d, op, DType::I64, &a, [0.0; 2]);
        for (&a, y) in a.iter().zip(y) {
            assert_eq!(f(a), y, "{op}({a})");
        }
    }
    let y = unary(&d, "affine", DType::I64, &a, [-3.0, 5.0]);
    for (&a, y) in a.iter().zip(y) {
        assert_eq!(a.wrapping_mul(-3).wrapping_add(5), y);
    }
}

#[test]
fn integers_of_8_bits() {
    let d = device();
    let a: Vec<u8> = (0..=255).flat_map(|a| [a; 256]).collect();
    let b: Vec<u8> = (0..256).flat_map(|_| 0..=255).collect();
    type Binary = fn(u8, u8) -> u8;
    let ops: [(&'static str, Binary); 5] = [
        ("badd", u8::wrapping_add),
        ("bsub", u8::wrapping_sub),
        ("bmul", u8::wrapping_mul),
        ("bdiv", |a, b| a.checked_div(b).unwrap_or(0)),
        ("lt", |a, b| u8::from(a < b)),
    ];
    for (op, f) in ops {
        let y: Vec<u8> = binary(&d, op, DType::U8, &a, &b);
        for ((&a, &b), y) in a.iter().zip(&b).zip(y) {
            assert_eq!(f(a, b), y, "{op}({a}, {b})");
        }
    }
}

#[test]
fn comparisons_with_nan() {
    let d = device();
    let (a, b) = (
        [1.0, f32::NAN, f32::NAN, 0.0],
        [f32::NAN, 1.0, f32::NAN, -0.0],
    );
    let compare = |op| binary::<f32, u8>(&d, op, DType::F32, &a, &b);
    assert_eq!(compare("eq"), [0, 0, 0, 1]);
    assert_eq!(compare("ne"), [1, 1, 1, 0]);
    assert_eq!(compare("le"), [0, 0, 0, 1]);
    assert_eq!(compare("gt"), [0, 0, 0, 0]);
    let y: Vec<f32> = binary(&d, "bmaximum", DType::F32, &a, &b);
    assert!(y[0] == 1.0 && y[1].is_nan() && y[2].is_nan());
    for op in [
        "uexp",
        "ulog",
        "usin",
        "ucos",
        "utanh",
        "uerf",
        "usilu",
        "usigmoid",
        "ugelu",
        "ugelu_erf",
        "uround",
    ] {
        let y = unary(&d, op, DType::F32, &[f32::NAN, -f32::NAN], [0.0; 2]);
        assert!(y.iter().all(|v| v.is_nan()), "{op}: {y:?}");
    }
}
