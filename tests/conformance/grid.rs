//! Dispatches of more than 65,535 workgroups, which do not fit in one dimension of a grid: one case per kernel.
//!
//! Not covered: random of f64, sort_step and sort_merge, whose tensors would have to be larger than llvmpipe's binding
//! limit of 128 MiB, and conv_gemm, which would take too long there.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::{ops, rotary_emb};
use half::f16;

use crate::bound::{close, floats, Bound, EXACT, MATMUL, NORM, SOFTMAX, SUM};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand};

/// Rows, if a workgroup computes one row.
const ROWS: usize = 70_001;
/// Elements, if a thread computes four of them and a workgroup has 128 threads.
const QUADS: usize = 33_600_004;
/// Elements, if a thread computes one.
const THREADS: usize = 8_400_004;

type Fused = fn(&Tensor) -> candle_core::Result<Tensor>;

/// `f(0)`, `f(1)`, ...
fn bytes(n: usize, f: impl Fn(usize) -> u8, d: &Device) -> candle_core::Result<Tensor> {
    Tensor::from_vec((0..n).map(f).collect::<Vec<u8>>(), n, d)
}

fn digit(i: usize) -> u8 {
    (i % 251) as u8
}

/// Checks that every element of `got` is `f` of its index.
fn is(got: &Tensor, f: impl Fn(usize) -> u8) -> Result<()> {
    let got = got.flatten_all()?.to_vec1::<u8>()?;
    let wrong = (0..got.len()).find(|&i| got[i] != f(i));
    ensure!(
        wrong.is_none(),
        "at {wrong:?} of {}: {:?}",
        got.len(),
        wrong.map(|i| got[i])
    );
    Ok(())
}

pub fn add(cases: &mut Cases) {
    elementwise(cases);
    copies(cases);
    indexing(cases);
    folds(cases);
    products(cases);
    images(cases);
    fused(cases);
}

fn elementwise(cases: &mut Cases) {
    cases.add("grid/map", |d| {
        let x = bytes(QUADS + 1, digit, d)?.narrow(0, 1, QUADS)?;
        is(&x.affine(1., 3.)?, |i| digit(i + 1) + 3)
    });
    cases.add("grid/cast", |d| {
        let x = bytes(QUADS, |i| (i % 13) as u8, d)?;
        let there = x.to_dtype(DType::F8E4M3)?;
        is(&there.to_dtype(DType::U8)?, |i| (i % 13) as u8)
    });
    cases.add("grid/zip", |d| {
        let x = bytes(QUADS + 1, digit, d)?;
        let (a, b) = (x.narrow(0, 0, QUADS)?, x.narrow(0, 1, QUADS)?);
        is(&a.minimum(&b)?, |i| digit(i).min(digit(i + 1)))
    });
    cases.add("grid/where_cond", |d| {
        let x = bytes(QUADS + 1, digit, d)?;
        let (a, b) = (x.narrow(0, 0, QUADS)?, x.narrow(0, 1, QUADS)?);
        let seven = Tensor::full(7u8, 1, d)?.broadcast_as(QUADS)?;
        is(&a.where_cond(&b, &seven)?, |i| match digit(i) {
            0 => 7,
            _ => digit(i + 1),
        })
    });
    cases.add("grid/random", |d| {
        let x = Tensor::rand(f16::ZERO, f16::ONE, QUADS, d)?;
        // If the end was not written, its mean is wrong; if the beginning was written twice, both have the same
        // numbers.
        let [first, last] = [0, QUADS - 40_000].map(|at| x.narrow(0, at, 40_000));
        let (first, last) = (floats(&first?)?, floats(&last?)?);
        let mean = last.iter().sum::<f64>() / last.len() as f64;
        ensure!((mean - 0.5).abs() < 0.02 && first != last, "mean {mean}");
        Ok(())
    });
}

fn copies(cases: &mut Cases) {
    cases.add("grid/contiguous", |d| {
        let x = bytes(QUADS, digit, d)?.reshape((2, QUADS / 2))?;
        let y = x.t()?.contiguous()?;
        is(&y, |i| digit(i % 2 * (QUADS / 2) + i / 2))
    });
    cases.add("grid/copy_elems", |d| {
        let x = bytes(THREADS, digit, d)?.unsqueeze(1)?;
        is(&Tensor::cat(&[&x, &x], 1)?, |i| digit(i / 2))
    });
    cases.add("grid/copy_quads", |d| {
        let x = bytes(QUADS, digit, d)?.reshape((QUADS / 4, 4))?;
        let y = Tensor::cat(&[&x, &x], 1)?;
        is(&y, |i| digit(i / 8 * 4 + i % 4))
    });
    cases.add("grid/fill", |d| {
        is(&Tensor::full(9u8, QUADS, d)?.contiguous()?, |_| 9)
    });
}

fn indexing(cases: &mut Cases) {
    cases.add("grid/gather", |d| {
        let x = bytes(200, |i| 255 - i as u8, d)?;
        let ids = bytes(QUADS, |i| (i % 200) as u8, d)?;
        is(&x.index_select(&ids, 0)?, |i| 255 - (i % 200) as u8)
    });
    cases.add("grid/gather_rows", |d| {
        let x = bytes(50 * 512, digit, d)?.reshape((50, 512))?;
        let ids: Vec<u32> = (0..ROWS as u32).map(|i| i * 7 % 50).collect();
        let y = x.index_select(&Tensor::new(ids, d)?, 0)?;
        is(&y, |i| digit(i / 512 * 7 % 50 * 512 + i % 512))
    });
    cases.add("grid/gather_short_rows", |d| {
        let x = tensor(DType::F16, &[50, 3], 19, Fill::Small)?;
        let ids: Vec<u32> = (0..ROWS as u32).map(|i| i * 7 % 50).collect();
        let operands = [x, Tensor::new(ids, &Device::Cpu)?].map(Operand::of);
        check(d, &operands, EXACT, |t| t[0].index_select(&t[1], 0))
    });
    cases.add("grid/scatter", |d| {
        // A thread computes a column.
        let src = bytes(THREADS, digit, d)?.unsqueeze(0)?;
        let ids = src.zeros_like()?;
        let x = Tensor::full(3u8, (1, THREADS), d)?.contiguous()?;
        is(&x.scatter(&ids, &src, 0)?, digit)?;
        is(&x.scatter_add(&ids, &src, 0)?, |i| digit(i) + 3)?;
        let id = Tensor::zeros(1, DType::U8, d)?;
        is(&x.index_add(&id, &src, 0)?, |i| digit(i) + 3)
    });
}

fn folds(cases: &mut Cases) {
    cases.add("grid/fold_row", |d| {
        let x = Operand::of(tensor(DType::F32, &[ROWS, 3], 17, Fill::Small)?);
        check(d, std::slice::from_ref(&x), SUM, |t| t[0].sum(1))?;
        check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmax(1))?;
        let near = Bound { abs: 2e-3, ..SUM };
        check(d, std::slice::from_ref(&x), near, |t| t[0].sum(0))?;
        check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmin(0))?;
        check(d, &[x], near, |t| t[0].sum_all())
    });
    cases.add("grid/fold_column", |d| {
        // A word holds four columns.
        let x = bytes(3 * QUADS, digit, d)?.reshape((3, QUADS))?;
        let at = |row: usize, i: usize| digit(row * QUADS + i);
        is(&x.max(0)?, |i| at(0, i).max(at(1, i)).max(at(2, i)))
    });
    cases.add("grid/fold_winner", |d| {
        let x = bytes(2 * THREADS, digit, d)?.reshape((2, THREADS))?;
        let argmax = |i| u8::from(digit(THREADS + i) > digit(i));
        is(&x.argmax(0)?.to_dtype(DType::U8)?, argmax)
    });
}

fn products(cases: &mut Cases) {
    for (name, rows) in [("gemv_n", 1), ("gemm", 9)] {
        cases.add(format!("grid/{name}"), move |d| {
            let a = tensor(DType::F32, &[ROWS, rows, 3], 20, Fill::Small)?;
            let b = tensor(DType::F32, &[ROWS, 3, 2], 21, Fill::Small)?;
            check(d, &[a, b].map(Operand::of), MATMUL, |t| t[0].matmul(&t[1]))
        });
    }
    cases.add("grid/gemv_k", |d| {
        let a = tensor(DType::F32, &[ROWS, 1, 3], 20, Fill::Small)?;
        let b = tensor(DType::F32, &[ROWS, 2, 3], 21, Fill::Small)?;
        let operands = [Operand::of(a), Operand::viewed(b, |t| t.transpose(1, 2))];
        check(d, &operands, MATMUL, |t| t[0].matmul(&t[1]))
    });
    // Two rows of the grid with a workgroup too many: threads that own two columns each, and subgroups.
    type View = fn(Tensor) -> candle_core::Result<Tensor>;
    let threads: View = |b| b.broadcast_as((2_097_185, 8))?.t();
    let subgroups: View = |b| b.broadcast_as((131_073, 512))?.t();
    for (name, k, view) in [("threads", 8, threads), ("subgroups", 512, subgroups)] {
        cases.add(format!("grid/gemv_k/{name}"), move |d| {
            let a = tensor(DType::F16, &[1, k], 20, Fill::Small)?;
            let b = tensor(DType::F16, &[1, k], 21, Fill::Small)?;
            let operands = [Operand::of(a), Operand::viewed(b, view)];
            check(d, &operands, MATMUL, |t| t[0].matmul(&t[1]))
        });
    }
    cases.add("grid/matmul_rows", |d| {
        let b = tensor(DType::F32, &[3, 2], 23, Fill::Small)?;
        let a = tensor(DType::F32, &[600_001, 3], 22, Fill::Small)?;
        check(d, &[a, b.clone()].map(Operand::of), MATMUL, |t| {
            t[0].matmul(&t[1])
        })?;
        let wide = tensor(DType::F32, &[3, 600_001], 24, Fill::Small)?;
        check(d, &[b.t()?, wide].map(Operand::of), MATMUL, |t| {
            t[0].matmul(&t[1])
        })
    });
    cases.add("grid/matmul_wide", |d| {
        // A column times a row: 2900 * 2900 threads.
        let a = tensor(DType::F64, &[2900, 1], 25, Fill::Small)?;
        let b = tensor(DType::F64, &[1, 2900], 26, Fill::Small)?;
        check(d, &[a, b].map(Operand::of), EXACT, |t| t[0].matmul(&t[1]))
    });
}

fn images(cases: &mut Cases) {
    cases.add("grid/conv_direct", |d| {
        // Only conv_transpose takes bytes, four per thread.
        let x = bytes(QUADS / 2, |i| (i % 100) as u8, d)?.unsqueeze(0)?;
        let taps = Tensor::new(&[[[2u8, 1]]], d)?;
        let y = x.unsqueeze(0)?.conv_transpose1d(&taps, 0, 0, 2, 1, 1)?;
        is(&y, |i| (i / 2 % 100) as u8 * [2, 1][i % 2])
    });
    cases.add("grid/pool", |d| {
        let x = bytes(QUADS, digit, d)?.reshape((1, 1, QUADS / 4, 4))?;
        let y = x.max_pool2d_with_stride((1, 1), (1, 1))?;
        is(&y, digit)
    });
    cases.add("grid/upsample_nearest", |d| {
        let x = bytes(THREADS, digit, d)?.reshape((1, 1, 1, THREADS))?;
        is(&x.upsample_nearest2d(4, THREADS)?, |i| digit(i % THREADS))
    });
    cases.add("grid/upsample_bilinear", |d| {
        // Interpolation between equal rows is exact.
        const W: usize = 1000;
        let x = bytes(THREADS / W * W, digit, d)?.reshape((THREADS / W, 1, 1, W))?;
        let y = Tensor::cat(&[&x, &x], 2)?.upsample_bilinear2d(4, W, false)?;
        ensure!(y.elem_count() > 65_535 * 512);
        is(&y, |i| digit(i / (4 * W) * W + i % W))
    });
}

fn fused(cases: &mut Cases) {
    cases.add("grid/rope", |d| {
        // Rotated by 0.
        let (seq, dim) = (QUADS / 400, 400);
        let x = bytes(QUADS, digit, d)?.narrow(0, 0, seq * dim)?;
        let x = x.to_dtype(DType::F16)?.reshape((1, 1, seq, dim))?;
        let cos = Tensor::ones((seq, dim / 2), DType::F16, d)?;
        let y = rotary_emb::rope(&x, &cos, &cos.zeros_like()?)?;
        is(&y.to_dtype(DType::U8)?, digit)
    });
    const N: usize = 5;
    fn weight(x: &Tensor) -> candle_core::Result<Tensor> {
        Tensor::ones(N, x.dtype(), x.device())
    }
    let all: [(&str, Bound, Fused); 3] = [
        ("softmax", SOFTMAX, ops::softmax_last_dim),
        ("rms_norm", NORM, |x| ops::rms_norm(x, &weight(x)?, 1e-5)),
        ("layer_norm", NORM, |x| {
            ops::layer_norm(x, &weight(x)?, &weight(x)?, 1e-5)
        }),
    ];
    for (name, bound, op) in all {
        cases.add(format!("grid/{name}"), move |d| {
            // 32 short rows per workgroup. Their numbers repeat; the results of a few rows are tested elsewhere.
            const FEW: usize = 1000;
            const TIMES: usize = 2100;
            let few = tensor(DType::F32, &[FEW, N], 16, Fill::Small)?.to_device(d)?;
            let many = few.repeat((TIMES, 1))?;
            let expected = op(&few)?.to_device(&Device::Cpu)?.repeat((TIMES, 1))?;
            close(&expected, &op(&many)?, bound)
        });
    }
}
