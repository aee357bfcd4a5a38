//! matmul: shapes around every tile edge, layouts of both sides, batches.

use candle_core::{DType, Device, Tensor};

use crate::bound::{self, Bound, EXACT, MATMUL};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, FLOATS};

type View = fn(Tensor) -> candle_core::Result<Tensor>;

const MS: [usize; 14] = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 130, 33];
const NK: [(usize, usize); 12] = [
    (1, 1),
    (3, 5),
    (8, 4),
    (17, 33),
    (32, 64),
    (64, 32),
    (63, 65),
    (128, 16),
    (130, 66),
    (288, 288),
    (100, 1000),
    (257, 7),
];

/// For partial sums of a few thousand products, which are rounded at magnitudes of several tens.
const LONG: Bound = Bound {
    abs: 4e-4,
    ..MATMUL
};

/// Numbers of magnitude at most 1, so that products of long rows stay small.
fn operand(dtype: DType, dims: &[usize], seed: u64) -> anyhow::Result<Tensor> {
    let t = tensor(DType::F32, dims, seed, Fill::Small)?;
    Ok((t * 0.5)?.to_dtype(dtype)?)
}

pub fn add(cases: &mut Cases) {
    for dtype in FLOATS {
        let name = dtype.as_str();
        for m in MS {
            for (n, k) in NK {
                cases.add(format!("matmul/{name}/{m}x{k}x{n}"), move |d| {
                    let (a, b) = (operand(dtype, &[m, k], 1)?, operand(dtype, &[k, n], 2)?);
                    check(d, &[a, b].map(Operand::of), MATMUL, |t| t[0].matmul(&t[1]))?;
                    // As in a linear layer: the rows of the weights are the columns of b.
                    let (a, b) = (operand(dtype, &[m, k], 3)?, operand(dtype, &[n, k], 4)?);
                    let operands = [Operand::of(a), Operand::viewed(b, |t| t.t())];
                    check(d, &operands, MATMUL, |t| t[0].matmul(&t[1]))
                });
            }
        }
        sides(cases, dtype);
        tiles(cases, dtype);
        batches(cases, dtype);
        if dtype != DType::F16 {
            lines(cases, dtype);
        }
        cases.add(format!("matmul/{name}/zero"), move |d| {
            for (m, n, k) in [(0, 3, 4), (3, 0, 4), (3, 4, 0)] {
                let (a, b) = (operand(dtype, &[m, k], 1)?, operand(dtype, &[k, n], 2)?);
                check(d, &[a, b].map(Operand::of), MATMUL, |t| t[0].matmul(&t[1]))?;
            }
            Ok(())
        });
        cases.add(format!("matmul/{name}/long_k"), move |d| {
            for (m, n) in [(1, 5), (3, 8), (20, 20)] {
                let (a, b) = (
                    operand(dtype, &[m, 5001], 5)?,
                    operand(dtype, &[n, 5001], 6)?,
                );
                let operands = [Operand::of(a), Operand::viewed(b, |t| t.t())];
                check(d, &operands, LONG, |t| t[0].matmul(&t[1]))?;
            }
            Ok(())
        });
    }
}

/// A name, the storage's dims for a matrix of given rows and columns, and the view of it.
type Side = (
    &'static str,
    fn(usize, usize) -> Vec<usize>,
    fn(Tensor, usize, usize) -> candle_core::Result<Tensor>,
);

/// Each memory layout of an m x k matrix.
#[rustfmt::skip]
const SIDES: [Side; 7] = [
    ("plain",      |r, c| vec![r, c],         |t, _, _| Ok(t)),
    ("transposed", |r, c| vec![c, r],         |t, _, _| t.t()),
    ("offset",     |r, c| vec![r + 1, c],     |t, r, _| t.narrow(0, 1, r)),
    ("inner",      |r, c| vec![r, c + 3],     |t, _, c| t.narrow(1, 3, c)),
    ("rows",       |r, c| vec![r, c + 8],     |t, _, c| t.narrow(1, 4, c)),
    ("repeated",   |_, c| vec![1, c],         |t, r, c| t.broadcast_as((r, c))),
    ("stepped",    |r, c| vec![r, c, 2],      |t, _, _| t.narrow(2, 1, 1)?.squeeze(2)),
];

fn sides(cases: &mut Cases, dtype: DType) {
    for (an, a_dims, a_view) in SIDES {
        for (bn, b_dims, b_view) in SIDES {
            let name = format!("matmul/{}/{an}*{bn}", dtype.as_str());
            cases.add(name, move |d| {
                for (m, n, k) in [
                    (1, 16, 12),
                    (1, 9, 7),
                    (6, 16, 24),
                    (70, 68, 36),
                    (13, 11, 19),
                ] {
                    let a = operand(dtype, &a_dims(m, k), 7)?;
                    let b = operand(dtype, &b_dims(k, n), 8)?;
                    check(d, &[a, b].map(Operand::of), MATMUL, |t| {
                        let (a, b) = (t[0].clone(), t[1].clone());
                        let (a, b) = (a_view(a, m, k)?, b_view(b, k, n)?);
                        // The CPU has defects with strides; only the device gets the views.
                        if matches!(a.device(), Device::Cpu) {
                            return a.contiguous()?.matmul(&b.contiguous()?);
                        }
                        a.matmul(&b)
                    })?;
                }
                Ok(())
            });
        }
    }
}

/// Enough of the largest tiles for an adapter, and of those for up to 64 rows, a k that ends within a tile, both split along k, full and half
/// empty, few rows and many columns, few rows with several rounds along k, one row by long columns, and a matrix times itself.
fn tiles(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    for (an, a_dims, a_view) in &SIDES[..2] {
        for (bn, b_dims, b_view) in &SIDES[..2] {
            cases.add(format!("matmul/{name}/tiles/{an}*{bn}"), move |d| {
                for (m, n, k) in [
                    (1500, 1412, 44),
                    (40, 24_500, 44),
                    (268, 140, 200),
                    (20, 36, 1024),
                    (256, 5120, 256),
                    (12, 8224, 192),
                    (13, 48, 1088),
                    (30, 8192, 96),
                    (20, 48, 352),
                    (1, 72, 4168),
                ] {
                    let a = operand(dtype, &a_dims(m, k), 11)?;
                    let b = operand(dtype, &b_dims(k, n), 12)?;
                    check(d, &[a, b].map(Operand::of), MATMUL, |t| {
                        a_view(t[0].clone(), m, k)?.matmul(&b_view(t[1].clone(), k, n)?)
                    })?;
                }
                Ok(())
            });
            // Whole numbers, whose sums no order of addition rounds.
            cases.add(format!("matmul/{name}/tiles/split/{an}*{bn}"), move |d| {
                for (m, n, k) in [(200, 768, 1024), (44, 3072, 1024)] {
                    let a = operand(DType::F32, &a_dims(m, k), 15)?.round()?;
                    let b = operand(DType::F32, &b_dims(k, n), 16)?.round()?;
                    let operands = [a.to_dtype(dtype)?, b.to_dtype(dtype)?];
                    check(d, &operands.map(Operand::of), EXACT, |t| {
                        a_view(t[0].clone(), m, k)?.matmul(&b_view(t[1].clone(), k, n)?)
                    })?;
                }
                Ok(())
            });
        }
    }
    cases.add(format!("matmul/{name}/tiles/own_transpose"), move |d| {
        let a = operand(dtype, &[96, 72], 13)?;
        check(d, &[Operand::of(a)], MATMUL, |t| t[0].matmul(&t[0].t()?))
    });
}

/// Rows and columns of very different magnitudes, including infinities and NaN; nothing cancels.
fn lines(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    for (bn, b_dims, b_view) in &SIDES[..2] {
        cases.add(format!("matmul/{name}/lines/{bn}"), move |d| {
            // Lines of whole quads, and of whole octets.
            for k in [100, 104] {
                let (m, n) = (72, 68);
                let rows = powers(m, 40.)?.unsqueeze(1)?;
                let columns = powers(n, -30.)?.unsqueeze(0)?;
                let mut a = tensor(DType::F32, &[m, k], 14, Fill::Small)?
                    .abs()?
                    .broadcast_mul(&rows)?
                    .to_vec2::<f32>()?;
                (a[2][7], a[2][9]) = (f32::INFINITY, 1e30);
                (a[5][1], a[6][3]) = (f32::NAN, f32::NEG_INFINITY);
                let a = Tensor::new(a, &Device::Cpu)?.to_dtype(dtype)?;
                // Stored transposed, so that the view has b's rows and columns.
                let b = tensor(DType::F32, &b_dims(k, n), 15, Fill::Small)?.abs()?;
                let columns = if b.dims() == [k, n] {
                    columns
                } else {
                    columns.t()?
                };
                let b = (b.broadcast_mul(&columns)? + 1e-30)?.to_dtype(dtype)?;
                check(d, &[a, b].map(Operand::of), MATMUL, |t| {
                    t[0].matmul(&b_view(t[1].clone(), k, n)?)
                })?;
            }
            Ok(())
        });
    }
    // What was found about weights, such as the magnitudes of their lines, holds until they are overwritten.
    cases.add(format!("matmul/{name}/overwritten"), move |d| {
        let (n, k) = (36, 96);
        // Nothing cancels.
        let w = operand(dtype, &[n, k], 16)?.abs()?;
        let larger = w
            .to_dtype(DType::F32)?
            .broadcast_mul(&powers(n, 30.)?.unsqueeze(1)?)?;
        let larger = larger.to_dtype(dtype)?;
        let here = w.to_device(d)?;
        for weights in [&w, &larger, &w] {
            here.slice_set(&weights.to_device(d)?, 0, 0)?;
            for m in [20, 300, 40] {
                let x = operand(dtype, &[m, k], 17)?.abs()?;
                let expected = x.matmul(&weights.t()?)?;
                let got = x.to_device(d)?.matmul(&here.t()?)?;
                bound::close(&expected, &got, MATMUL)?;
            }
        }
        Ok(())
    });
}

/// Three powers of two in turn, whose exponents are `by` apart.
fn powers(count: usize, by: f64) -> anyhow::Result<Tensor> {
    let of = |i: usize| 2f64.powf(by * (i % 3) as f64 - by);
    Ok(Tensor::from_iter((0..count).map(of), &Device::Cpu)?.to_dtype(DType::F32)?)
}

/// A name, and for each side the storage's dims and the view of the batch.
type Batch = (&'static str, &'static [usize], View, &'static [usize], View);

#[rustfmt::skip]
const BATCHES: &[Batch] = &[
    ("plain",           &[3, 5, 8],     Ok,                               &[3, 8, 7],     Ok),
    ("rank4",           &[2, 3, 5, 8],  Ok,                               &[2, 3, 8, 4],  Ok),
    ("vectors",         &[6, 1, 33],    Ok,                               &[6, 33, 20],   Ok),
    ("shared_rhs",      &[4, 5, 8],     Ok,                               &[1, 8, 6],     |t| t.broadcast_as((4, 8, 6))),
    ("shared_rhs_of_transposed_lhs", &[4, 8, 5], |t| t.transpose(1, 2),   &[1, 8, 6],     |t| t.broadcast_as((4, 8, 6))),
    ("shared_lhs",      &[1, 5, 8],     |t| t.broadcast_as((4, 5, 8)),    &[4, 8, 6],     Ok),
    ("transposed_rhs",  &[3, 5, 8],     Ok,                               &[3, 6, 8],     |t| t.transpose(1, 2)),
    ("heads",           &[1, 5, 4, 8],  |t| t.transpose(1, 2),            &[1, 7, 4, 8],  |t| t.transpose(1, 2)?.transpose(2, 3)),
    ("two_dims_of_heads", &[2, 5, 4, 8], |t| t.transpose(1, 2),           &[2, 7, 4, 8],  |t| t.transpose(1, 2)?.transpose(2, 3)),
    ("grouped",         &[2, 4, 1, 8],  Ok,                               &[2, 2, 1, 8, 9], |t| t.broadcast_as((2, 2, 2, 8, 9))?.reshape((2, 4, 8, 9))),
    ("offset",          &[5, 5, 8],     |t| t.narrow(0, 2, 3),            &[3, 10, 7],    |t| t.narrow(1, 1, 8)),
    ("cached",          &[3, 2, 8],     Ok,                               &[3, 16, 8],    |t| t.narrow(1, 0, 9)?.transpose(1, 2)),
    ("tiles",           &[2, 70, 40],   Ok,                               &[2, 40, 66],   Ok),
];

fn batches(cases: &mut Cases, dtype: DType) {
    for &(name, a, a_view, b, b_view) in BATCHES {
        cases.add(
            format!("matmul/{}/batch/{name}", dtype.as_str()),
            move |d| {
                let operands = [
                    Operand::viewed(operand(dtype, a, 9)?, a_view),
                    Operand::viewed(operand(dtype, b, 10)?, b_view),
                ];
                check(d, &operands, MATMUL, |t| t[0].matmul(&t[1]))
            },
        );
    }
}
