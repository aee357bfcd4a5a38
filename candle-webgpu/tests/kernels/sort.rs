//! Sorting: every dtype, lengths around a workgroup's block, ties, NaN.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, View};

use crate::table::{device, read, whole, Table, ALL};

fn check(x: &Table, ascending: bool) {
    let d = device();
    let length = x.dims[x.dims.len() - 1];
    let got = read(
        &d,
        DType::U32,
        &d.argsort(x.view(), length, ascending).unwrap(),
    );
    let items: Vec<f64> = crate::table::indices(&x.dims)
        .iter()
        .map(|i| x.at(i))
        .collect();
    assert_eq!(got.len(), items.len());
    for (r, (row, got)) in items.chunks(length).zip(got.chunks(length)).enumerate() {
        let mut want: Vec<usize> = (0..length).collect();
        let key = |i: usize| {
            if row[i].is_nan() {
                f64::INFINITY
            } else {
                row[i]
            }
        };
        want.sort_by(|&a, &b| {
            let order = key(a).partial_cmp(&key(b)).unwrap();
            let order = order.then(row[a].is_nan().cmp(&row[b].is_nan()));
            if ascending {
                order
            } else {
                order.reverse()
            }
        });
        let got: Vec<usize> = got.iter().map(|v| *v as usize).collect();
        assert_eq!(got, want, "{} row {r} of {:?} {ascending}", x.dtype, x.dims);
    }
}

#[test]
fn every_dtype_and_length() {
    let d = device();
    for dtype in ALL {
        for (rows, length) in [
            (3, 1),
            (3, 2),
            (100, 7),
            (5, 64),
            (3, 1000),
            (2, 1024),
            (3, 1025),
            (2, 2048),
            (1, 5000),
            (2, 40_000),
        ] {
            let x = Table::whole(&d, dtype, length as u64, &[rows, length], 120);
            check(&x, true);
            check(&x, false);
        }
        let x = Table::whole(&d, dtype, 3, &[30, 20, 4], 100);
        check(&x.transposed(0, 2).narrowed(1, 3, 9), true);
    }
}

#[test]
fn odd_floats() {
    let d = device();
    for n in [10, 1500] {
        let mut data = whole(DType::F32, 1, n, 50);
        data[..9].copy_from_slice(&[
            f64::NAN,
            0.0,
            -0.0,
            f64::INFINITY,
            -1e30,
            f64::NEG_INFINITY,
            f64::NAN,
            1e-30,
            -0.0,
        ]);
        let x = Table::new(&d, DType::F32, &[1, n], &data);
        check(&x, true);
        check(&x, false);
    }
}

#[test]
fn integers_of_64_bits() {
    let d = device();
    let data: Vec<i64> = (0..3000_u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64 >> (i % 40))
        .collect();
    let value = d.upload(bytemuck::cast_slice(&data)).unwrap();
    let view = View::new("test", &value, DType::I64, (&[3000], &[1], 0)).unwrap();
    let order = read(&d, DType::U32, &d.argsort(view, 3000, true).unwrap());
    let mut want: Vec<usize> = (0..3000).collect();
    want.sort_by_key(|&i| data[i]);
    assert!(order.iter().map(|v| *v as usize).eq(want));
}
