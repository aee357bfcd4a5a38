//! Bugs that upstream fixed in its own backends, one named test each.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::ops;
use half::bf16;

use crate::bound::{close, floats, ARITH, EXACT, MATMUL, NORM, SUM};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, ALL, FLOATS};

pub fn add(cases: &mut Cases) {
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
    cases.alone("upstream/command_errors_reach_the_caller", |d| {
        let x = Tensor::new(&[1f32, 2.], d)?;
        let wrong = x.index_select(&Tensor::new(&[5u32], d)?, 0)?;
        // An op that follows the failed one is read back.
        ensure!((wrong + 1.)?.to_vec1::<f32>().is_err());
        ensure!(x.to_vec1::<f32>()? == [1., 2.]);
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
