//! Attention as in candle-transformers' models, which the rule `attention` fuses into one kernel.

use candle_core::{DType, Device, Tensor};

use crate::bound::{Bound, ATTENTION, EXACT};
use crate::draw::{call, Drawer};
use crate::graph::Call;
use crate::input::{tensor, Fill};
use crate::op::named;

/// A leaf of numbers of magnitude at most 2.
pub fn small(d: &mut Drawer, dtype: DType, dims: &[usize]) -> Option<usize> {
    let seed = d.rng.next();
    Some(d.leaf(tensor(dtype, dims, seed, Fill::Small).ok()?))
}

/// (b, n, t, d) of numbers of magnitude at most 2; sometimes, as after a projection, a transposed (b, t, n, d).
fn heads(d: &mut Drawer, dtype: DType, [b, n, t, width]: [usize; 4]) -> Option<usize> {
    let across = d.chance(50);
    let dims = match across {
        true => [b, t, n, width],
        false => [b, n, t, width],
    };
    let leaf = small(d, dtype, &dims)?;
    match across {
        true => d.call("transpose", vec![leaf], vec![1, 2]),
        false => Some(leaf),
    }
}

fn cast(d: &mut Drawer, x: usize, to: DType) -> Option<usize> {
    if d.dtype_of(x) == to {
        return Some(x);
    }
    let cast = Call {
        to,
        ..call(vec![x], vec![])
    };
    d.push(named("to_dtype")?, cast).ok()?
}

pub fn scaled(d: &mut Drawer, x: usize, by: f64) -> Option<usize> {
    let affine = Call {
        f: vec![by, 0.],
        ..call(vec![x], vec![])
    };
    d.push(named("affine")?, affine).ok()?
}

/// A causal mask: -inf replaces the scores of later keys, or is added to them.
fn masked(d: &mut Drawer, scores: usize) -> Option<usize> {
    let (dims, dtype) = (d.dims_of(scores), d.dtype_of(scores));
    let (i, j) = (dims[2], dims[3]);
    let hidden = (0..i * j).map(|at| at % j > at / j + j - i);
    let fill = |values: Vec<f32>, dims: &[usize]| {
        let t = Tensor::from_vec(values, dims, &Device::Cpu)?;
        t.to_dtype(dtype)
    };
    if d.chance(50) {
        let values = hidden.map(|h| if h { f32::NEG_INFINITY } else { 0. });
        let mask = d.leaf(fill(values.collect(), &[i, j]).ok()?);
        return d.call("broadcast_add", vec![scores, mask], vec![]);
    }
    let marks = Tensor::from_vec(hidden.map(u8::from).collect(), (i, j), &Device::Cpu).ok()?;
    let marks = d.leaf(marks);
    let marks = d.call("broadcast_as", vec![marks], dims.clone())?;
    let low = d.leaf(fill(vec![f32::NEG_INFINITY], &[1]).ok()?);
    let low = d.call("broadcast_as", vec![low], dims)?;
    d.call("where_cond", vec![marks, low, scores], vec![])
}

/// How far the rule's results may differ from those of its ops: sums have another order, and the kernels do not round
/// scores to f16 or bf16 (docs/fusion.md).
fn bound(dtype: DType) -> Bound {
    let abs = match dtype {
        DType::F32 => ATTENTION.abs,
        DType::F16 => 1e-2,
        _ => 2e-2,
    };
    Bound { abs, ..EXACT }
}

/// softmax(q k^T / sqrt(d) + mask) v, with heads of k and v repeated, in f32 or in the dtype.
pub fn attention(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let (b, g, each) = (d.between(1, 2), d.between(1, 2), d.between(1, 3));
    let (i, width) = (d.one_of(&[1, 1, 2, 9, 20]), 4 * d.between(1, 8));
    let j = i + d.between(0, 40);
    let q = heads(d, dtype, [b, g * each, i, width])?;
    let mut kv = [0; 2];
    let in_f32 = d.chance(50);
    for x in &mut kv {
        *x = heads(d, dtype, [b, g, j, width])?;
        if each > 1 {
            let all = d.call("cat", vec![*x; each], vec![2])?;
            *x = d.call("reshape", vec![all], vec![b, g * each, j, width])?;
        }
    }
    let wide = if in_f32 { DType::F32 } else { dtype };
    let q = cast(d, q, wide)?;
    let [k, v] = [cast(d, kv[0], wide)?, cast(d, kv[1], wide)?];
    let scores = d.call("matmul_t", vec![q, k], vec![])?;
    let mut scores = scaled(d, scores, 1. / (width as f64).sqrt())?;
    if d.chance(20) {
        let part = scaled(d, scores, 0.5)?;
        let part = d.call("tanh", vec![part], vec![])?;
        scores = scaled(d, part, 2.)?;
    }
    if i > 1 && d.chance(80) {
        scores = masked(d, scores)?;
    }
    let weights = d.call("softmax_last_dim", vec![scores], vec![])?;
    let y = d.call("matmul", vec![weights, v], vec![])?;
    let y = cast(d, y, dtype)?;
    d.graph.nodes[y].near = Some(bound(dtype));
    Some(y)
}
