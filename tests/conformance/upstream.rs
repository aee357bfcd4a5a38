//! Grids beyond 65,535 of whatever a dispatch counts, and what upstream mended in its own backends.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::ops;
use half::bf16;

use crate::bound::{close, floats, Bound, ARITH, EXACT, MATMUL, NORM, SOFTMAX, SUM};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, ALL, FLOATS};

pub fn add(cases: &mut Cases) {
    grids(cases);
    fixes(cases);
}

/// More than 65,535 of whatever a dispatch counts.
fn grids(cases: &mut Cases) {
    const ROWS: usize = 70_001;
    cases.add("grid/rms_norm", |d| {
        let x = tensor(DType::F32, &[ROWS, 5], 11, Fill::Small)?;
        let operands = [x, tensor(DType::F32, &[5], 12, Fill::Positive)?].map(Operand::of);
        check(d, &operands, NORM, |t| match t[0].dtype() {
            DType::F64 => ops::rms_norm_slow(&t[0], &t[1], 1e-5),
            _ => ops::rms_norm(&t[0], &t[1], 1e-5),
        })
    });
    cases.add("grid/layer_norm", |d| {
        let x = tensor(DType::F32, &[ROWS, 5], 13, Fill::Small)?;
        let weights = [14, 15].map(|seed| tensor(DType::F32, &[5], seed, Fill::Positive));
        let [alpha, beta] = weights;
        let operands = [x, alpha?, beta?].map(Operand::of);
        check(d, &operands, NORM, |t| match t[0].dtype() {
            DType::F64 => ops::layer_norm_slow(&t[0], &t[1], &t[2], 1e-5),
            _ => ops::layer_norm(&t[0], &t[1], &t[2], 1e-5),
        })
    });
    cases.add("grid/softmax", |d| {
        let x = Operand::of(tensor(DType::F32, &[ROWS, 3], 16, Fill::Small)?);
        check(d, &[x], SOFTMAX, |t| ops::softmax(&t[0], 1))?;
        let x = Operand::of(tensor(DType::F32, &[ROWS, 3], 16, Fill::Small)?);
        check(d, &[x], SOFTMAX, |t| match t[0].dtype() {
            DType::F64 => ops::softmax(&t[0], 1),
            _ => ops::softmax_last_dim(&t[0]),
        })
    });
    cases.add("grid/reduce", |d| {
        let x = Operand::of(tensor(DType::F32, &[ROWS, 3], 17, Fill::Small)?);
        check(d, std::slice::from_ref(&x), SUM, |t| t[0].sum(1))?;
        check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmax(1))?;
        let near = Bound { abs: 2e-3, ..SUM };
        check(d, std::slice::from_ref(&x), near, |t| t[0].sum(0))?;
        check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmin(0))?;
        check(d, &[x], near, |t| t[0].sum_all())?;
        // As many columns as rows above.
        let x = Operand::of(tensor(DType::F32, &[3, ROWS * 4], 18, Fill::Small)?);
        check(d, &[x], SUM, |t| t[0].sum(0))
    });
    cases.add("grid/index", |d| {
        let x = tensor(DType::F16, &[50, 3], 19, Fill::Small)?;
        let ids: Vec<u32> = (0..ROWS as u32).map(|i| i * 7 % 50).collect();
        let operands = [x, Tensor::new(ids, &Device::Cpu)?].map(Operand::of);
        check(d, &operands, EXACT, |t| t[0].index_select(&t[1], 0))
    });
    cases.add("grid/matmul_batch", |d| {
        let a = tensor(DType::F32, &[ROWS, 1, 3], 20, Fill::Small)?;
        let b = tensor(DType::F32, &[ROWS, 3, 2], 21, Fill::Small)?;
        check(d, &[a, b].map(Operand::of), MATMUL, |t| t[0].matmul(&t[1]))
    });
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
    cases.add("grid/elementwise", |d| {
        // 40 million bytes: 78,000 workgroups of 512 elements.
        let n = 40_000_003;
        let x: Vec<u8> = (0..n + 1).map(|i| (i % 251) as u8).collect();
        let x = Tensor::new(x, d)?.narrow(0, 1, n)?;
        let y = x.affine(1., 3.)?.to_vec1::<u8>()?;
        let wrong = (0..n).find(|&i| y[i] != ((i + 1) % 251 + 3) as u8);
        ensure!(wrong.is_none() && y.len() == n, "{wrong:?}");
        Ok(())
    });
}

/// What upstream mended in its own backends.
fn fixes(cases: &mut Cases) {
    cases.add("upstream/zero_sized_matmul", |d| {
        let y = Tensor::zeros((2, 3, 0), DType::F32, d)?.matmul(&Tensor::zeros(
            (2, 0, 4),
            DType::F32,
            d,
        )?)?;
        ensure!(y.dims() == [2, 3, 4] && floats(&y)? == [0.; 24]);
        Ok(())
    });
    cases.add("upstream/rms_norm_large_magnitude", |d| {
        for dtype in FLOATS {
            let x =
                (tensor(DType::F32, &[2, 3000], 25, Fill::Positive)? * 1000.)?.to_dtype(dtype)?;
            let operands = [x, tensor(dtype, &[3000], 26, Fill::Positive)?].map(Operand::of);
            check(d, &operands, NORM, |t| match t[0].dtype() {
                DType::F64 => ops::rms_norm_slow(&t[0], &t[1], 1e-5),
                _ => ops::rms_norm(&t[0], &t[1], 1e-5),
            })?;
        }
        Ok(())
    });
    cases.add("upstream/reduce_rank5_strided", |d| {
        for dtype in ALL {
            let x = tensor(dtype, &[2, 3, 2, 3, 2], 27, Fill::Ties)?;
            let x = Operand::viewed(x, |t| t.permute((4, 1, 2, 3, 0)));
            for dim in 0..5 {
                check(d, std::slice::from_ref(&x), SUM, |t| t[0].sum(dim))?;
                check(d, std::slice::from_ref(&x), EXACT, |t| t[0].max(dim))?;
                check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmin(dim))?;
            }
            check(d, std::slice::from_ref(&x), SUM, |t| t[0].sum((0, 2, 4)))?;
        }
        Ok(())
    });
    cases.add("upstream/argsort_with_an_offset", |d| {
        let x = Tensor::new(&[9f32, 8., 3., 1., 2., 0.], d)?
            .reshape((2, 3))?
            .narrow(0, 1, 1)?;
        let y = x.arg_sort_last_dim(true)?.to_vec2::<u32>()?;
        ensure!(y == [[2, 0, 1]], "{y:?}");
        Ok(())
    });
    cases.add("upstream/repeat_by_zero", |d| {
        let y = Tensor::new(&[1f32, 2.], d)?.repeat(0)?;
        ensure!(y.elem_count() == 0 && floats(&y)?.is_empty());
        Ok(())
    });
    cases.add("upstream/broadcast_matmul_rank2_rhs", |d| {
        let a = tensor(DType::F32, &[2, 3, 5, 7], 28, Fill::Small)?;
        let b = tensor(DType::F32, &[7, 4], 29, Fill::Small)?;
        check(d, &[a, b].map(Operand::of), MATMUL, |t| {
            t[0].broadcast_matmul(&t[1])
        })
    });
    cases.add("upstream/concurrent_readback", |d| {
        let x = Tensor::arange(0f32, 1000., d)?;
        let threads: Vec<_> = (0..4)
            .map(|k| {
                let x = x.clone();
                std::thread::spawn(move || -> Result<()> {
                    for i in 0..20 {
                        let y = x.affine(1., f64::from(k * 100 + i))?.to_vec1::<f32>()?;
                        ensure!(y
                            .iter()
                            .enumerate()
                            .all(|(j, v)| *v == (j as i32 + k * 100 + i) as f32));
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    });
    cases.add("upstream/bf16_scalars", |d| {
        let x = Tensor::full(bf16::from_f32(0.5), 3, d)?;
        let y = x.affine(2., 1.)?;
        close(
            &Tensor::full(bf16::from_f32(2.), 3, &Device::Cpu)?,
            &y,
            ARITH,
        )
    });
}
