//! Wrong results of other WebGPU backends of Candle, one named test each.

use anyhow::ensure;
use candle_core::{DType, Device, Tensor, D};
use candle_nn::ops;
use half::f16;

use crate::bound::{close, floats, ARITH, EXACT, FUNCTION, NORM, POWF};
use crate::case::Cases;
use crate::input::{check, same, tensor, Fill, Operand, FLOATS};

fn of(values: &[f32], d: &Device) -> candle_core::Result<Tensor> {
    Tensor::new(values, d)
}

pub fn add(cases: &mut Cases) {
    casts(cases);
    copies(cases);
    functions(cases);
    numbers(cases);
}

fn casts(cases: &mut Cases) {
    cases.add("peers/f32_to_f16_inf", |d| {
        let x = of(
            &[
                f32::INFINITY,
                f32::NEG_INFINITY,
                65504.,
                65519.9,
                65520.,
                65600.,
                131072.,
                -1e30,
            ],
            d,
        )?;
        let inf = f16::INFINITY;
        let max = f16::MAX;
        let expected = [inf, -inf, max, max, inf, inf, inf, -inf];
        ensure!(x.to_dtype(DType::F16)?.to_vec1::<f16>()? == expected);
        Ok(())
    });
    cases.add("peers/f32_to_f16_ties_to_even", |d| {
        let x = of(
            &[
                1.0 + 2f32.powi(-11),
                1.0 + 3. * 2f32.powi(-11),
                1.0 + 2f32.powi(-11) + 1e-6,
            ],
            d,
        )?;
        let bits: Vec<u16> = x
            .to_dtype(DType::F16)?
            .to_vec1::<f16>()?
            .iter()
            .map(|v| v.to_bits())
            .collect();
        ensure!(bits == [0x3c00, 0x3c02, 0x3c01], "{bits:x?}");
        Ok(())
    });
    cases.add("peers/f32_to_f16_offset", |d| {
        let x = tensor(DType::F32, &[37], 1, Fill::Small)?;
        for start in 1..9 {
            let view = x.to_device(d)?.narrow(0, start, 11)?;
            close(
                &x.narrow(0, start, 11)?.to_dtype(DType::F16)?,
                &view.to_dtype(DType::F16)?,
                EXACT,
            )?;
        }
        Ok(())
    });
    cases.add("peers/f16_to_f32_odd_length", |d| {
        for n in 1..18 {
            let x = tensor(DType::F16, &[n], n as u64, Fill::Small)?;
            // Allocated before and after, and unchanged.
            let before = Tensor::full(7f32, n, d)?;
            let y = x.to_device(d)?.to_dtype(DType::F32)?;
            let after = Tensor::full(7f32, n, d)?;
            close(&x.to_dtype(DType::F32)?, &y, EXACT)?;
            for sevens in [before, after] {
                close(&Tensor::full(7f32, n, &Device::Cpu)?, &sevens, EXACT)?;
            }
        }
        Ok(())
    });
    cases.add("peers/f32_to_u8_saturates", |d| {
        let x = of(
            &[
                0.,
                300.,
                1.,
                1e9,
                2.,
                -5.,
                3.,
                f32::INFINITY,
                4.,
                f32::NAN,
                5.,
                255.9,
                6.,
            ],
            d,
        )?;
        let y = x.to_dtype(DType::U8)?.to_vec1::<u8>()?;
        ensure!(
            y == [0, 255, 1, 255, 2, 0, 3, 255, 4, 0, 5, 255, 6],
            "{y:?}"
        );
        Ok(())
    });
    cases.add("peers/u32_to_u8_keeps_neighbours", |d| {
        let x = Tensor::new(&[1u32, 256, 2, 0xffff_ffff, 3, 511, 4], d)?;
        let y = x.to_dtype(DType::U8)?.to_vec1::<u8>()?;
        ensure!(y == [1, 0, 2, 255, 3, 255, 4], "{y:?}");
        Ok(())
    });
    cases.add("peers/mask_of_inf_to_f16", |d| {
        let mask = of(&[0., f32::NEG_INFINITY, 0., f32::NEG_INFINITY], d)?.to_dtype(DType::F16)?;
        let y = floats(&ops::softmax_last_dim(&mask.unsqueeze(0)?)?)?;
        ensure!(y == [0.5, 0., 0.5, 0.], "{y:?}");
        Ok(())
    });
}

fn copies(cases: &mut Cases) {
    for dtype in [DType::I64, DType::F64, DType::F16, DType::U8, DType::BF16] {
        cases.add(format!("peers/copy_whole/{}", dtype.as_str()), move |d| {
            for n in [1, 2, 3, 5, 63, 1000] {
                let x = Operand::of(tensor(dtype, &[n], 3, Fill::Positive)?);
                same(d, std::slice::from_ref(&x), EXACT, |t| t[0].copy())?;
                same(d, std::slice::from_ref(&x), EXACT, |t| {
                    t[0].force_contiguous()
                })?;
                same(d, &[x.clone(), x], EXACT, |t| Tensor::cat(t, 0))?;
                let x = tensor(dtype, &[n + 3], 4, Fill::Positive)?;
                same(
                    d,
                    &[Operand::viewed(x, |t| t.narrow(0, 3, t.elem_count() - 3))],
                    EXACT,
                    |t| t[0].force_contiguous(),
                )?;
            }
            Ok(())
        });
    }
    cases.add("peers/gather_ids_of_every_dtype", |d| {
        let x = tensor(DType::F32, &[3, 300], 5, Fill::Small)?;
        for dtype in [DType::U8, DType::U32, DType::I64] {
            let ids: Vec<u32> = (0..33).map(|i| (i * 7) % 250).collect();
            let ids = Tensor::from_vec(ids, (3, 11), &Device::Cpu)?.to_dtype(dtype)?;
            let operands = [x.clone(), ids].map(Operand::of);
            check(d, &operands, EXACT, |t| t[0].gather(&t[1], 1))?;
        }
        Ok(())
    });
    cases.add("peers/scatter_and_index_add_ids_of_every_dtype", |d| {
        let x = tensor(DType::F32, &[3, 300], 10, Fill::Small)?;
        for dtype in [DType::U8, DType::U32, DType::I64] {
            let ids: Vec<u32> = (0..33).map(|i| (i * 7) % 250).collect();
            let ids = Tensor::new(ids, &Device::Cpu)?.to_dtype(dtype)?;
            let src = tensor(DType::F32, &[3, 33], 11, Fill::Small)?;
            let operands = [x.clone(), ids, src].map(Operand::of);
            check(d, &operands, ARITH, |t| t[0].index_add(&t[1], &t[2], 1))?;
            check(d, &operands, EXACT, |t| {
                let ids = t[1].unsqueeze(0)?.repeat((3, 1))?;
                t[0].scatter(&ids, &t[2], 1)
            })?;
        }
        Ok(())
    });
}

fn functions(cases: &mut Cases) {
    cases.add("peers/powf_negative_base", |d| {
        let x = Tensor::new(&[-2f32, -1.5, -0.5, -3., 2., 0.], &Device::Cpu)?;
        for e in [1., 2., 3., 5., -1., -3., 0., 17., 21.] {
            check(d, &[Operand::of(x.clone())], POWF, |t| t[0].powf(e))?;
        }
        let y = floats(&x.to_device(d)?.powf(0.5)?)?;
        ensure!(y[0].is_nan() && y[3].is_nan() && y[5] == 0., "{y:?}");
        Ok(())
    });
    for dtype in FLOATS {
        cases.add(
            format!("peers/activations_of_great_numbers/{}", dtype.as_str()),
            move |d| {
                let x = [
                    11.5f32, -11.5, 60., -60., 88., -88., 89., -89., 100., -100., 1e4, -1e4, 6e4,
                    -6e4,
                ];
                let x = Operand::of(of(&x, &Device::Cpu)?.to_dtype(dtype)?);
                let ops: [fn(&Tensor) -> candle_core::Result<Tensor>; 6] = [
                    Tensor::gelu,
                    Tensor::gelu_erf,
                    Tensor::silu,
                    Tensor::tanh,
                    Tensor::erf,
                    ops::sigmoid,
                ];
                for op in ops {
                    check(d, std::slice::from_ref(&x), FUNCTION, |t| op(&t[0]))?;
                    let y = floats(&op(&x.on(d)?)?)?;
                    ensure!(y.iter().all(|v| v.is_finite()), "{y:?}");
                }
                Ok(())
            },
        );
        cases.add(
            format!("peers/layer_norm_large_mean/{}", dtype.as_str()),
            move |d| {
                for n in [7, 64, 1000, 5000] {
                    let mean = if dtype == DType::F32 { 4096. } else { 64. };
                    let x =
                        (tensor(DType::F32, &[3, n], 6, Fill::Small)? + mean)?.to_dtype(dtype)?;
                    let weights = [
                        tensor(dtype, &[n], 7, Fill::Positive)?,
                        tensor(dtype, &[n], 8, Fill::Small)?,
                    ];
                    let [alpha, beta] = weights.map(Operand::of);
                    // The mean rounds by 2^-12 of the standard deviation.
                    let bound = crate::bound::Bound { abs: 2e-3, ..NORM };
                    check(d, &[Operand::of(x), alpha, beta], bound, |t| {
                        match t[0].dtype() {
                            DType::F64 => ops::layer_norm_slow(&t[0], &t[1], &t[2], 1e-5),
                            _ => ops::layer_norm(&t[0], &t[1], &t[2], 1e-5),
                        }
                    })?;
                }
                // The variance is 0.
                let x = Tensor::full(1000f32, (2, 333), d)?.to_dtype(dtype)?;
                let (one, zero) = (Tensor::ones(333, dtype, d)?, Tensor::zeros(333, dtype, d)?);
                let y = floats(&ops::layer_norm(&x, &one, &zero, 1e-5)?)?;
                ensure!(y.iter().all(|v| v.abs() < 0.05), "{:?}", &y[..4]);
                Ok(())
            },
        );
        cases.add(
            format!("peers/max_of_infinities/{}", dtype.as_str()),
            move |d| {
                for n in [1, 3, 64, 300, 3000] {
                    let x = Tensor::full(f32::NEG_INFINITY, (2, n), d)?.to_dtype(dtype)?;
                    ensure!(floats(&x.max(D::Minus1)?)? == [f64::NEG_INFINITY; 2]);
                    ensure!(floats(&x.neg()?.min(D::Minus1)?)? == [f64::INFINITY; 2]);
                    ensure!(floats(&x.max(0)?)? == vec![f64::NEG_INFINITY; n]);
                    ensure!(floats(&x.argmax(D::Minus1)?)? == [0., 0.]);
                }
                Ok(())
            },
        );
        cases.add(
            format!("peers/rms_norm_is_written/{}", dtype.as_str()),
            move |d| {
                let x = tensor(dtype, &[3, 40], 9, Fill::Positive)?.to_device(d)?;
                let one = Tensor::ones(40, dtype, d)?;
                let y = floats(&ops::rms_norm(&x, &one, 1e-5)?)?;
                ensure!(y.iter().all(|v| *v > 0.), "{y:?}");
                Ok(())
            },
        );
        cases.add(
            format!("peers/layer_norm_is_written/{}", dtype.as_str()),
            move |d| {
                let x = tensor(dtype, &[3, 40], 9, Fill::Positive)?.to_device(d)?;
                let (one, nine) = (Tensor::ones(40, dtype, d)?, Tensor::full(9f32, 40, d)?);
                let y = ops::layer_norm(&x, &one, &nine.to_dtype(dtype)?, 1e-5)?;
                let y = floats(&y)?;
                ensure!(y.iter().all(|v| *v > 1.), "{y:?}");
                Ok(())
            },
        );
    }
}

fn numbers(cases: &mut Cases) {
    cases.add("peers/affine_i64_beyond_2_24", |d| {
        let x = [(1i64 << 24) + 1, (1 << 53) + 1, -(1 << 40) - 1, 3];
        let y = Tensor::new(&x, d)?.affine(3., 1.)?.to_vec1::<i64>()?;
        ensure!(y == x.map(|v| v * 3 + 1), "{y:?}");
        let big = 5_000_000_000f64;
        let y = Tensor::new(&[2i64, -1], d)?
            .affine(big, -big)?
            .to_vec1::<i64>()?;
        ensure!(y == [5_000_000_000, -10_000_000_000], "{y:?}");
        Ok(())
    });
    cases.add("peers/affine_u32_beyond_2_24", |d| {
        let y = Tensor::new(&[(1u32 << 24) + 1, 1_000_000_007], d)?
            .affine(3., 2.)?
            .to_vec1::<u32>()?;
        ensure!(y == [(3 << 24) + 5, 3_000_000_023], "{y:?}");
        Ok(())
    });
    cases.add("peers/affine_f64_beyond_f32", |d| {
        let y = Tensor::new(&[3f64], d)?.affine(0.1, 1e-12)?;
        ensure!(y.to_vec1::<f64>()? == [3. * 0.1 + 1e-12]);
        Ok(())
    });
    cases.add("peers/softmax_has_no_race", |d| {
        // Without a barrier between reading the maximum and reusing its memory, some runs differ.
        for n in [65, 1000, 32000] {
            let x = tensor(DType::F32, &[64, n], 12, Fill::Small)?.to_device(d)?;
            let first = floats(&ops::softmax_last_dim(&x)?)?;
            for _ in 0..5 {
                let again = floats(&ops::softmax_last_dim(&x)?)?;
                let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                ensure!(bits(&first) == bits(&again), "{n}: another result");
            }
        }
        Ok(())
    });
    cases.add("peers/no_silent_nothing", |d| {
        let x = Tensor::new(&[1i64, 2], d)?;
        ensure!(x.exp().is_err(), "exp of i64");
        for dtype in [DType::F64, DType::I16, DType::I32, DType::F8E4M3] {
            let x = Tensor::new(&[1f32, 2.], &Device::Cpu)?.to_dtype(dtype)?;
            let here = x.to_device(d)?;
            close(&x.add(&x)?, &here.add(&here)?, EXACT)?;
            close(&x.sum(0)?, &here.sum(0)?, EXACT)?;
            close(&x.sign()?, &here.sign()?, EXACT)?;
            close(&x.to_dtype(DType::F32)?, &here.to_dtype(DType::F32)?, EXACT)?;
        }
        let x = Tensor::zeros((2, 3), DType::U8, d)?;
        ensure!(ops::softmax_last_dim(&x).is_err(), "softmax of u8");
        ensure!(x.matmul(&x.t()?).is_err(), "matmul of u8");
        d.synchronize()?;
        Ok(())
    });
    cases.add("peers/rand_below_the_upper_bound", |d| {
        for _ in 0..20 {
            let x = Tensor::rand(0f32, 1., 100_000, d)?;
            ensure!(x.max(0)?.to_scalar::<f32>()? < 1., "the upper bound");
            ensure!(x.min(0)?.to_scalar::<f32>()? >= 0.);
        }
        Ok(())
    });
    cases.add("peers/randn_is_finite", |d| {
        for _ in 0..20 {
            let x = Tensor::randn(0f32, 1., 100_000, d)?
                .abs()?
                .max(0)?
                .to_scalar::<f32>()?;
            ensure!(x.is_finite() && x < 9., "{x}");
        }
        Ok(())
    });
}
