//! Convolutions against plain loops: every kernel, layout and edge. Small whole numbers make every sum exact, so that
//! only the rounding to the dtype remains.

use candle_webgpu::kernel::conv::ConvParams;
use candle_webgpu::{DType, Device, Error, View};

use crate::table::{decode, device, encode, read, Table};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// (stride, padding, dilation, output padding)
fn window((stride, padding, dilation, output_padding): (usize, usize, usize, usize)) -> ConvParams {
    ConvParams {
        stride,
        padding,
        dilation,
        output_padding,
    }
}

/// Rounds to the dtype; u8 wraps.
fn rounded(dtype: DType, v: &[f64]) -> Vec<f64> {
    let wrapped: Vec<f64> = match dtype {
        DType::U8 => v.iter().map(|v| f64::from(*v as u64 as u8)).collect(),
        _ => v.to_vec(),
    };
    decode(dtype, &encode(dtype, &wrapped))
}

fn compare(what: &str, d: &Device, dtype: DType, y: candle_webgpu::Value, expected: &[f64]) {
    let got = read(d, dtype, &y);
    let expected = rounded(dtype, expected);
    assert_eq!(got.len(), expected.len(), "{what}: size");
    for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
        assert_eq!(g, e, "{what}: element {i} of {}", got.len());
    }
}

/// Index of a view of three or four dims.
fn at(t: &Table, [a, b, h, w]: [usize; 4]) -> f64 {
    if t.dims.len() == 3 {
        t.at(&[a, b, w])
    } else {
        t.at(&[a, b, h, w])
    }
}

fn sizes(t: &Table) -> [usize; 4] {
    match t.dims[..] {
        [a, b, w] => [a, b, 1, w],
        _ => [t.dims[0], t.dims[1], t.dims[2], t.dims[3]],
    }
}

/// Every (output, input, tap) triple of positions along one dim.
fn connections(
    size: usize,
    taps: usize,
    out: usize,
    w: ConvParams,
    transposed: bool,
) -> Vec<[usize; 3]> {
    let mut all = Vec::new();
    for [i, s, t] in
        (0..out).flat_map(|o| (0..size).flat_map(move |s| (0..taps).map(move |t| [o, s, t])))
    {
        let (fine, coarse) = if transposed { (i, s) } else { (s, i) };
        if fine + w.padding == coarse * w.stride + t * w.dilation {
            all.push([i, s, t]);
        }
    }
    all
}

fn check(d: &Device, dtype: DType, x: &Table, k: &Table, w: ConvParams, transposed: bool) {
    let [b, c, ih, iw] = sizes(x);
    let [k0, k1, kh, kw] = sizes(k);
    let o = if transposed { k1 } else { k0 };
    let span = |taps: usize| (taps - 1) * w.dilation + 1;
    let out = |size: usize, taps: usize| match transposed {
        true => (size - 1) * w.stride + span(taps) + w.output_padding - 2 * w.padding,
        false => (size + 2 * w.padding - span(taps)) / w.stride + 1,
    };
    let still = ConvParams {
        stride: 1,
        padding: 0,
        dilation: 1,
        output_padding: 0,
    };
    let (oh, wh) = if x.dims.len() == 3 {
        (1, still)
    } else {
        (out(ih, kh), w)
    };
    let ow = out(iw, kw);
    let rows = connections(ih, kh, oh, wh, transposed);
    let cols = connections(iw, kw, ow, w, transposed);
    let mut expected = vec![0.0; b * o * oh * ow];
    for (bi, oi) in (0..b).flat_map(|b| (0..o).map(move |o| (b, o))) {
        for ([y, sy, ty], [v, sx, tx]) in
            rows.iter().flat_map(|r| cols.iter().map(move |c| (*r, *c)))
        {
            let sum = &mut expected[((bi * o + oi) * oh + y) * ow + v];
            for ci in 0..c {
                let [first, second] = if transposed { [ci, oi] } else { [oi, ci] };
                *sum += at(x, [bi, ci, sy, sx]) * at(k, [first, second, ty, tx]);
            }
        }
    }
    let what = format!(
        "{dtype} {:?}/{:?}+{} by {:?}/{:?}+{} {w:?} {transposed}",
        x.dims, x.strides, x.offset, k.dims, k.strides, k.offset
    );
    let y = match transposed {
        true => d.conv_transpose(x.view(), k.view(), w),
        false => d.conv(x.view(), k.view(), w),
    };
    compare(
        &what,
        d,
        dtype,
        y.unwrap_or_else(|e| panic!("{what}: {e}")),
        &expected,
    );
}

/// Contiguous; channels innermost; an offset and gaps; a stride of 0 for the batch.
fn layouts(d: &Device, dtype: DType, seed: u64, dims: &[usize]) -> Vec<Table> {
    let last = dims.len() - 1;
    let mut swapped = dims.to_vec();
    swapped.swap(1, last);
    let mut wide = dims.to_vec();
    wide[last] += 3;
    wide[0] += 1;
    vec![
        Table::whole(d, dtype, seed, dims, 2),
        Table::whole(d, dtype, seed + 1, &swapped, 2).transposed(1, last),
        Table::whole(d, dtype, seed + 2, &wide, 2)
            .narrowed(last, 1, dims[last])
            .narrowed(0, 1, dims[0]),
        Table::whole(d, dtype, seed + 3, &dims[1..], 2).repeated(0, dims[0]),
    ]
}

type Case<'a> = (&'a [usize], &'a [usize], (usize, usize, usize, usize));

fn check_layouts(dtype: DType, (x, k, w): Case<'_>, transposed: bool) {
    let d = device();
    let (inputs, kernels) = (layouts(&d, dtype, 1, x), layouts(&d, dtype, 11, k));
    for (x, k) in inputs
        .iter()
        .zip(&kernels)
        .chain(inputs.iter().zip(kernels.iter().skip(1)))
    {
        check(&d, dtype, x, k, window(w), transposed);
    }
}

#[test]
fn convolution() {
    let cases: &[Case<'_>] = &[
        // few channels
        (&[1, 1, 4, 4], &[1, 1, 3, 3], (1, 0, 1, 0)),
        (&[2, 3, 5, 7], &[2, 3, 2, 3], (1, 1, 1, 0)),
        (&[3, 4, 9, 6], &[4, 4, 3, 1], (2, 2, 2, 0)),
        // tiles
        (&[2, 4, 8, 8], &[8, 4, 3, 3], (1, 1, 1, 0)),
        (&[3, 3, 7, 5], &[9, 3, 3, 3], (2, 1, 1, 0)),
        (&[2, 5, 10, 9], &[33, 5, 2, 4], (3, 3, 2, 0)),
        (&[5, 8, 3, 3], &[6, 8, 3, 3], (1, 0, 1, 0)),
        (&[1, 1, 20, 20], &[70, 1, 5, 5], (1, 2, 1, 0)),
        (&[2, 20, 6, 11], &[12, 20, 1, 3], (1, 4, 1, 0)),
        // one tap
        (&[2, 6, 8, 8], &[10, 6, 1, 1], (1, 0, 1, 0)),
        (&[1, 6, 5, 4], &[3, 6, 1, 1], (1, 0, 3, 0)),
        (&[7, 9, 1, 1], &[5, 9, 1, 1], (1, 0, 1, 0)),
        (&[3, 9, 3, 2], &[5, 9, 1, 1], (1, 0, 1, 0)),
        (&[2, 6, 9, 9], &[7, 6, 1, 1], (2, 0, 1, 0)),
        (&[2, 6, 9, 9], &[7, 6, 1, 1], (5, 3, 1, 0)),
        // lines
        (&[1, 1, 9], &[1, 1, 3], (1, 0, 1, 0)),
        (&[2, 8, 33], &[16, 8, 3], (2, 1, 1, 0)),
        (&[3, 5, 16], &[7, 5, 4], (1, 6, 3, 0)),
        (&[2, 12, 40], &[6, 12, 1], (3, 0, 1, 0)),
    ];
    for dtype in FLOATS {
        for case in cases {
            check_layouts(dtype, *case, false);
        }
    }
    for case in &cases[..5] {
        check_layouts(DType::F64, *case, false);
    }
}

#[test]
fn transposed() {
    let cases: &[Case<'_>] = &[
        (&[1, 1, 4, 4], &[1, 1, 3, 3], (1, 0, 1, 0)),
        (&[2, 4, 3, 5], &[4, 2, 3, 2], (2, 1, 1, 1)),
        (&[2, 4, 8, 8], &[4, 8, 4, 4], (2, 1, 1, 0)),
        (&[3, 3, 7, 5], &[3, 9, 3, 3], (3, 2, 2, 2)),
        (&[2, 5, 4, 9], &[5, 33, 2, 4], (1, 1, 3, 0)),
        (&[2, 6, 8, 8], &[6, 10, 1, 1], (1, 0, 1, 0)),
        (&[2, 6, 4, 4], &[6, 10, 1, 1], (2, 0, 1, 1)),
        (&[3, 5, 16], &[5, 7, 4], (2, 3, 2, 1)),
        (&[2, 8, 9], &[8, 3, 8], (4, 2, 1, 3)),
    ];
    for dtype in FLOATS {
        for case in cases {
            check_layouts(dtype, *case, true);
        }
    }
    for dtype in [
        DType::U8,
        DType::U32,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F64,
        DType::F8E4M3,
    ] {
        for case in &cases[..4] {
            check_layouts(dtype, *case, true);
        }
        check_layouts(dtype, cases[7], true);
    }
}

#[test]
fn large_tiles() {
    let d = device();
    for dtype in FLOATS {
        for (x, k) in [
            ([2, 3, 81, 80], [130, 3, 3, 3]),
            ([3, 4, 65, 67], [70, 4, 1, 3]),
        ] {
            let x = Table::whole(&d, dtype, 5, &x, 2);
            let k = Table::whole(&d, dtype, 6, &k, 2);
            check(&d, dtype, &x, &k, window((1, 1, 1, 0)), false);
        }
    }
}

#[test]
fn more_workgroups_than_a_dimension_has() {
    let d = device();
    // The conformance suite has such a case for conv_direct, whose threads compute four positions each.
    let n = 4_200_200;
    // A workgroup computes six channels of 64 positions.
    let x = Table::whole(&d, DType::F32, 9, &[1, 1, n], 3);
    let k = Table::whole(&d, DType::F32, 10, &[6, 1, 2], 3);
    let expected: Vec<f64> = (0..6)
        .flat_map(|o| x.host.windows(2).map(move |v| (v, o)))
        .map(|(v, o)| v[0] * k.host[2 * o] + v[1] * k.host[2 * o + 1])
        .collect();
    let y = d.conv(x.view(), k.view(), window((1, 0, 1, 0))).unwrap();
    compare("tiles", &d, DType::F32, y, &expected);
}

#[test]
fn empty_sums() {
    let d = device();
    let none = window((1, 1, 1, 0));
    let x = |dims: &[usize]| Table::whole(&d, DType::F32, 1, dims, 2);
    let run =
        |a: &Table, k: &Table| read(&d, DType::F32, &d.conv(a.view(), k.view(), none).unwrap());
    assert!(run(&x(&[0, 2, 4, 4]), &x(&[8, 2, 3, 3])).is_empty());
    assert!(run(&x(&[2, 2, 4, 4]), &x(&[0, 2, 3, 3])).is_empty());
    assert_eq!(run(&x(&[1, 0, 2, 2]), &x(&[5, 0, 3, 3])), [0.0; 20]);
    assert_eq!(run(&x(&[1, 3, 0, 2]), &x(&[2, 3, 1, 3])), [0.0; 8]);
}

#[test]
fn invalid_calls_are_errors() {
    let d = device();
    let x = |dims: &[usize]| Table::whole(&d, DType::F32, 1, dims, 2);
    let conv =
        |a: &[usize], k: &[usize], w| d.conv(x(a).view(), x(k).view(), window(w)).map(|_| ());
    let back = |a: &[usize], k: &[usize], w| {
        d.conv_transpose(x(a).view(), x(k).view(), window(w))
            .map(|_| ())
    };
    for failed in [
        conv(&[1, 2, 3, 3], &[1, 2, 4, 1], (1, 0, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 3, 1, 1], (1, 0, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 2, 2], (0, 0, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 2, 2], (1, usize::MAX, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 2, 2], (1, 1 << 31, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 2, 2], (1, 1, usize::MAX, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 0, 2], (1, 1, 1, 0)),
        conv(&[1, 2, 3, 3], &[1, 2, 2], (1, 1, 1, 0)),
        conv(&[1, 2], &[1, 2], (1, 1, 1, 0)),
        back(&[1, 2, 3, 3], &[2, 2, 2, 2], (1, 3, 1, 0)),
        back(&[1, 2, 0, 3], &[2, 2, 2, 2], (1, 0, 1, 0)),
        back(&[1, 2, 3, 3], &[2, 2, 2, 2], (usize::MAX, 0, 1, 0)),
    ] {
        assert!(matches!(failed, Err(Error::Invalid { .. })), "{failed:?}");
    }
    // A stride or a dilation that is never used may have any size.
    assert!(conv(&[1, 2, 3, 3], &[1, 2, 3, 3], (1 << 30, 0, 1, 0)).is_ok());
    assert!(conv(&[1, 2, 3, 3], &[9, 2, 1, 1], (1, 0, usize::MAX, 0)).is_ok());
    let ints = Table::whole(&d, DType::U32, 1, &[1, 1, 3, 3], 2);
    let failed = d.conv(ints.view(), ints.view(), window((1, 0, 1, 0)));
    assert!(matches!(
        failed,
        Err(Error::Unsupported {
            op: "conv2d",
            dtype: "u32"
        })
    ));
}

/// A grouped convolution equals one convolution per group, and is left to those if the groups are wide.
#[test]
fn groups() {
    let d = device();
    // Channels in, channels out, groups.
    let cases = [[6, 6, 6], [4, 8, 2], [6, 9, 3], [5, 5, 5], [4, 64, 2]];
    for dtype in FLOATS.into_iter().chain([DType::F64]) {
        for [c, o, groups] in cases {
            for (x, k) in [
                (vec![2, c, 9], vec![o, c / groups, 3]),
                (vec![2, c, 5, 7], vec![o, c / groups, 2, 3]),
            ] {
                let what = format!("{dtype} {x:?} by {k:?} in {groups}");
                let w = window((2, 1, 1, 0));
                let (inputs, kernels) = (layouts(&d, dtype, 1, &x), layouts(&d, dtype, 11, &k));
                for (x, k) in inputs.iter().zip(&kernels).take(3) {
                    let whole = d.conv_grouped(x.view(), k.view(), w, groups).unwrap();
                    let Some(whole) = whole else {
                        assert_eq!(o / groups, 32, "{what}");
                        continue;
                    };
                    let (mut parts, batch) = (vec![Vec::new(); 2], 2);
                    for group in 0..groups {
                        let part = |t: &Table, dim: usize| {
                            let len = t.dims[dim] / groups;
                            let strides = t.strides.clone();
                            let mut dims = t.dims.clone();
                            dims[dim] = len;
                            (dims, strides, t.offset + group * len * t.strides[dim])
                        };
                        let ((xd, xs, xo), (kd, ks, ko)) = (part(x, 1), part(k, 0));
                        let of =
                            |t: &'static str, value, layout| View::new(t, value, dtype, layout);
                        let x = of("x", &x.value, (&xd, &xs, xo)).unwrap();
                        let k = of("k", &k.value, (&kd, &ks, ko)).unwrap();
                        let y = d.conv(x, k, w);
                        let y = read(&d, dtype, &y.unwrap());
                        for (b, of) in y.chunks(y.len() / batch).enumerate() {
                            parts[b].extend(of);
                        }
                    }
                    compare(&what, &d, dtype, whole, &parts.concat());
                }
            }
        }
    }
    let x = Table::whole(&d, DType::F32, 1, &[1, 4, 8], 2);
    let w = Table::whole(&d, DType::F32, 2, &[3, 2, 3], 2);
    let refused = d.conv_grouped(x.view(), w.view(), window((1, 0, 1, 0)), 2);
    assert!(matches!(refused, Err(Error::Invalid { .. })));
}
