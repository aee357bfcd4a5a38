//! Attention by single ops, and what models do before it: QK norms, RoPE and KV caches.

use candle_core::{DType, Device, Tensor};
use candle_nn::{ops, rotary_emb};

use super::rms_norm;
use crate::bound::{self, NORM, ROPE};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, FLOATS};

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

/// Cosines and sines (t, d / 2) of turns that are exact.
fn quarter_turns((t, d): (usize, usize), dtype: DType) -> candle_core::Result<[Tensor; 2]> {
    let turns = |of: [f32; 4]| {
        let all = Tensor::from_vec(of.repeat(t * d / 8), (t, d / 2), &Device::Cpu);
        all?.to_dtype(dtype)
    };
    Ok([turns([1., 0., -1., 0.])?, turns([0., 1., 0., -1.])?])
}

/// As in candle-transformers' qwen3: the same of normalized rows.
fn qk_norm(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let [q, k] = [(&t[0], &t[4]), (&t[1], &t[5])].map(|(x, alpha)| rms_norm(x, alpha));
    rope_qk(&[q?, k?, t[2].clone(), t[3].clone()])
}

/// The same as `rope_qk`, then keys and values are appended to a cache.
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

pub fn add(cases: &mut Cases) {
    for dtype in FLOATS {
        let name = dtype.as_str();
        cases.alone(format!("rewrite/rope_qk/{name}"), move |d| {
            let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
            let (q, k) = (of(431, &[2, 3, 4, 16])?, of(432, &[2, 3, 2, 16])?);
            let all = [q, k, of(433, &[3, 8])?, of(434, &[3, 8])?];
            check(d, &all.map(Operand::of), ROPE, |t| {
                let heads = |x: &Tensor| x.transpose(1, 2)?.contiguous();
                rope_qk(&[heads(&t[0])?, heads(&t[1])?, t[2].clone(), t[3].clone()])
            })
        });
        for (t, d) in [(1, 16), (3, 128)] {
            cases.alone(format!("rewrite/qk_norm/{name}/{t}x{d}"), move |device| {
                let of = |seed, dims: &[usize]| tensor(dtype, dims, seed, Fill::Small);
                let (q, k) = (of(431, &[2, 4, t, d])?, of(432, &[2, 2, t, d])?);
                let [cos, sin] = quarter_turns((t, d), dtype)?;
                let all = [q, k, cos, sin, of(438, &[d])?, of(439, &[d])?];
                check(device, &all.map(Operand::of), NORM, qk_norm)
            });
        }
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
                // A rounding of a query would change all scores.
                let [cos, sin] = quarter_turns((1, 16), dtype)?;
                let (keys, values) = (of(435, &[b, g, j, 16])?, of(436, &[b, g, j, 16])?);
                let all = [q, k, cos, sin, keys, values, of(437, &[b, g, 1, 16])?];
                let bound = bound::attention(dtype, d)?;
                check(d, &all.map(Operand::of), bound, |t| decoded(t, tokens))
            });
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
