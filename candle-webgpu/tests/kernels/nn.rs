//! softmax, norms and rotary embeddings against plain loops in f64.

use candle_webgpu::kernel::attention::Attention;
use candle_webgpu::{DType, Device, Error, Recorder, Value};

use crate::table::{close, device, epsilon, read, Table, FLOATS};

/// Row counts and lengths that take every path: rows with and without whole quads, one or several rows per workgroup,
/// more workgroups than one grid dimension holds.
const ROWS: &[(usize, usize)] = &[
    (1, 1),
    (3, 1),
    (5, 2),
    (7, 3),
    (9, 4),
    (2, 5),
    (33, 7),
    (13, 64),
    (4, 127),
    (3, 1024),
    (2, 1030),
    (1, 4099),
    (2, 32000),
    (5001, 20),
    (5001, 9),
    (70_001, 6),
];

/// Layouts of (rows, n): contiguous, with an offset, transposed.
const LAYOUTS: [(&[usize], usize, usize); 4] = [
    (&[0, 1], 0, 0),
    (&[0, 1], 0, 3),
    (&[0, 1], 0, 8),
    (&[1, 0], 0, 1),
];

fn check_rows(
    what: &str,
    run: impl Fn(&Device, &Table) -> Value,
    row: impl Fn(&[f64]) -> Vec<f64>,
    slack: f64,
) {
    let d = device();
    for dtype in FLOATS {
        for &(rows, n) in ROWS {
            let layouts = if rows * n > 10_000 { 2 } else { 4 };
            for layout in &LAYOUTS[..layouts] {
                let x = Table::noise(&d, dtype, n as u64, &[rows, n], *layout);
                let got = read(&d, dtype, &run(&d, &x));
                let expected: Vec<f64> = x.elements().chunks(n).flat_map(&row).collect();
                close(
                    &format!("{what} {dtype} {rows} x {n} {layout:?}"),
                    &got,
                    &expected,
                    |i| epsilon(dtype) * expected[i].abs() + slack,
                );
            }
        }
    }
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

#[test]
fn softmax_rows() {
    let run = |d: &Device, x: &Table| d.softmax_last_dim(x.view()).unwrap();
    check_rows("softmax", run, softmax, 1e-6);
}

#[test]
fn softmax_of_infinities_and_far_values() {
    let d = device();
    let inf = f64::INFINITY;
    let rows: [[f64; 5]; 6] = [
        [-inf, 0.0, 1.0, -inf, 2.0],
        [-inf, -inf, -inf, -inf, 3.0],
        [-inf; 5],
        [1e4, 1e4, -1e4, 0.0, 0.0],
        [-6e4, -6e4, -6e4, -6e4, -inf],
        [f64::NAN, 0.0, 0.0, 0.0, 0.0],
    ];
    for dtype in FLOATS {
        let data: Vec<f64> = rows.concat();
        let x = Table::new(&d, dtype, &[6, 5], &data);
        let got = read(&d, dtype, &d.softmax_last_dim(x.view()).unwrap());
        let expected: Vec<f64> = x.elements().chunks(5).flat_map(softmax).collect();
        close(&format!("softmax {dtype}"), &got, &expected, |i| {
            epsilon(dtype) * expected[i].abs() + 1e-6
        });
    }
}

fn parameter(d: &Device, dtype: DType, n: usize, seed: u64, offset: usize) -> Table {
    Table::noise(d, dtype, seed, &[n], (&[0], 0, offset))
}

#[test]
fn rms_norm_rows() {
    for offset in [0, 4, 5] {
        let run = |d: &Device, x: &Table| {
            let alpha = parameter(d, x.view().dtype(), x.dims[1], 9, offset);
            d.rms_norm(x.view(), alpha.view(), 1e-5).unwrap()
        };
        let d = device();
        for dtype in FLOATS {
            for &(rows, n) in ROWS {
                let x = Table::noise(&d, dtype, n as u64, &[rows, n], LAYOUTS[rows % 4]);
                let alpha = parameter(&d, dtype, n, 9, offset).elements();
                let norm = |row: &[f64]| {
                    let mean = row.iter().map(|v| v * v).sum::<f64>() / n as f64;
                    let scale = 1.0 / (mean + 1e-5).sqrt();
                    let scaled = row.iter().zip(&alpha).map(|(v, a)| v * scale * a);
                    scaled.collect::<Vec<_>>()
                };
                let got = read(&d, dtype, &run(&d, &x));
                let expected: Vec<f64> = x.elements().chunks(n).flat_map(norm).collect();
                close(
                    &format!("rms_norm {dtype} {rows} x {n}"),
                    &got,
                    &expected,
                    |i| epsilon(dtype) * expected[i].abs() + 2e-6 * expected[i].abs() + 1e-7,
                );
            }
        }
    }
}

fn layer_norm(x: &[f64], alpha: &[f64], beta: &[f64], eps: f64) -> Vec<f64> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    let scale = 1.0 / (variance + eps).sqrt();
    let rows = x.iter().zip(alpha).zip(beta);
    rows.map(|((v, a), b)| (v - mean) * scale * a + b).collect()
}

#[test]
fn layer_norm_rows() {
    let d = device();
    for dtype in FLOATS {
        for &(rows, n) in ROWS {
            let offset = rows % 3 * 2;
            let x = Table::noise(&d, dtype, n as u64, &[rows, n], LAYOUTS[rows % 4]);
            let alpha = parameter(&d, dtype, n, 9, offset);
            let beta = parameter(&d, dtype, n, 10, offset);
            let y = d
                .layer_norm(x.view(), alpha.view(), beta.view(), 1e-5)
                .unwrap();
            let got = read(&d, dtype, &y);
            let (alpha, beta) = (alpha.elements(), beta.elements());
            let norm = |row: &[f64]| layer_norm(row, &alpha, &beta, 1e-5);
            let expected: Vec<f64> = x.elements().chunks(n).flat_map(norm).collect();
            // A short row with little variance magnifies the rounding of its mean.
            let slack = if n < 8 { 1e-4 } else { 1e-5 };
            close(
                &format!("layer_norm {dtype} {rows} x {n}"),
                &got,
                &expected,
                |i| epsilon(dtype) * expected[i].abs() + slack,
            );
        }
    }
}

/// A variance from sums of squares would lose all digits here.
#[test]
fn layer_norm_with_a_large_mean() {
    let d = device();
    let n = 512;
    let data: Vec<f64> = (0..n).map(|i| 10_000.0 + (i % 3) as f64).collect();
    let x = Table::new(&d, DType::F32, &[1, n], &data);
    let one = Table::new(&d, DType::F32, &[n], &vec![1.0; n]);
    let zero = Table::new(&d, DType::F32, &[n], &vec![0.0; n]);
    let y = d
        .layer_norm(x.view(), one.view(), zero.view(), 1e-5)
        .unwrap();
    let expected = layer_norm(&data, &vec![1.0; n], &vec![0.0; n], 1e-5);
    let got = read(&d, DType::F32, &y);
    close("layer_norm", &got, &expected, |_| 2e-3);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Rope {
    Halves,
    Neighbours,
    TimeSecond,
}

fn check_rope(d: &Device, kind: Rope, x: &Table, cos: &Table, sin: &Table) {
    let dtype = x.view().dtype();
    let op = match kind {
        Rope::Halves => Recorder::rope,
        Rope::Neighbours => Recorder::rope_i,
        Rope::TimeSecond => Recorder::rope_thd,
    };
    let y = op(d, x.view(), cos.view(), sin.view()).expect("a rotation");
    let mut expected = Vec::new();
    let half = x.dims[3] / 2;
    for b in 0..x.dims[0] {
        for i in 0..x.dims[1] {
            for j in 0..x.dims[2] {
                let t = if kind == Rope::TimeSecond { i } else { j };
                for c in 0..x.dims[3] {
                    let (angle, other, second) = match kind {
                        Rope::Neighbours => (c / 2, c ^ 1, c % 2 == 1),
                        _ => (c % half, (c + half) % (2 * half), c >= half),
                    };
                    let of = |v: &Table| match v.dims.len() {
                        2 => v.at(&[t, angle]),
                        _ => v.at(&[b, t, angle]),
                    };
                    let sign = if second { 1.0 } else { -1.0 };
                    let (u, v) = (x.at(&[b, i, j, c]), x.at(&[b, i, j, other]));
                    expected.push(u * of(cos) + sign * v * of(sin));
                }
            }
        }
    }
    let got = read(d, dtype, &y);
    let what = format!("{kind:?} {dtype} {:?}/{:?}+{}", x.dims, x.strides, x.offset);
    close(&what, &got, &expected, |i| {
        epsilon(dtype) * expected[i].abs() + 4e-7
    });
}

#[test]
fn rotary_embeddings() {
    let d = device();
    for dtype in FLOATS {
        for kind in [Rope::Halves, Rope::Neighbours, Rope::TimeSecond] {
            for dims in [[1, 1, 1, 2], [2, 3, 5, 6], [2, 5, 3, 16], [1, 4, 7, 64]] {
                let [b, _, _, n] = dims;
                let t = if kind == Rope::TimeSecond {
                    dims[1]
                } else {
                    dims[2]
                };
                for layout in [
                    ([0, 1, 2, 3], 0, 0),
                    ([0, 1, 2, 3], 0, 3),
                    ([0, 2, 1, 3], 0, 8),
                    ([3, 2, 1, 0], 0, 1),
                ] {
                    let x = Table::noise(&d, dtype, 1, &dims, (&layout.0, layout.1, layout.2));
                    for offset in [0, 4, 1] {
                        let plain = (&[0, 1][..], 0, offset);
                        let cos = Table::noise(&d, dtype, 2, &[t + 2, n / 2], plain);
                        let sin = Table::noise(&d, dtype, 3, &[t, n / 2], (&[1, 0], 0, 0));
                        check_rope(&d, kind, &x, &cos, &cos);
                        check_rope(&d, kind, &x, &cos, &sin);
                        let batched = (&[0, 1, 2][..], 0, offset);
                        let cos = Table::noise(&d, dtype, 4, &[b, t, n / 2], batched);
                        check_rope(&d, kind, &x, &cos, &cos);
                    }
                }
            }
        }
    }
}

/// f32 that may be rounded, against f32: within 4 units of 11 bits for values of magnitude at most 1.
#[test]
fn attention_of_reduced_precision() {
    let d = Device::separate(0).expect("an adapter (a software one will do)");
    let how = Attention {
        causal: true,
        scale: 0.125,
        softcapping: 1.,
    };
    for (keys, n) in [(40, 64), (70, 128), (33, 96)] {
        let of = |seed| Table::contiguous(&d, DType::F32, seed, &[2, 3, keys, n]);
        let (q, k, v) = (of(1), of(2), of(3));
        let attend = |reduced| {
            d.set_gemm_reduced_precision_f32(reduced).unwrap();
            let y = d.sdpa([q.view(), k.view(), v.view()], None, how).unwrap();
            read(&d, DType::F32, &y)
        };
        let (rounded, exact) = (attend(true), attend(false));
        close("reduced precision", &rounded, &exact, |_| 4. / 2048.);
        assert_eq!(rounded != exact, d.cooperative_attention(), "{keys} {n}");
    }
}

#[test]
fn empty_inputs() {
    let d = device();
    let x = Table::contiguous(&d, DType::F32, 1, &[0, 8]);
    let one = Table::contiguous(&d, DType::F32, 1, &[8]);
    d.softmax_last_dim(x.view()).unwrap();
    d.rms_norm(x.view(), one.view(), 1e-5).unwrap();
    let x = Table::contiguous(&d, DType::F32, 1, &[3, 0]);
    d.softmax_last_dim(x.view()).unwrap();
    let x = Table::contiguous(&d, DType::F32, 1, &[1, 2, 0, 8]);
    let angles = Table::contiguous(&d, DType::F32, 1, &[3, 4]);
    d.rope(x.view(), angles.view(), angles.view()).unwrap();
    d.synchronize().unwrap();
}

#[test]
fn refusals() {
    let d = device();
    let x = Table::contiguous(&d, DType::F32, 1, &[2, 8]);
    let short = Table::contiguous(&d, DType::F32, 1, &[7]);
    let refused = d.rms_norm(x.view(), short.view(), 1e-5);
    assert!(matches!(
        refused,
        Err(Error::Invalid { op: "rms_norm", .. })
    ));
    let refused = d.softmax_last_dim(x.view().with_dtype(DType::U32));
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    let refused = d.rope(x.view(), x.view(), x.view());
    assert!(matches!(refused, Err(Error::Invalid { op: "rope", .. })));
}
