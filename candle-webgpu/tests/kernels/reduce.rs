//! Reductions against plain loops: every dtype, layouts, lengths around the kernels' limits.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Error, View};

use crate::table::{device, encode, indices, read, whole, Table, ALL};

fn reference(op: &str, x: &Table, dims: &[usize]) -> Vec<f64> {
    let only = |keep: bool| -> Vec<usize> {
        let kept = (0..x.dims.len()).map(|d| {
            if dims.contains(&d) == keep {
                x.dims[d]
            } else {
                1
            }
        });
        kept.collect()
    };
    let inner = indices(&only(true));
    let fold = |o: Vec<usize>| {
        let item = |r: &Vec<usize>| {
            let i: Vec<usize> = o.iter().zip(r).map(|(a, b)| a + b).collect();
            x.at(&i)
        };
        if op == "sum" {
            return inner.iter().map(item).sum();
        }
        let (mut at, mut best) = (0, item(&inner[0]));
        for (k, r) in inner.iter().enumerate() {
            let v = item(r);
            if (op.ends_with("min") && best > v) || (op.ends_with("max") && best < v) {
                (at, best) = (k, v);
            }
        }
        if op.starts_with("arg") {
            at as f64
        } else {
            best
        }
    };
    indices(&only(false)).into_iter().map(fold).collect()
}

fn check(op: &'static str, x: &Table, dims: &[usize]) {
    let d = device();
    let y = d.reduce(op, x.view(), dims).unwrap();
    let out = if op.starts_with("arg") {
        DType::U32
    } else {
        x.dtype
    };
    let got = read(&d, out, &y);
    let want = crate::table::decode(out, &encode(out, &reference(op, x, dims)));
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan();
        assert!(
            same,
            "{op} {} {:?} over {dims:?} [{i}]: {g}, not {w}",
            x.dtype, x.dims
        );
    }
}

const OPS: [&str; 5] = ["sum", "min", "max", "argmin", "argmax"];

#[test]
fn every_dtype_and_layout() {
    let d = device();
    for dtype in ALL {
        for op in OPS {
            // Sums of these stay exact in bf16 and do not wrap in u8.
            let x = Table::whole(&d, dtype, 1, &[3, 5, 7], 4);
            for dim in 0..3 {
                check(op, &x, &[dim]);
            }
            let x = x.transposed(0, 2);
            for dim in 0..3 {
                check(op, &x, &[dim]);
            }
            let x = Table::whole(&d, dtype, 2, &[6, 40, 9], 1)
                .narrowed(1, 3, 33)
                .narrowed(2, 1, 7);
            for dim in 0..3 {
                check(op, &x, &[dim]);
            }
            check(
                op,
                &Table::whole(&d, dtype, 3, &[2, 3], 4).repeated(1, 5),
                &[1],
            );
        }
        let x = Table::whole(&d, dtype, 4, &[2, 3, 4, 5], 1);
        for dims in [&[0, 1][..], &[1, 3], &[0, 2, 3], &[0, 1, 2, 3], &[]] {
            check("sum", &x, dims);
        }
    }
}

#[test]
fn long_rows_and_columns() {
    let d = device();
    for dtype in [DType::F32, DType::Bf16, DType::U8, DType::I64] {
        for op in OPS {
            for (dims, dim) in [
                (&[1, 100_003][..], 1),
                (&[5, 9000], 1),
                (&[3, 257], 1),
                (&[20_000, 17], 0),
                (&[100, 300], 0),
                (&[2, 3000, 20], 1),
            ] {
                let n: usize = dims.iter().product();
                let mut data = whole(dtype, 5, n, 100);
                if op == "sum" {
                    // Few ones: exact in bf16, and no wrapping in u8.
                    data = (0..n).map(|i| f64::from(u8::from(i % 1009 == 3))).collect();
                }
                check(op, &Table::new(&d, dtype, dims, &data), &[dim]);
            }
        }
    }
}

#[test]
fn integer_sums_are_exact() {
    let d = device();
    let x = Table::new(&d, DType::U32, &[3], &[16_777_217.0, 32.0, 4_294_967_295.0]);
    let y = d.reduce("sum", x.view(), &[0]).unwrap();
    assert_eq!(read(&d, DType::U32, &y), [16_777_248.0]);
    let big: Vec<i64> = (0..70_000).map(|i| (1 << 40) + i).collect();
    let value = d.upload(bytemuck::cast_slice(&big)).unwrap();
    let view = View::new("test", &value, DType::I64, (&[70_000], &[1], 0)).unwrap();
    let y = d.reduce("sum", view, &[0]).unwrap();
    let got: Vec<i64> = bytemuck::pod_collect_to_vec(&d.read(&y, 0, 8).unwrap());
    assert_eq!(got, [big.iter().sum::<i64>()]);
}

#[test]
fn float_sums_are_close() {
    let d = device();
    for dims in [[1, 1 << 20], [1 << 20, 1], [64, 5000]] {
        let n: usize = dims.iter().product();
        let data: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin() + 0.5).collect();
        let x = Table::new(&d, DType::F32, &dims, &data);
        let want: f64 = x.host.iter().sum();
        let y = d.reduce("sum", x.view(), &[0, 1]).unwrap();
        let got = read(&d, DType::F32, &y)[0];
        assert!((got - want).abs() < 1e-6 * want.abs(), "{got}, not {want}");
    }
}

#[test]
fn nan_wins_only_if_first() {
    let d = device();
    for n in [5, 300, 70_000] {
        for at in [0, 1, n / 2, n - 1] {
            let mut data = whole(DType::F32, 9, n, 1000);
            data[at] = f64::NAN;
            let x = Table::new(&d, DType::F32, &[1, n], &data);
            for op in &OPS[1..] {
                check(op, &x, &[1]);
            }
            let x = Table::new(&d, DType::F32, &[n, 1], &data);
            check("max", &x.repeated(1, 20), &[0]);
        }
    }
}

#[test]
fn nothing_to_reduce() {
    let d = device();
    let x = Table::new(&d, DType::F32, &[2, 0, 3], &[]);
    let y = d.reduce("sum", x.view(), &[1]).unwrap();
    assert_eq!(read(&d, DType::F32, &y), [0.0; 6]);
    assert!(matches!(
        d.reduce("max", x.view(), &[1]),
        Err(Error::Invalid { .. })
    ));
    assert!(matches!(
        d.reduce("max", x.view(), &[9]),
        Err(Error::Invalid { .. })
    ));
    // Also along a dim with elements if the others have none, as on the CPU.
    assert!(matches!(
        d.reduce("max", x.view(), &[0]),
        Err(Error::Invalid { .. })
    ));
}
