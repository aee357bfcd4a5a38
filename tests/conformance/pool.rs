//! Pooling and upsampling: windows, strides, sizes, layouts and dtypes.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

use crate::bound::{close, floats, Bound, EXACT, SUM};
use crate::case::Cases;
use crate::input::{check, same, tensor, Fill, Operand, ALL, FLOATS, INTS};

/// Interpolation between two numbers of magnitude at most 2.
const BLEND: Bound = Bound {
    abs: 1e-6,
    rel: 1e-6,
    ulps: 1,
};

/// (2, 3, 8, 9): contiguous, permuted, with an offset and gaps, and repeated.
fn images(dtype: DType, fill: Fill) -> Result<[Operand; 4]> {
    let x = |dims: &[usize]| tensor(dtype, dims, 221, fill);
    Ok([
        Operand::of(x(&[2, 3, 8, 9])?),
        Operand::viewed(x(&[9, 2, 8, 3])?, |t| t.permute((1, 3, 2, 0))),
        Operand::viewed(x(&[3, 3, 9, 13])?, |t| {
            t.narrow(0, 1, 2)?.narrow(2, 1, 8)?.narrow(3, 3, 9)
        }),
        Operand::viewed(x(&[1, 3, 1, 9])?, |t| t.broadcast_as((2, 3, 8, 9))),
    ])
}

const WINDOWS: [((usize, usize), (usize, usize)); 5] = [
    ((2, 2), (2, 2)),
    ((3, 3), (1, 1)),
    ((1, 4), (3, 2)),
    ((8, 9), (1, 1)),
    ((1, 1), (2, 3)),
];

const SIZES: [(usize, usize); 5] = [(16, 18), (5, 4), (8, 27), (1, 1), (13, 9)];

pub fn add(cases: &mut Cases) {
    for dtype in ALL {
        let name = dtype.as_str();
        cases.add(format!("pool/max/{name}"), move |d| {
            for x in images(dtype, Fill::Special)? {
                for (k, s) in WINDOWS {
                    same(d, std::slice::from_ref(&x), EXACT, |t| {
                        t[0].max_pool2d_with_stride(k, s)
                    })?;
                }
            }
            Ok(())
        });
        cases.add(format!("upsample/nearest/{name}"), move |d| {
            for x in images(dtype, Fill::Special)? {
                for (h, w) in SIZES {
                    same(d, std::slice::from_ref(&x), EXACT, |t| {
                        t[0].upsample_nearest2d(h, w)
                    })?;
                }
                same(d, &[x], EXACT, |t| {
                    t[0].flatten(1, 2)?.upsample_nearest1d(20)
                })?;
            }
            Ok(())
        });
    }
    for dtype in INTS {
        cases.add(format!("pool/avg/{}", dtype.as_str()), move |d| {
            // The CPU's integer factor of a window with two or more elements is 0.
            for x in images(dtype, Fill::Ties)? {
                for (k, s) in WINDOWS {
                    same(d, std::slice::from_ref(&x), EXACT, |t| {
                        t[0].avg_pool2d_with_stride(k, s)
                    })?;
                }
            }
            Ok(())
        });
    }
    for dtype in FLOATS {
        floats_only(cases, dtype);
    }
    cases.add("upsample/nearest/rounds_as_f64", |d| {
        // 49 * (2 / 98) is less than 1.
        for (size, out) in [(2, 98), (3, 10), (7, 49), (10, 3), (5, 5), (11, 1000)] {
            let x = Operand::of(tensor(DType::F32, &[1, 1, size, 2], 222, Fill::Small)?);
            same(d, &[x], EXACT, |t| t[0].upsample_nearest2d(out, 2))?;
        }
        Ok(())
    });
    cases.add("pool/empty", |d| {
        let x = Tensor::zeros((0, 3, 4, 4), DType::F32, d)?;
        for y in [
            x.max_pool2d(2)?,
            x.avg_pool2d(2)?,
            x.upsample_nearest2d(2, 2)?,
        ] {
            ensure!(y.dims() == [0, 3, 2, 2] && floats(&y)?.is_empty());
        }
        Ok(())
    });
    cases.add("pool/many_groups", |d| {
        let x = Operand::of(tensor(DType::F32, &[1, 1, 2920, 2920], 223, Fill::Small)?);
        same(d, &[x], EXACT, |t| {
            t[0].max_pool2d_with_stride((1, 2), (1, 1))
        })
    });
}

fn floats_only(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    cases.add(format!("pool/avg/{name}"), move |d| {
        for x in images(dtype, Fill::Small)? {
            for (k, s) in WINDOWS {
                check(d, std::slice::from_ref(&x), SUM, |t| {
                    t[0].avg_pool2d_with_stride(k, s)
                })?;
            }
        }
        Ok(())
    });
    cases.add(format!("upsample/bilinear/{name}"), move |d| {
        for x in images(dtype, Fill::Small)? {
            for align in [false, true] {
                for (h, w) in SIZES {
                    let op = |t: &[Tensor]| t[0].upsample_bilinear2d(h, w, align);
                    check(d, std::slice::from_ref(&x), BLEND, op)?;
                }
                let op = |t: &[Tensor]| t[0].upsample_bilinear2d_with_scale(1.7, 2.4, align);
                check(d, std::slice::from_ref(&x), BLEND, op)?;
            }
        }
        Ok(())
    });
    cases.add(format!("upsample/bilinear_same_size/{name}"), move |d| {
        // The CPU returns the whole storage here, so the reference is contiguous.
        for x in images(dtype, Fill::Small)? {
            let y = x.on(d)?.upsample_bilinear2d(8, 9, false)?;
            close(&x.on(&Device::Cpu)?.contiguous()?, &y, EXACT)?;
        }
        Ok(())
    });
}
