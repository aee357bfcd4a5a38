//! matmul against plain loops in f64: every kernel, layout and edge.

use candle_webgpu::{DType, Device, Error};

use crate::table::{close, device, epsilon, read, Table, FLOATS};

/// Multiplies on the device and checks every element, with a bound from its sum of magnitudes.
fn check(d: &Device, dtype: DType, a: &Table, b: &Table) {
    check_terms(d, dtype, a, b, 8.0 * f64::from(f32::EPSILON));
}

/// The same with a bound of `rounding` for each term of the sum, relative to its magnitude.
fn check_terms(d: &Device, dtype: DType, a: &Table, b: &Table, rounding: f64) {
    let r = a.dims.len();
    let (m, k, n) = (a.dims[r - 2], a.dims[r - 1], b.dims[r - 1]);
    let batch: usize = a.dims[..r - 2].iter().product();
    let what = format!(
        "{dtype} {:?}/{:?}+{} times {:?}/{:?}+{}",
        a.dims, a.strides, a.offset, b.dims, b.strides, b.offset
    );
    let y = d
        .matmul(a.view(), b.view(), (batch, m, n, k))
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let got = read(d, dtype, &y);
    let (left, right) = (a.elements(), b.elements());
    let mut expected = Vec::with_capacity(got.len());
    let mut sizes = Vec::with_capacity(got.len());
    for i in 0..batch {
        for row in 0..m {
            for col in 0..n {
                let term = |j| left[(i * m + row) * k + j] * right[(i * k + j) * n + col];
                expected.push((0..k).map(term).sum::<f64>());
                sizes.push((0..k).map(|j| term(j).abs()).sum::<f64>());
            }
        }
    }
    close(&what, &got, &expected, |i| {
        rounding * sizes[i] + epsilon(dtype) * expected[i].abs() + 1e-7
    });
}

/// Both matrices row-major and column-major, aligned and not.
fn check_layouts(d: &Device, dtype: DType, batch: usize, (m, k, n): (usize, usize, usize)) {
    let rows: &[usize] = &[0, 1, 2];
    let cols: &[usize] = &[0, 2, 1];
    for (i, layout) in [
        [(rows, 0, 0), (rows, 0, 0)],
        [(rows, 0, 0), (cols, 0, 0)],
        [(cols, 0, 0), (rows, 0, 0)],
        [(cols, 0, 8), (cols, 8, 16)],
        [(rows, 3, 1), (cols, 1, 3)],
        [(cols, 1, 2), (rows, 2, 1)],
        [(&[1, 0, 2], 0, 0), (&[1, 2, 0], 0, 0)],
    ]
    .into_iter()
    .enumerate()
    {
        let a = Table::noise(d, dtype, i as u64, &[batch, m, k], layout[0]);
        let b = Table::noise(d, dtype, 100 + i as u64, &[batch, k, n], layout[1]);
        check(d, dtype, &a, &b);
    }
}

#[test]
fn few_rows() {
    let d = device();
    for dtype in FLOATS {
        for m in [1, 2, 3, 4, 5, 8] {
            check_layouts(&d, dtype, 2, (m, 64, 48));
            check_layouts(&d, dtype, 1, (m, 37, 33));
        }
    }
}

#[test]
fn one_row_of_many_shapes() {
    let d = device();
    for dtype in FLOATS {
        for k in [1, 2, 7, 8, 65, 520, 1024] {
            for n in [1, 2, 3, 31, 64, 130] {
                check_layouts(&d, dtype, 1, (1, k, n));
            }
        }
    }
}

#[test]
fn many_columns() {
    let d = device();
    for dtype in FLOATS {
        let a = Table::contiguous(&d, dtype, 1, &[1, 520]);
        let b = Table::noise(&d, dtype, 2, &[520, 9001], (&[1, 0], 0, 0));
        check(&d, dtype, &a, &b);
        let a = Table::contiguous(&d, dtype, 1, &[7, 520]);
        check(&d, dtype, &a, &b);
    }
}

#[test]
fn tiles() {
    let d = device();
    for dtype in FLOATS {
        check_layouts(&d, dtype, 2, (64, 32, 64));
        check_layouts(&d, dtype, 1, (65, 33, 67));
        check_layouts(&d, dtype, 3, (9, 18, 21));
        check_layouts(&d, dtype, 1, (40, 1, 5));
        check_layouts(&d, dtype, 1, (33, 5, 1));
    }
}

#[test]
fn few_tiles_and_a_long_k() {
    let d = device();
    for dtype in FLOATS {
        check_layouts(&d, dtype, 1, (12, 1024, 70));
        check_layouts(&d, dtype, 1, (40, 272, 64));
        check_layouts(&d, dtype, 2, (10, 256, 9));
    }
}

#[test]
fn large_tiles() {
    let d = device();
    for dtype in FLOATS {
        check_layouts(&d, dtype, 43, (260, 20, 200));
    }
    check_layouts(&d, DType::F32, 64, (131, 17, 250));
}

/// f32 with operands that may be rounded: within half a unit of 11 bits each, short sums exact, and all exact again afterwards.
#[test]
fn reduced_precision() {
    let d = Device::separate(0).expect("an adapter (a software one will do)");
    assert!(!d.gemm_reduced_precision_f32());
    let layouts: [(&[usize], _); 3] = [(&[0, 1], 0), (&[1, 0], 0), (&[0, 1], 3)];
    for (i, (m, k, n)) in [(40, 96, 72), (300, 104, 68), (65, 65, 20), (64, 4, 64)]
        .into_iter()
        .enumerate()
    {
        for (order, pad) in layouts {
            let a = Table::noise(&d, DType::F32, i as u64, &[m, k], (&[0, 1], 0, 0));
            let b = Table::noise(&d, DType::F32, 9, &[k, n], (order, pad, 0));
            d.set_gemm_reduced_precision_f32(true).unwrap();
            check_terms(&d, DType::F32, &a, &b, 2.0 / 2048.0);
            let multiply = || d.matmul(a.view(), b.view(), (1, m, n, k)).unwrap();
            let rounded = read(&d, DType::F32, &multiply());
            d.set_gemm_reduced_precision_f32(false).unwrap();
            check(&d, DType::F32, &a, &b);
            let rounds = k >= 64 && k % 4 + n % 4 + pad == 0;
            let changes = rounded != read(&d, DType::F32, &multiply());
            assert_eq!(changes, d.cooperative() && rounds, "{m} {k} {n} {order:?}");
        }
    }
}

#[test]
fn a_weight_for_the_whole_batch() {
    let d = device();
    for dtype in FLOATS {
        for (b, m) in [(1, 1), (4, 1), (3, 2), (2, 40), (5, 7)] {
            for order in [&[0, 1, 2], &[1, 0, 2], &[0, 2, 1]] {
                let x = Table::noise(&d, dtype, 3, &[b, m, 24], (order, 0, 0));
                let mut w = Table::noise(&d, dtype, 4, &[24, 20], (&[1, 0], 0, 0));
                w.dims.insert(0, b);
                w.strides.insert(0, 0);
                check(&d, dtype, &x, &w);
            }
        }
    }
}

#[test]
fn batch_dims_that_do_not_merge() {
    let d = device();
    for dtype in FLOATS {
        let order = &[1, 3, 0, 2, 4, 5];
        let dims = &[2, 3, 2, 2];
        for (m, k, n) in [(3, 8, 10), (20, 8, 12)] {
            let a = Table::noise(&d, dtype, 5, &[dims, &[m, k][..]].concat(), (order, 0, 0));
            let b = Table::contiguous(&d, dtype, 6, &[dims, &[k, n][..]].concat());
            check(&d, dtype, &a, &b);
        }
    }
}

#[test]
fn more_groups_than_a_dimension_of_the_grid() {
    let d = device();
    for (m, k, n) in [(1, 3, 1), (1, 1, 4), (9, 2, 1)] {
        let a = Table::contiguous(&d, DType::F32, 7, &[70_000, m, k]);
        let b = Table::contiguous(&d, DType::F32, 8, &[70_000, k, n]);
        check(&d, DType::F32, &a, &b);
    }
}

#[test]
fn empty_sums() {
    let d = device();
    let a = Table::contiguous(&d, DType::F16, 7, &[3, 0]);
    let b = Table::contiguous(&d, DType::F16, 8, &[0, 5]);
    check(&d, DType::F16, &a, &b);
}

#[test]
fn refusals() {
    let d = device();
    let a = Table::contiguous(&d, DType::F32, 7, &[3, 4]);
    let b = Table::contiguous(&d, DType::F32, 8, &[5, 6]);
    let refused = d.matmul(a.view(), b.view(), (1, 3, 6, 4));
    assert!(matches!(refused, Err(Error::Invalid { op: "matmul", .. })));
    let bits = a.view().with_dtype(DType::U32);
    let refused = d.matmul(bits, bits, (1, 3, 6, 4));
    assert!(matches!(
        refused,
        Err(Error::Unsupported {
            op: "matmul",
            dtype: "u32"
        })
    ));
}
