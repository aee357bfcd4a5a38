//! Runs of ops that fusion rules rewrite: no intermediate result is read back or held. No other case may run meanwhile,
//! since its readbacks would split the batches.

use candle_core::{DType, Device, Tensor, D};
use candle_nn::{ops, rotary_emb};

use crate::bound::{self, Bound, ARITH, EXACT, MATMUL, NORM, ROPE};
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

/// As in candle-transformers' llama, with repeated heads of k and v and scores in f32.
fn attention(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let [q, k, v] = [0, 1, 2].map(|i| t[i].clone());
    let dtype = q.dtype();
    let (b, h, i, d) = q.dims4()?;
    let (_, g, j, _) = k.dims4()?;
    let repeat = |x: Tensor| -> candle_core::Result<Tensor> {
        Tensor::cat(&vec![&x; h / g], 2)?.reshape((b, h, j, d))
    };
    let wide = |x: Tensor| match dtype {
        DType::F64 => Ok(x),
        _ => x.to_dtype(DType::F32),
    };
    let (q, k, v) = (wide(q)?, wide(repeat(k)?)?, wide(repeat(v)?)?);
    let scores = (q.matmul(&k.t()?)? / (d as f64).sqrt())?;
    let scores = match i {
        1 => scores,
        _ => {
            let marks: Vec<u8> = (0..i * j)
                .map(|at| u8::from(at % j + i > at / j + j))
                .collect();
            let marks = Tensor::from_vec(marks, (i, j), q.device())?;
            let hidden = Tensor::new(f32::NEG_INFINITY, q.device())?.to_dtype(scores.dtype())?;
            let shape = scores.shape().clone();
            marks
                .broadcast_as(&shape)?
                .where_cond(&hidden.broadcast_as(&shape)?, &scores)?
        }
    };
    let weights = match dtype {
        DType::F64 => ops::softmax(&scores, 3)?,
        _ => ops::softmax_last_dim(&scores)?,
    };
    weights.matmul(&v)?.to_dtype(dtype)
}

/// A sum, which is returned, too, and its rms_norm; with a beta, its layer_norm.
fn add_norm(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let sum = (&t[0] + &t[1])?;
    let norm = match (sum.dtype(), t.get(3)) {
        (DType::F64, Some(beta)) => ops::layer_norm_slow(&sum, &t[2], beta, 1e-5)?,
        (DType::F64, None) => ops::rms_norm_slow(&sum, &t[2], 1e-5)?,
        (_, Some(beta)) => ops::layer_norm(&sum, &t[2], beta, 1e-5)?,
        (_, None) => ops::rms_norm(&sum, &t[2], 1e-5)?,
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

/// The norm of a row, and its matmuls with two or three matrices: side by side, or as in [`gated`].
fn rms_norm_matmul(t: &[Tensor], is_gated: bool) -> candle_core::Result<Tensor> {
    let x = match t[0].dtype() {
        DType::F64 => ops::rms_norm_slow(&t[0], &t[1], 1e-5)?,
        _ => ops::rms_norm(&t[0], &t[1], 1e-5)?,
    };
    let all: Vec<Tensor> = [&[x], &t[2..]].concat();
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

/// rope of queries and keys by the same angles.
fn rope_qk(t: &[Tensor]) -> candle_core::Result<Tensor> {
    Tensor::cat(&rotated(t)?, 1)
}

fn rotated(t: &[Tensor]) -> candle_core::Result<[Tensor; 2]> {
    let rope = |x: &Tensor| match x.dtype() {
        DType::F64 => rotary_emb::rope_slow(x, &t[2], &t[3]),
        _ => rotary_emb::rope(x, &t[2], &t[3]),
    };
    Ok([rope(&t[0])?, rope(&t[1])?])
}

/// The same, then keys and values are appended to a cache.
fn rope_kv_cache(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let [q, k] = rotated(t)?;
    let keys = Tensor::cat(&[&t[4], &k], 2)?;
    let values = Tensor::cat(&[&t[5], &t[6]], 2)?;
    drop(k);
    Tensor::cat(
        &[q.flatten_all()?, keys.flatten_all()?, values.flatten_all()?],
        0,
    )
}

/// The same for one query, and the attention that reads the caches, for each of several tokens.
fn decoded(t: &[Tensor], tokens: usize) -> candle_core::Result<Tensor> {
    let (mut keys, mut values) = (t[4].clone(), t[5].clone());
    let mut all = Vec::new();
    for _ in 0..tokens {
        let [q, k] = rotated(t)?;
        keys = Tensor::cat(&[&keys, &k], 2)?;
        values = Tensor::cat(&[&values, &t[6]], 2)?;
        drop(k);
        all.push(attention(&[q, keys.clone(), values.clone()])?.flatten_all()?);
    }
    all.extend([keys.flatten_all()?, values.flatten_all()?]);
    Tensor::cat(&all, 0)
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
        cases.alone(format!("rewrite/rope_qk/{name}"), move |d| {
            let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
            let (q, k) = (of(431, &[2, 3, 4, 16])?, of(432, &[2, 3, 2, 16])?);
            let all = [q, k, of(433, &[3, 8])?, of(434, &[3, 8])?];
            check(d, &all.map(Operand::of), ROPE, |t| {
                let heads = |x: &Tensor| x.transpose(1, 2)?.contiguous();
                rope_qk(&[heads(&t[0])?, heads(&t[1])?, t[2].clone(), t[3].clone()])
            })
        });
        cases.alone(format!("rewrite/rope_kv_cache/{name}"), move |d| {
            let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
            let (q, k) = (of(431, &[1, 4, 3, 16])?, of(432, &[1, 2, 3, 16])?);
            let (cos, sin) = (of(433, &[3, 8])?, of(434, &[3, 8])?);
            let (keys, values) = (of(435, &[1, 2, 9, 16])?, of(436, &[1, 2, 9, 16])?);
            let all = [q, k, cos, sin, keys, values, of(437, &[1, 2, 3, 16])?];
            check(d, &all.map(Operand::of), ROPE, rope_kv_cache)
        });
        let sizes = [
            (1, 4, 2, 9),
            (2, 4, 4, 70),
            (1, 4, 1, 600),
            (2, 4, 2, 62),
            // flash_decode_coop.
            (64, 16, 2, 140),
        ];
        let ops = [("rope_attention", 1), ("growing_cache", 3)];
        for ((op, tokens), (b, h, g, j)) in ops.into_iter().flat_map(|op| sizes.map(|s| (op, s))) {
            let case = format!("rewrite/{op}/{name}/{b}x{h}x{g}x{j}");
            cases.alone(case, move |d| {
                let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
                let (q, k) = (of(431, &[b, h, 1, 16])?, of(432, &[b, g, 1, 16])?);
                // Quarter turns, which are exact: a rounding of a query would change all scores.
                let turns = |of: [f32; 4]| {
                    let all = Tensor::from_vec(of.repeat(2), (1, 8), &Device::Cpu)?;
                    all.to_dtype(dtype)
                };
                let (cos, sin) = (turns([1., 0., -1., 0.])?, turns([0., 1., 0., -1.])?);
                let (keys, values) = (of(435, &[b, g, j, 16])?, of(436, &[b, g, j, 16])?);
                let all = [q, k, cos, sin, keys, values, of(437, &[b, g, 1, 16])?];
                let bound = bound::attention(dtype, d)?;
                check(d, &all.map(Operand::of), bound, |t| decoded(t, tokens))
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
        for [b, h, g, i, j, d] in [
            [1, 8, 2, 1, 150, 16],
            [2, 4, 4, 1, 33, 8],
            [2, 6, 2, 13, 40, 32],
            [1, 4, 2, 130, 130, 64],
            [1, 2, 2, 70, 200, 96],
            [1, 4, 2, 320, 700, 16],
        ] {
            cases.alone(
                format!("rewrite/attention/{name}/{h}x{i}x{j}"),
                move |device| {
                    let q = tensor(dtype, &[b, h, i, d], 411, Fill::Small)?;
                    let k = tensor(dtype, &[b, g, j, d], 412, Fill::Small)?;
                    let v = tensor(dtype, &[b, g, j, d], 413, Fill::Small)?;
                    let bound = bound::attention(dtype, device)?;
                    check(device, &[q, k, v].map(Operand::of), bound, attention)
                },
            );
        }
    }
}
