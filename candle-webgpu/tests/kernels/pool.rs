//! Pools against plain loops.

use candle_webgpu::{DType, Device, Error};

use crate::table::{decode, device, encode, indices, read, Table, ALL};

fn check(d: &Device, dtype: DType, x: &Table, taps: [usize; 2], stride: [usize; 2]) {
    let out = [0, 1].map(|i| (x.dims[2 + i] - taps[i]) / stride[i] + 1);
    let dims = [x.dims[0], x.dims[1], out[0], out[1]];
    let area = (taps[0] * taps[1]) as f64;
    let (mut sums, mut tops) = (Vec::new(), Vec::new());
    for i in indices(&dims) {
        let values: Vec<f64> = indices(&taps)
            .iter()
            .map(|t| x.at(&[i[0], i[1], i[2] * stride[0] + t[0], i[3] * stride[1] + t[1]]))
            .collect();
        let sum: f64 = values.iter().sum();
        let first = values[0];
        tops.push(
            values
                .iter()
                .fold(first, |a, v| if a < *v { *v } else { a }),
        );
        // The averaging factor of integers is truncated, as on the CPU.
        sums.push(match dtype.is_float() {
            true => sum / area,
            false if area == 1.0 => sum,
            false => 0.0,
        });
    }
    let what = format!("{dtype} {:?}/{:?} {taps:?} {stride:?}", x.dims, x.strides);
    let run =
        |y: candle_webgpu::Result<_>| read(d, dtype, &y.unwrap_or_else(|e| panic!("{what}: {e}")));
    let tops = decode(dtype, &encode(dtype, &tops));
    let got = run(d.max_pool2d(x.view(), taps, stride));
    let same = |a: &f64, b: &f64| a == b || (a.is_nan() && b.is_nan());
    assert_eq!(got.len(), tops.len(), "max {what}");
    assert!(
        got.iter().zip(&tops).all(|(a, b)| same(a, b)),
        "max {what}: {got:?} not {tops:?}"
    );
    let got = run(d.avg_pool2d(x.view(), taps, stride));
    let step = match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        DType::F8E4M3 => 1.0 / 8.0,
        _ => 1e-6,
    };
    for (g, e) in got.iter().zip(&sums) {
        let near = (g - e).abs() <= step * e.abs() + 1e-6;
        assert!(near || same(g, e), "avg {what}: {g} not {e}");
    }
    assert_eq!(got.len(), sums.len(), "avg {what}");
}

#[test]
fn windows_and_layouts() {
    let d = device();
    for dtype in ALL {
        for (dims, taps, stride) in [
            ([1, 1, 4, 4], [2, 2], [2, 2]),
            ([2, 3, 5, 7], [3, 2], [1, 1]),
            ([3, 2, 9, 8], [2, 5], [3, 1]),
            ([2, 5, 3, 3], [3, 3], [1, 1 << 40]),
            ([1, 3, 6, 5], [1, 1], [1, 2]),
        ] {
            check(
                &d,
                dtype,
                &Table::whole(&d, dtype, 1, &dims, 9),
                taps,
                stride,
            );
            let [b, c, h, w] = dims;
            let swapped = Table::whole(&d, dtype, 2, &[b, w, h, c], 9).transposed(1, 3);
            check(&d, dtype, &swapped, taps, stride);
            let part = Table::whole(&d, dtype, 3, &[b + 1, c, h + 2, w + 1], 9);
            let part = part.narrowed(0, 1, b).narrowed(2, 1, h).narrowed(3, 1, w);
            check(&d, dtype, &part, taps, stride);
            let same = Table::whole(&d, dtype, 4, &[c, h, w], 9).repeated(0, b);
            check(&d, dtype, &same, taps, stride);
        }
    }
}

#[test]
fn nan_and_infinities() {
    let d = device();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows = [
        [nan, 1.0, 2.0, 3.0],
        [1.0, nan, 2.0, 0.5],
        [1.0, 2.0, 3.0, nan],
        [-inf, -1.0, -inf, inf],
        [-inf, -inf, -inf, -inf],
        [nan, nan, nan, nan],
    ];
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let x = Table::new(&d, dtype, &[6, 1, 1, 4], &rows.concat());
        check(&d, dtype, &x, [1, 4], [1, 1]);
        check(&d, dtype, &x, [1, 2], [1, 2]);
    }
}

#[test]
fn more_workgroups_than_a_dimension_has() {
    let d = device();
    let x = Table::whole(&d, DType::F32, 5, &[1, 1, 4100, 2100], 9);
    let y = d.max_pool2d(x.view(), [1, 1], [1, 1]).unwrap();
    assert!(read(&d, DType::F32, &y) == x.host);
}

#[test]
fn empty_and_wrong() {
    let d = device();
    let x = Table::whole(&d, DType::F32, 6, &[0, 3, 4, 4], 9);
    let y = d.avg_pool2d(x.view(), [2, 2], [2, 2]).unwrap();
    assert!(read(&d, DType::F32, &y).is_empty());
    let x = Table::whole(&d, DType::F32, 6, &[1, 3, 4, 4], 9);
    for (taps, stride) in [([5, 1], [1, 1]), ([0, 1], [1, 1]), ([1, 1], [1, 0])] {
        let failed = d.max_pool2d(x.view(), taps, stride).map(|_| ());
        assert!(matches!(failed, Err(Error::Invalid { .. })), "{failed:?}");
    }
}
