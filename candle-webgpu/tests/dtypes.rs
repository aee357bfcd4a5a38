//! i16, i32, f8e4m3 and f64: conversions, arithmetic and functions against plain Rust.

mod table;

use candle_webgpu::{Device, Elem, View};
use table::{decode, device, encode, indices, read, Table};

const NEW: [Elem; 4] = [Elem::I16, Elem::I32, Elem::F8E4M3, Elem::F64];

fn line(value: &candle_webgpu::Value, elem: Elem, n: usize) -> View<'_> {
    // Leaked: a test's few words.
    let dims: &'static [usize] = Box::leak(Box::new([n]));
    View {
        value,
        elem,
        dims,
        strides: &[1],
        offset: 0,
    }
}

fn f64_bytes(x: &[f64]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f64_of(bytes: &[u8]) -> Vec<f64> {
    bytes
        .chunks_exact(8)
        .map(|c| f64::from_le_bytes(c.try_into().unwrap()))
        .collect()
}

/// Numbers of every size and sign, the hard ones first.
fn hard() -> Vec<f64> {
    let mut x = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        -f64::from_bits(3),
        f64::from_bits(0x000f_ffff_ffff_ffff),
        0.49999999999999994,
        4503599627370495.5,
        4503599627370497.0,
        9007199254740993.0,
        1e300,
        1e-300,
        1e-310,
        3.4028235e38,
        3.4028235677973366e38,
        1e-45,
        7e-46,
        7.1e-46,
        1.1754943e-38,
        2147483647.0,
        2147483648.0,
        -2147483648.0,
        -2147483649.0,
        4294967295.0,
        4294967296.0,
        9.223372036854775e18,
        9.223372036854776e18,
        -9.3e18,
        32767.5,
        -32768.9,
        -40000.0,
        255.9,
        256.0,
        448.0,
        464.0,
        465.0,
        65504.0,
        65520.0,
        65519.99999999999,
        1.0 + 1.0 / 2048.0 + 1e-12,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0 - 1e-13,
        1.0625,
        1.0625000000001,
        1.1875,
        0.0009765625,
        0.0009765626,
        0.0029296875,
    ];
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for i in 0..400 {
        let bits = next();
        let exponent = match i % 4 {
            0 => bits >> 52 & 0x7ff,
            1 => 1023 - 12 + next() % 24,
            2 => 1023 - 150 + next() % 300,
            _ => 1023 - 2 + next() % 70,
        };
        x.push(f64::from_bits(
            bits & 0x800f_ffff_ffff_ffff | exponent << 52,
        ));
    }
    x
}

/// An f32 with the last place odd if places were lost, so that rounding it again is rounding once. The crate half goes
/// through an f32 that is rounded to nearest on some processors.
fn to_odd(v: f64) -> f64 {
    let near = v as f32;
    if f64::from(near) == v || v.is_nan() || near.to_bits() & 1 == 1 && near.is_finite() {
        return near.into();
    }
    let away = f64::from(near).abs() > v.abs();
    let bits = near.to_bits();
    f32::from_bits(if away { bits - 1 } else { bits + 1 }).into()
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn casts_from_f64_are_exact() {
    let d = device();
    let x = hard();
    let v = d.upload(&f64_bytes(&x)).unwrap();
    for to in [
        Elem::F32,
        Elem::F16,
        Elem::Bf16,
        Elem::F8E4M3,
        Elem::U8,
        Elem::U32,
        Elem::I16,
        Elem::I32,
        Elem::I64,
    ] {
        let y = d.cast(line(&v, Elem::F64, x.len()), to).unwrap();
        let got = d.read(&y, 0, (x.len() * to.size()) as u64).unwrap();
        let want = match to {
            Elem::F16 | Elem::Bf16 => encode(to, &x.iter().map(|v| to_odd(*v)).collect::<Vec<_>>()),
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
    let all = table::ALL;
    for from in all {
        let x = decode(from, &encode(from, &hard()));
        let bytes = encode(from, &x);
        let v = d.upload(&bytes).unwrap();
        for to in all.into_iter().filter(|to| *to != from) {
            // i64 has more places than the f64 that tests count in: the other tests have those.
            let float = |e: Elem| e.is_float();
            let want: Vec<f64> = x
                .iter()
                .map(|&v| match (from, to) {
                    (_, t) if float(from) && !float(t) => v,
                    (Elem::F64, Elem::F16 | Elem::Bf16) => to_odd(v),
                    (Elem::I64, Elem::F16 | Elem::Bf16 | Elem::F8E4M3) => f64::from(v as f32),
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
                    same(got[i], want[i]) || tiny && from != Elem::F64 && to != Elem::F64,
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
fn wrap(v: f64, to: Elem) -> f64 {
    let v = v as i64;
    match to {
        Elem::U8 => f64::from(v as u8),
        Elem::U32 => f64::from(v as u32),
        Elem::I16 => f64::from(v as i16),
        Elem::I32 => f64::from(v as i32),
        _ => v as f64,
    }
}

fn read_n(d: &Device, elem: Elem, value: &candle_webgpu::Value, n: usize) -> Vec<f64> {
    decode(elem, &d.read(value, 0, (n * elem.size()) as u64).unwrap())
}

#[test]
fn wide_integers_to_floats() {
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
    let y = d.cast(line(&v, Elem::I64, x.len()), Elem::F64).unwrap();
    let got = f64_of(&d.read(&y, 0, x.len() as u64 * 8).unwrap());
    for (v, g) in x.iter().zip(&got) {
        assert_eq!(*v as f64, *g);
    }
    let back = d.cast(line(&y, Elem::F64, x.len()), Elem::I64).unwrap();
    let back = d.read(&back, 0, x.len() as u64 * 8).unwrap();
    for (v, c) in got.iter().zip(back.chunks_exact(8)) {
        assert_eq!(*v as i64, i64::from_le_bytes(c.try_into().unwrap()));
    }
}

fn map_f64(d: &Device, op: &'static str, x: &[f64], scalars: [f64; 2]) -> Vec<f64> {
    let v = d.upload(&f64_bytes(x)).unwrap();
    let y = d.map(op, line(&v, Elem::F64, x.len()), scalars).unwrap();
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
        // Special values meet all others; the rest meet their likes.
        b.push(x[(i / n * 7 + i * (i / n)) % n]);
    }
    // Cancellation, and ties.
    for i in 0..n {
        a.push(x[i]);
        b.push(-f64::from_bits(x[i].to_bits() ^ 1));
        a.push(x[i]);
        b.push(x[i] * 2f64.powi(-53));
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
            .zip(op, line(&va, Elem::F64, n), line(&vb, Elem::F64, n))
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
            .zip(op, line(&va, Elem::F64, n), line(&vb, Elem::F64, n))
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
        for (v, g) in x.iter().zip(map_f64(&d, op, &x, [0.0; 2])) {
            assert!(
                same(g, f(*v)) || g == f(*v),
                "{op} {v:e}: {g:e} instead of {:e}",
                f(*v)
            );
        }
    }
    for (v, g) in x.iter().zip(map_f64(&d, "affine", &x, [1.7, -0.3])) {
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
    let tanh = |v: f64| v.tanh();
    let _ = tanh;
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
            1e6,
        ),
    ];
    for (op, f, places) in ops {
        let mut worst = (0.0, 0.0);
        for (v, g) in x.iter().zip(map_f64(&d, op, &x, [0.0; 2])) {
            let want = f(*v);
            if same(g, want) || g == want || v.is_infinite() {
                continue;
            }
            let error = (g - want).abs();
            let scale = match op {
                "ugelu" => v.abs() * f64::EPSILON * 4.0,
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
    // From tables with more places than a f64 has.
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
    for (i, g) in map_f64(&d, "uerf", &x, [0.0; 2]).into_iter().enumerate() {
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
        for (v, g) in x.iter().zip(map_f64(&d, "powf", &x, [a, 0.0])) {
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
    for (v, g) in x.iter().zip(map_f64(&d, "elu", &x, [1.5, 0.0])) {
        let want = if *v > 0.0 { *v } else { 1.5 * v.exp_m1() };
        assert!(
            same(g, want) || (g - want).abs() <= want.abs() * 1e-15,
            "elu {v:e}: {g:e}"
        );
    }
}

#[test]
fn integers_and_f8_compute() {
    let d = device();
    for elem in NEW {
        let a = Table::whole(&d, elem, 1, &[5, 7], 13);
        let b = Table::whole(&d, elem, 2, &[7, 5], 13).transposed(0, 1);
        type F = fn(f64, f64) -> f64;
        let ops: [(&'static str, F); 5] = [
            ("badd", |a, b| a + b),
            ("bsub", |a, b| a - b),
            ("bmul", |a, b| a * b),
            ("bminimum", f64::min),
            ("bmaximum", f64::max),
        ];
        for (op, f) in ops {
            let y = read_n(&d, elem, &d.zip(op, a.view(), b.view()).unwrap(), 35);
            for (at, g) in indices(&[5, 7]).iter().zip(y) {
                let want = f(a.at(at), b.at(at));
                let want = decode(elem, &encode(elem, &[want]))[0];
                assert_eq!(g, want, "{op} {elem}");
            }
        }
        for op in ["sum", "min", "max"] {
            let y = read_n(&d, elem, &d.fold(op, a.view(), &[1]).unwrap(), 5);
            for (i, g) in y.into_iter().enumerate() {
                let row = (0..7).map(|j| a.at(&[i, j]));
                let want = match op {
                    "sum" => row.sum(),
                    "min" => row.fold(f64::INFINITY, f64::min),
                    _ => row.fold(f64::NEG_INFINITY, f64::max),
                };
                let want = decode(elem, &encode(elem, &[want]))[0];
                assert_eq!(g, want, "{op} {elem}");
            }
        }
        let order = read(&d, Elem::U32, &d.argsort(a.view(), 7, true).unwrap());
        for i in 0..5 {
            let row: Vec<f64> = (0..7)
                .map(|j| a.at(&[i, order[i * 7 + j] as usize]))
                .collect();
            assert!(
                row.windows(2).all(|w| w[0] <= w[1]),
                "argsort {elem} {row:?}"
            );
        }
    }
    // Wrapping, and division that truncates.
    for (elem, a, b, op, want) in [
        (Elem::I16, 32767.0, 1.0, "badd", -32768.0),
        (Elem::I16, -7.0, 2.0, "bdiv", -3.0),
        (Elem::I32, 2147483647.0, 2.0, "badd", -2147483647.0),
        (Elem::I32, -2147483648.0, -1.0, "bdiv", -2147483648.0),
        (Elem::I32, 7.0, -2.0, "bdiv", -3.0),
        (Elem::F8E4M3, 400.0, 100.0, "badd", 448.0),
    ] {
        let (ta, tb) = (
            Table::new(&d, elem, &[1], &[a]),
            Table::new(&d, elem, &[1], &[b]),
        );
        let y = read_n(&d, elem, &d.zip(op, ta.view(), tb.view()).unwrap(), 1);
        assert_eq!(y[0], want, "{a} {op} {b} {elem}");
    }
}

#[test]
fn f64_sums_of_many() {
    let d = device();
    let n = 100_000;
    let x: Vec<f64> = (0..n).map(|i| f64::from(i % 1000) * 0.1 - 31.0).collect();
    let v = d.upload(&f64_bytes(&x)).unwrap();
    let y = d.fold("sum", line(&v, Elem::F64, x.len()), &[0]).unwrap();
    let got = f64_of(&d.read(&y, 0, 8).unwrap())[0];
    let want: f64 = x.iter().sum();
    assert!((got - want).abs() < 1e-7, "{got} instead of {want}");
}

#[test]
fn ids_of_16_and_32_bits() {
    let d = device();
    for ids in [Elem::I16, Elem::I32] {
        for elem in NEW {
            let dst = Table::whole(&d, elem, 3, &[4, 3], 5);
            let src = Table::whole(&d, elem, 4, &[2, 3], 5);
            let at = Table::new(&d, ids, &[2], &[3.0, 1.0]);
            let y = d.index_add(dst.view(), at.view(), src.view(), 0).unwrap();
            let got = read_n(&d, elem, &y, 12);
            for (i, g) in indices(&[4, 3]).iter().zip(got) {
                let add = match i[0] {
                    3 => src.at(&[0, i[1]]),
                    1 => src.at(&[1, i[1]]),
                    _ => 0.0,
                };
                assert_eq!(g, dst.at(i) + add, "{elem} by {ids}");
            }
        }
    }
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
    let x = Table::new(&d, Elem::F64, &[b, k, m], &noise(b * k * m, 1)).transposed(1, 2);
    let w = Table::new(&d, Elem::F64, &[k, n], &noise(k * n, 2)).repeated(0, b);
    let y = d.matmul(x.view(), w.view(), (b, m, n, k)).unwrap();
    for (at, g) in indices(&[b, m, n])
        .iter()
        .zip(read_n(&d, Elem::F64, &y, b * m * n))
    {
        let want: f64 = (0..k)
            .map(|i| x.at(&[at[0], at[1], i]) * w.at(&[at[0], i, at[2]]))
            .sum();
        assert!((g - want).abs() < 1e-14, "{at:?}: {g} instead of {want}");
    }

    let y = read_n(
        &d,
        Elem::F64,
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
    let cos = Table::new(&d, Elem::F64, &[t + 1, e / 2], &noise((t + 1) * e / 2, 3));
    let sin = Table::new(&d, Elem::F64, &[t + 1, e / 2], &noise((t + 1) * e / 2, 4));
    let x = Table::new(&d, Elem::F64, &[b, t, h, e], &noise(b * t * h * e, 5));
    let xt = Table::new(&d, Elem::F64, &[b, t, h, e], &noise(b * t * h * e, 5)).transposed(1, 2);
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
        let got = read_n(&d, Elem::F64, &y.unwrap(), b * t * h * e);
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

#[test]
fn random_numbers() {
    let d = device();
    for elem in [Elem::F8E4M3, Elem::F64] {
        let n = 40_001;
        let x = read_n(&d, elem, &d.rand_uniform(n, elem, -1.0, 3.0).unwrap(), n);
        assert!(x.iter().all(|v| (-1.0..3.0).contains(v)), "{elem}");
        let mean = x.iter().sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.03, "{elem}: mean {mean}");
        let x = read_n(&d, elem, &d.rand_normal(n, elem, 1.0, 2.0).unwrap(), n);
        let mean = x.iter().sum::<f64>() / n as f64;
        let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(
            (mean - 1.0).abs() < 0.05 && (variance - 4.0).abs() < 0.1,
            "{elem}: {mean} {variance}"
        );
    }
    // Not just the bits of an f32.
    let x = read_n(
        &d,
        Elem::F64,
        &d.rand_uniform(100, Elem::F64, 0.0, 1.0).unwrap(),
        100,
    );
    assert!(x.iter().filter(|v| f64::from(**v as f32) != **v).count() > 90);
}
