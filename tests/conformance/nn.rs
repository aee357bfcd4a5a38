//! candle-nn's fused ops against their plain formulas in f64.

use candle_core::{DType, Tensor, D};
use candle_nn::{ops, rotary_emb};

use crate::bound::{NORM, ROPE, SOFTMAX};
use crate::case::Cases;
use crate::input::{check, named, same, tensor, Fill, Operand, FLOATS};

const LENGTHS: [usize; 10] = [1, 2, 3, 31, 64, 65, 288, 2048, 4099, 32000];
const EPS: f32 = 1e-5;

fn wide(t: &Tensor) -> bool {
    t.dtype() == DType::F64
}

fn softmax(t: &[Tensor]) -> candle_core::Result<Tensor> {
    match wide(&t[0]) {
        true if t[0].elem_count() == 0 => Ok(t[0].clone()),
        true => ops::softmax(&t[0], D::Minus1),
        false => ops::softmax_last_dim(&t[0]),
    }
}

fn rms_norm(t: &[Tensor]) -> candle_core::Result<Tensor> {
    match wide(&t[0]) {
        true if t[0].elem_count() == 0 => Ok(t[0].clone()),
        true => ops::rms_norm_slow(&t[0], &t[1], EPS),
        false => ops::rms_norm(&t[0], &t[1], EPS),
    }
}

fn layer_norm(t: &[Tensor]) -> candle_core::Result<Tensor> {
    match wide(&t[0]) {
        true if t[0].elem_count() == 0 => Ok(t[0].clone()),
        true => ops::layer_norm_slow(&t[0], &t[1], &t[2], EPS),
        false => ops::layer_norm(&t[0], &t[1], &t[2], EPS),
    }
}

/// x, alpha and beta for rows of `n`.
fn rows(dtype: DType, rows: usize, n: usize) -> anyhow::Result<[Operand; 3]> {
    let x = tensor(dtype, &[rows, n], 121, Fill::Small)?;
    let alpha = tensor(dtype, &[n], 122, Fill::Positive)?;
    let beta = tensor(dtype, &[n], 123, Fill::Small)?;
    Ok([x, alpha, beta].map(Operand::of))
}

pub fn add(cases: &mut Cases) {
    for dtype in FLOATS {
        let name = dtype.as_str();
        for n in LENGTHS {
            cases.add(format!("nn/softmax_last_dim/{name}/{n}"), move |d| {
                check(d, &rows(dtype, 5, n)?[..1], SOFTMAX, softmax)?;
                check(d, &rows(dtype, 1, n)?[..1], SOFTMAX, softmax)
            });
            cases.add(format!("nn/rms_norm/{name}/{n}"), move |d| {
                check(d, &rows(dtype, 5, n)?[..2], NORM, rms_norm)?;
                check(d, &rows(dtype, 1, n)?[..2], NORM, rms_norm)
            });
            cases.add(format!("nn/layer_norm/{name}/{n}"), move |d| {
                // One element minus its own mean is 0: only beta remains, whatever the rounding.
                check(d, &rows(dtype, 5, n)?, NORM, layer_norm)?;
                check(d, &rows(dtype, 1, n)?, NORM, layer_norm)
            });
            cases.add(format!("nn/sigmoid/{name}/{n}"), move |d| {
                let bound = crate::bound::FUNCTION;
                check(d, &rows(dtype, 2, n)?[..1], bound, |t| ops::sigmoid(&t[0]))
            });
        }
        layouts(cases, dtype);
        rope(cases, dtype);
        cases.add(format!("nn/softmax_last_dim/{name}/masked"), move |d| {
            // As in attention masks; a row of only -inf is NaN.
            let x = tensor(DType::F32, &[6, 70], 124, Fill::Small)?;
            let rows: Vec<f32> = (0..420)
                .map(|i| {
                    if i % 70 > 12 * (i / 70) {
                        f32::NEG_INFINITY
                    } else {
                        0.
                    }
                })
                .collect();
            let mask = Tensor::from_vec(rows, (6, 70), x.device())?;
            let x = Operand::of((x + mask)?.to_dtype(dtype)?);
            check(d, &[x], SOFTMAX, softmax)
        });
        cases.add(format!("nn/softmax_last_dim/{name}/great"), move |d| {
            let x = (tensor(DType::F32, &[4, 300], 125, Fill::Small)? * 20000.)?;
            check(d, &[Operand::of(x.to_dtype(dtype)?)], SOFTMAX, softmax)
        });
        cases.add(format!("nn/softmax/{name}/other_dims"), move |d| {
            let x = Operand::of(tensor(dtype, &[5, 7, 9], 126, Fill::Small)?);
            let near = crate::bound::Bound { ulps: 4, ..SOFTMAX };
            for dim in 0..3 {
                check(d, std::slice::from_ref(&x), near, |t| {
                    ops::softmax(&t[0], dim)
                })?;
            }
            Ok(())
        });
    }
}

fn layouts(cases: &mut Cases, dtype: DType) {
    for l in [
        "contiguous",
        "offset",
        "odd",
        "empty",
        "transposed",
        "strided",
        "broadcast",
    ] {
        cases.add(format!("nn/fused/{}/{l}", dtype.as_str()), move |d| {
            let x = Operand::new(named(l), dtype, 127, Fill::Small)?;
            let n = x.wide()?.dim(D::Minus1)?;
            let alpha = tensor(dtype, &[2 * n + 1], 128, Fill::Positive)?;
            let beta = tensor(dtype, &[n], 129, Fill::Small)?;
            // The weights begin at an odd offset.
            let alpha = Operand::of(alpha.narrow(0, 1, n)?);
            let all = [x, alpha, Operand::of(beta)];
            check(d, &all[..1], SOFTMAX, softmax)?;
            check(d, &all[..2], NORM, rms_norm)?;
            check(d, &all, NORM, layer_norm)
        });
    }
}

fn rope(cases: &mut Cases, dtype: DType) {
    for (b, heads, seq, dim) in [
        (1, 1, 1, 2),
        (1, 2, 1, 64),
        (2, 3, 5, 6),
        (1, 6, 7, 48),
        (3, 1, 33, 32),
    ] {
        let name = format!("{}/{b}x{heads}x{seq}x{dim}", dtype.as_str());
        let tables = move || -> anyhow::Result<[Tensor; 2]> {
            // Longer than the sequence, as in models, and at an offset.
            let angles = tensor(DType::F32, &[seq + 5, dim / 2], 131, Fill::Small)?;
            let part = |t: Tensor| t.to_dtype(dtype)?.narrow(0, 3, seq + 2);
            Ok([part(angles.cos()?)?, part(angles.sin()?)?])
        };
        let operands = move |dims: [usize; 4]| -> anyhow::Result<[Operand; 3]> {
            let [cos, sin] = tables()?;
            Ok([tensor(dtype, &dims, 132, Fill::Small)?, cos, sin].map(Operand::of))
        };
        cases.add(format!("nn/rope/{name}"), move |d| {
            check(d, &operands([b, heads, seq, dim])?, ROPE, |t| {
                match wide(&t[0]) {
                    true => rotary_emb::rope_slow(&t[0], &t[1], &t[2]),
                    false => rotary_emb::rope(&t[0], &t[1], &t[2]),
                }
            })
        });
        cases.add(format!("nn/rope_i/{name}"), move |d| {
            check(d, &operands([b, heads, seq, dim])?, ROPE, |t| {
                match wide(&t[0]) {
                    true => rotary_emb::rope_i_slow(&t[0], &t[1], &t[2]),
                    false => rotary_emb::rope_i(&t[0], &t[1], &t[2]),
                }
            })
        });
        cases.add(format!("nn/rope_thd/{name}"), move |d| {
            check(d, &operands([b, seq, heads, dim])?, ROPE, |t| {
                match wide(&t[0]) {
                    true => {
                        let x = t[0].transpose(1, 2)?.contiguous()?;
                        rotary_emb::rope_slow(&x, &t[1], &t[2])?.transpose(1, 2)
                    }
                    false => rotary_emb::rope_thd(&t[0], &t[1], &t[2]),
                }
            })
        });
    }
    if dtype == DType::F32 {
        cases.add("nn/rope/f32/tables_per_batch", |d| {
            let x = tensor(DType::F32, &[2, 3, 5, 8], 133, Fill::Small)?;
            let angles = tensor(DType::F32, &[2, 5, 4], 134, Fill::Small)?;
            let operands = [x, angles.cos()?, angles.sin()?].map(Operand::of);
            same(d, &operands, ROPE, |t| {
                rotary_emb::rope(&t[0], &t[1], &t[2])
            })?;
            same(d, &operands, ROPE, |t| {
                rotary_emb::rope_i(&t[0], &t[1], &t[2])
            })?;
            let thd = [
                operands[0]
                    .on(&candle_core::Device::Cpu)?
                    .transpose(1, 2)?
                    .contiguous()?,
                angles.cos()?,
                angles.sin()?,
            ];
            same(d, &thd.map(Operand::of), ROPE, |t| {
                rotary_emb::rope_thd(&t[0], &t[1], &t[2])
            })
        });
    }
}
