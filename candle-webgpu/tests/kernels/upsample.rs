//! Upsampling against plain loops in f64.

use candle_webgpu::kernel::pool::upsample::Corners;
use candle_webgpu::{DType, Device, Error};

use crate::table::{decode, device, encode, indices, read, Table, ALL};

fn layouts(d: &Device, dtype: DType, [b, c, h, w]: [usize; 4]) -> Vec<Table> {
    vec![
        Table::whole(d, dtype, 1, &[b, c, h, w], 99),
        Table::whole(d, dtype, 2, &[b, w, h, c], 99).transposed(1, 3),
        Table::whole(d, dtype, 3, &[b + 1, c, h + 2, w + 1], 99)
            .narrowed(0, 1, b)
            .narrowed(2, 1, h)
            .narrowed(3, 1, w),
        Table::whole(d, dtype, 4, &[c, h, w], 99).repeated(0, b),
    ]
}

const SIZES: [([usize; 4], [usize; 2]); 6] = [
    ([1, 1, 2, 2], [4, 4]),
    ([2, 3, 3, 5], [7, 9]),
    ([1, 2, 9, 4], [3, 8]),
    ([3, 1, 1, 1], [3, 3]),
    ([2, 2, 5, 6], [1, 11]),
    // In f64, 49 * (2 / 98) is less than 1.
    ([1, 1, 2, 3], [98, 3]),
];

#[test]
fn nearest() {
    let d = device();
    for dtype in ALL {
        for (dims, out) in SIZES {
            for x in layouts(&d, dtype, dims) {
                let from = |i: usize, k: usize| {
                    let scale = dims[2 + k] as f64 / out[k] as f64;
                    ((i as f64 * scale) as usize).min(dims[2 + k] - 1)
                };
                let expected: Vec<f64> = indices(&[dims[0], dims[1], out[0], out[1]])
                    .iter()
                    .map(|i| x.at(&[i[0], i[1], from(i[2], 0), from(i[3], 1)]))
                    .collect();
                let y = d.upsample_nearest2d(x.view(), out).unwrap();
                assert_eq!(read(&d, dtype, &y), expected, "{dtype} {dims:?} to {out:?}");
            }
        }
        let x = Table::whole(&d, dtype, 5, &[2, 3, 7], 99).transposed(0, 1);
        let expected: Vec<f64> = indices(&[3, 2, 21])
            .iter()
            .map(|i| x.at(&[i[0], i[1], (i[2] as f64 * (7.0 / 21.0)) as usize]))
            .collect();
        let y = d.upsample_nearest1d(x.view(), 21).unwrap();
        assert_eq!(read(&d, dtype, &y), expected, "{dtype}, a line");
    }
}

/// The two neighbours and the weight of the second.
fn between(i: usize, size: usize, out: usize, corners: Corners, k: usize) -> (usize, usize, f64) {
    let at = match corners {
        Corners::Aligned if out == 1 => 0.0,
        Corners::Aligned => (size - 1) as f64 / (out - 1) as f64 * i as f64,
        Corners::Areas(scales) => {
            let scale = scales[k].map_or(size as f64 / out as f64, |s| 1.0 / s);
            (scale * (i as f64 + 0.5) - 0.5).max(0.0)
        }
    };
    let low = (at as usize).min(size - 1);
    (
        low,
        (low + 1).min(size - 1),
        (at - low as f64).clamp(0.0, 1.0),
    )
}

#[test]
fn bilinear() {
    let d = device();
    for dtype in ALL {
        let step = match dtype {
            DType::F32 => 1e-6,
            DType::F16 => 1.0 / 1024.0,
            DType::Bf16 => 1.0 / 128.0,
            DType::F8E4M3 => 1.0 / 8.0,
            // In f64 on both sides.
            _ => 0.0,
        };
        for (dims, out) in SIZES {
            for corners in [
                Corners::Aligned,
                Corners::Areas([None, None]),
                Corners::Areas([Some(1.7), Some(2.3)]),
            ] {
                for x in layouts(&d, dtype, dims) {
                    let y = d.upsample_bilinear2d(x.view(), out, corners).unwrap();
                    let got = read(&d, dtype, &y);
                    let all = indices(&[dims[0], dims[1], out[0], out[1]]);
                    assert_eq!(got.len(), all.len());
                    for (i, g) in all.iter().zip(got) {
                        let (h0, h1, wh) = between(i[2], dims[2], out[0], corners, 0);
                        let (w0, w1, ww) = between(i[3], dims[3], out[1], corners, 1);
                        let v = |h, w| x.at(&[i[0], i[1], h, w]);
                        let top = v(h0, w0) * (1.0 - ww) + v(h0, w1) * ww;
                        let low = v(h1, w0) * (1.0 - ww) + v(h1, w1) * ww;
                        let e = top * (1.0 - wh) + low * wh;
                        let e = if dtype.is_float() {
                            e
                        } else {
                            decode(dtype, &encode(dtype, &[e]))[0]
                        };
                        let near = g == e
                            || (step > 0.0
                                && (g - e).abs() <= step * e.abs() + step / 100.0 + 3e-5);
                        assert!(
                            near,
                            "{dtype} {dims:?} to {out:?} {corners:?} {i:?}: {g} not {e}"
                        );
                    }
                }
            }
        }
        // The same size is a copy, whatever the layout.
        let x = Table::whole(&d, dtype, 6, &[1, 2, 4, 3], 99).transposed(2, 3);
        let y = d
            .upsample_bilinear2d(x.view(), [3, 4], Corners::Aligned)
            .unwrap();
        let expected: Vec<f64> = indices(&[1, 2, 3, 4]).iter().map(|i| x.at(i)).collect();
        assert_eq!(read(&d, dtype, &y), expected);
    }
}

#[test]
fn more_workgroups_than_a_dimension_has() {
    let d = device();
    let x = Table::whole(&d, DType::U8, 7, &[1, 1, 2, 2], 99);
    let y = d.upsample_nearest2d(x.view(), [6000, 6000]).unwrap();
    let got = read(&d, DType::U8, &y);
    let wrong = (0..36_000_000).find(|i| got[*i] != x.host[i / 6000 / 3000 * 2 + i % 6000 / 3000]);
    assert_eq!(wrong, None);
}

#[test]
fn empty_and_wrong() {
    let d = device();
    let none = Table::whole(&d, DType::F32, 8, &[1, 2, 0, 3], 9);
    let y = d.upsample_nearest2d(none.view(), [0, 5]).unwrap();
    assert!(read(&d, DType::F32, &y).is_empty());
    let failed = d.upsample_nearest2d(none.view(), [2, 5]).map(|_| ());
    assert!(matches!(failed, Err(Error::Invalid { .. })), "{failed:?}");
}
