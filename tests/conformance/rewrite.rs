//! Runs of ops that fusion rules rewrite: no intermediate result is read back or held. No other case may run meanwhile,
//! since its readbacks would split the batches.

mod attention;

use candle_core::{DType, Device, Tensor, D};
use candle_nn::ops;

use crate::bound::{self, Bound, ARITH, EXACT, MATMUL, NORM};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, ALL, FLOATS};

/// Matmuls of the same rows.
fn projections(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let products = t[1..].iter().map(|w| t[0].matmul(&w.t()?));
    Tensor::cat(&products.collect::<candle_core::Result<Vec<_>>>()?, 1)
}

/// Called with each intermediate result.
type Step<'a> = &'a mut dyn FnMut(Tensor) -> candle_core::Result<Tensor>;
type Run = fn(&[Tensor], Step<'_>) -> candle_core::Result<Tensor>;

/// A linear layer with a bias, gelu, and an addition.
fn linear_gelu(t: &[Tensor], step: Step<'_>) -> candle_core::Result<Tensor> {
    let y = step(t[0].matmul(&t[1].t()?)?)?;
    let y = step(y.broadcast_add(&t[2])?)?;
    step(y.gelu()?)? + &t[3]
}

/// Matmuls of the same rows, each with a bias.
fn biased_projections(t: &[Tensor], step: Step<'_>) -> candle_core::Result<Tensor> {
    let layers = t[1..].chunks_exact(2);
    let sums = layers.map(|layer| step(t[0].matmul(&layer[0].t()?)?)?.broadcast_add(&layer[1]));
    Tensor::cat(&sums.collect::<candle_core::Result<Vec<_>>>()?, 1)
}

/// As in candle-transformers' llama: silu(x gate^T) (x up^T).
fn gated(t: &[Tensor], step: Step<'_>) -> candle_core::Result<Tensor> {
    let gate = step(t[0].matmul(&t[1].t()?)?)?;
    step(ops::silu(&gate)?)? * step(t[0].matmul(&t[2].t()?)?)?
}

/// A run in which nothing is held gives the same bits as one in which all results are; the ops have their own cases.
fn same_bits(device: &Device, operands: &[Tensor], run: Run) -> anyhow::Result<()> {
    let here = operands.iter().map(|t| t.to_device(device));
    let here = here.collect::<candle_core::Result<Vec<_>>>()?;
    let made = run(&here, &mut Ok)?;
    let mut held = Vec::new();
    let expected = run(&here, &mut |t| {
        held.push(t.clone());
        device.synchronize()?;
        Ok(t)
    })?;
    bound::close(&expected, &made, EXACT)
}

/// A sum, which is returned, too, and its rms_norm; with a beta, its layer_norm.
fn add_norm(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let sum = (&t[0] + &t[1])?;
    let norm = match (sum.dtype(), t.get(3)) {
        (_, None) => rms_norm(&sum, &t[2])?,
        (DType::F64, Some(beta)) => ops::layer_norm_slow(&sum, &t[2], beta, 1e-5)?,
        (_, Some(beta)) => ops::layer_norm(&sum, &t[2], beta, 1e-5)?,
    };
    Tensor::stack(&[sum, norm], 0)
}

/// Like [`NORM`], but [`norm_by_ops`] rounds three times to the dtype, each by at most half a unit in the last place, which may be a
/// whole one of the result.
const NORM_BY_OPS: Bound = Bound { ulps: 3, ..NORM };

/// As in candle-transformers' gemma: an RMS norm by single ops, in f32.
fn norm_by_ops(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let dtype = t[0].dtype();
    let x = match dtype {
        DType::F64 => t[0].clone(),
        _ => t[0].to_dtype(DType::F32)?,
    };
    let mean = (x.sqr()?.sum_keepdim(D::Minus1)? / x.dim(D::Minus1)? as f64)?;
    let y = x.broadcast_div(&(mean + 1e-6)?.sqrt()?)?.to_dtype(dtype)?;
    y.broadcast_mul(&(&t[1] + 1.)?)
}

fn rms_norm(x: &Tensor, alpha: &Tensor) -> candle_core::Result<Tensor> {
    match x.dtype() {
        DType::F64 => ops::rms_norm_slow(x, alpha, 1e-5),
        _ => ops::rms_norm(x, alpha, 1e-5),
    }
}

/// The norm of a row, and its matmuls with two or three matrices: side by side, or as in [`gated`].
fn rms_norm_matmul(t: &[Tensor], is_gated: bool) -> candle_core::Result<Tensor> {
    let all: Vec<Tensor> = [&[rms_norm(&t[0], &t[1])?], &t[2..]].concat();
    match is_gated {
        true => gated(&all, &mut Ok),
        false => projections(&all),
    }
}

/// The bound between runs that round the norm to its dtype before the matmul and runs that do not. With weights up to 2
/// / sqrt(k) and squares of h that add up to at most 4 k, six standard deviations of the sum of the roundings are 6 u /
/// sqrt(3) 2 sqrt(k) 2 / sqrt(k), 14 u; in f32, which adds several hundred terms one by one, sums of magnitude at most
/// 8 have 32 u of 4 each. silu(gate) up of such values, at most 4 for all seeds here, is off by 1.1 * 4 + 4 times as
/// much, and by the rounding of products of at most 4 to the dtype: 4 u each.
fn rms_norm_matmul_bound(dtype: DType, is_gated: bool) -> Bound {
    let of_one = match dtype {
        DType::F16 => 14. / 2048.,
        DType::BF16 => 14. / 256.,
        _ => 128. / f64::from(1 << 24),
    };
    Bound {
        abs: if is_gated { 11. * of_one } else { of_one },
        ..MATMUL
    }
}

/// A value divided by itself and minus itself, both NaN if it is infinite, fused with the op that computes it.
fn same_operands(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let x = t[0].abs()?;
    let quotient = x.div(&x)?;
    let none = t[0].neg()?;
    let difference = none.sub(&none)?;
    Tensor::stack(&[quotient, difference], 0)
}

pub fn add(cases: &mut Cases) {
    attention::add(cases);
    for dtype in ALL {
        cases.alone(format!("rewrite/transposes/{}", dtype.as_str()), move |d| {
            let x = tensor(dtype, &[2, 48, 72], 441, Fill::Special)?;
            check(d, &[Operand::of(x)], EXACT, |t| {
                t[0].transpose(1, 2)?.force_contiguous()
            })
        });
    }
    for dtype in FLOATS {
        let name = dtype.as_str();
        cases.alone(format!("rewrite/same_operands/{name}"), move |d| {
            let special = [0., -0., 1., -3., f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            let x = Tensor::new(&special.repeat(5)[..], &Device::Cpu)?.to_dtype(dtype)?;
            check(d, &[Operand::of(x)], ARITH, same_operands)
        });
        for (what, operands) in [("rms_norm", 3), ("layer_norm", 4)] {
            cases.alone(format!("rewrite/add_norm/{what}/{name}"), move |d| {
                let of =
                    |dims: &[usize], seed, fill| Ok(Operand::of(tensor(dtype, dims, seed, fill)?));
                let all = [
                    // Sums that are exact in every dtype, since the difference from their mean would magnify a rounding.
                    of(&[5, 48], 421, Fill::Ties),
                    of(&[5, 48], 422, Fill::Ties),
                    of(&[48], 423, Fill::Positive),
                    of(&[48], 426, Fill::Small),
                ];
                let all: anyhow::Result<Vec<Operand>> = all.into_iter().take(operands).collect();
                check(d, &all?, NORM, add_norm)
            });
        }
        for n in [48, 5000] {
            cases.alone(format!("rewrite/norm_by_ops/{name}/{n}"), move |d| {
                let x = tensor(dtype, &[5, n], 424, Fill::Small)?;
                let alpha = tensor(dtype, &[n], 425, Fill::Small)?;
                check(d, &[x, alpha].map(Operand::of), NORM_BY_OPS, norm_by_ops)
            });
        }
        for m in [1, 5] {
            cases.alone(format!("rewrite/rms_norm/{name}/{m}"), move |d| {
                let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
                let w = (of(428, &[72, 256])? / 16.)?;
                let all = [of(426, &[m, 256])?, of(427, &[256])?, w];
                // The norm is rounded three times instead of once (a factor of sqrt(3)), and its weights are within 3 instead of 2.
                let one = rms_norm_matmul_bound(dtype, false);
                let bound = Bound {
                    abs: 2.6 * one.abs,
                    ..one
                };
                check(d, &all.map(Operand::of), bound, |t| {
                    norm_by_ops(t)?.matmul(&t[2].t()?)
                })
            });
        }
        for (m, k, columns) in [
            (1, 512, [40, 8, 8]),
            (3, 640, [12, 4100, 4100]),
            (8, 64, [7, 9, 5]),
            // gemv_coop.
            (8, 576, [48, 16, 32]),
            (20, 192, [4096, 16, 4128]),
        ] {
            cases.alone(
                format!("rewrite/fused_projections/{name}/{m}x{k}"),
                move |d| {
                    let x = tensor(dtype, &[m, k], 401, Fill::Small)?;
                    let mut operands = vec![Operand::of(x)];
                    for (seed, n) in (402..).zip(columns) {
                        operands.push(Operand::of(tensor(dtype, &[n, k], seed, Fill::Small)?));
                    }
                    check(d, &operands, MATMUL, projections)
                },
            );
            cases.add(
                format!("rewrite/projection_bias/{name}/{m}x{k}"),
                move |d| {
                    let mut operands = vec![tensor(dtype, &[m, k], 401, Fill::Small)?];
                    for (seed, n) in (402..).step_by(2).zip(columns) {
                        operands.push(tensor(dtype, &[n, k], seed, Fill::Small)?);
                        operands.push(tensor(dtype, &[n], seed + 1, Fill::Small)?);
                    }
                    same_bits(d, &operands, biased_projections)
                },
            );
        }
        for (m, k, columns) in [
            (1, 64, [40, 40, 8]),
            (1, 1032, [40, 40, 8]),
            (1, 512, [4100, 4100, 7]),
            (2, 96, [12, 12, 5]),
        ] {
            for is_gated in [false, true] {
                let what = if is_gated {
                    "gated"
                } else {
                    "fused_projections"
                };
                cases.alone(
                    format!("rewrite/rms_norm_matmul/{what}/{name}/{m}x{k}"),
                    move |d| {
                        let x = tensor(dtype, &[m, k], 451, Fill::Small)?;
                        let alpha = tensor(dtype, &[k], 452, Fill::Small)?;
                        let mut operands = [x, alpha].map(Operand::of).to_vec();
                        let scale = 1. / (k as f64).sqrt();
                        for (seed, n) in (453..).zip(columns) {
                            let w = tensor(DType::F64, &[n, k], seed, Fill::Small)?;
                            operands.push(Operand::of((w * scale)?.to_dtype(dtype)?));
                        }
                        let bound = rms_norm_matmul_bound(dtype, is_gated);
                        check(d, &operands, bound, |t| rms_norm_matmul(t, is_gated))
                    },
                );
            }
        }
        cases.alone(format!("rewrite/norm_scale_lines/{name}"), move |d| {
            let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
            let (h, x) = (of(455, &[40, 256])?, of(456, &[40, 256])?);
            let all = [h, x, of(457, &[256])?, (of(458, &[72, 256])? / 16.)?];
            let bound = rms_norm_matmul_bound(dtype, false);
            check(d, &all.map(Operand::of), bound, |t| {
                rms_norm_matmul(&[t[0].add(&t[1])?, t[2].clone(), t[3].clone()], false)
            })
        });
        for (m, k, n) in [
            (1, 512, 40),
            (3, 640, 4100),
            (8, 64, 7),
            (8, 1088, 4112),
            (30, 576, 4112),
            (50, 96, 72),
            // gemm_coop: quads, and large tiles.
            (70, 100, 40),
            (300, 128, 6016),
        ] {
            let dims: [(&str, Run, &[&[usize]]); 2] = [
                ("gated", gated, &[&[m, k], &[n, k], &[n, k]]),
                ("gelu", linear_gelu, &[&[m, k], &[n, k], &[n], &[m, n]]),
            ];
            for (what, run, dims) in dims {
                let dims: Vec<Vec<usize>> = dims.iter().map(|d| d.to_vec()).collect();
                cases.add(
                    format!("rewrite/epilogues/{what}/{name}/{m}x{k}"),
                    move |d| {
                        let seeded = (421..).zip(&dims);
                        let operands =
                            seeded.map(|(seed, dims)| tensor(dtype, dims, seed, Fill::Small));
                        let operands = operands.collect::<anyhow::Result<Vec<_>>>()?;
                        same_bits(d, &operands, run)
                    },
                );
            }
        }
    }
}
