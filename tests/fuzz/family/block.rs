//! Runs of ops as in transformers, which fusion rules rewrite: they fire in the lazy run if nothing holds the
//! intermediate results.

use candle_core::DType;

use super::attention::{attention, scaled, small};
use crate::bound::{Bound, EXACT, SOFTMAX};
use crate::draw::{call, Drawer};
use crate::graph::Call;
use crate::op::named;
use crate::ops::Wants;

/// One of them; None if its operands could not be drawn.
pub fn block(d: &mut Drawer, dtype: DType) -> Option<usize> {
    d.wants = Wants::Calm;
    let first = d.graph.nodes.len();
    let last = match d.between(0, 9) {
        0 | 1 => mlp(d, dtype),
        2 => heads(d, dtype),
        3 => chain(d, dtype),
        4 => across(d, dtype),
        5 => normed(d, dtype),
        6 if d.is_large() => long(d, dtype),
        _ => attention(d, dtype),
    };
    // Usually nothing holds the intermediate results.
    if d.chance(75) {
        let end = last.unwrap_or(d.graph.nodes.len());
        let inner = d.graph.nodes.iter_mut().take(end).skip(first);
        inner.for_each(|node| node.brief = true);
    }
    last
}

/// Matmuls of the same rows, silu and multiply, a sum and its norm.
fn mlp(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let (m, k) = (d.between(1, 9), 8 * d.between(1, 12));
    let n = d.one_of(&[1, 4, 4, 4]) * d.between(1, 12);
    // Results stay near 1.
    let x = small(d, dtype, &[m, k])?;
    let x = scaled(d, x, 1. / (k as f64).sqrt())?;
    // Two different ones.
    let weights = [small(d, dtype, &[n, k])?, small(d, dtype, &[n, k])?];
    let residual = d.of(dtype, &[m, n])?;
    let alpha = d.of(dtype, &[n])?;
    let gate = d.call("matmul_t", vec![x, weights[0]], vec![])?;
    let gate = d.call("silu", vec![gate], vec![])?;
    let up = d.call("matmul_t", vec![x, weights[1]], vec![])?;
    let y = d.call("mul", vec![gate, up], vec![])?;
    if !d.is_calm(y) {
        return None;
    }
    let y = d.call("add", vec![y, residual], vec![])?;
    if !d.is_calm(y) {
        return None;
    }
    let norm = Call {
        f: vec![1e-5],
        ..call(vec![y, alpha], vec![])
    };
    d.push(named("rms_norm")?, norm).ok()?
}

/// A row, its norm and one to three matmuls of the norm.
fn normed(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let k = 8 * d.between(1, 40);
    let x = small(d, dtype, &[1, k])?;
    let alpha = small(d, dtype, &[k])?;
    let norm = Call {
        f: vec![1e-5],
        ..call(vec![x, alpha], vec![])
    };
    let x = d.push(named("rms_norm")?, norm).ok()??;
    let mut last = None;
    for _ in 0..d.between(1, 3) {
        let n = d.between(1, 40);
        let w = small(d, dtype, &[n, k])?;
        let y = d.call("matmul_t", vec![x, w], vec![])?;
        // The rule does not round the norm; its ops do, by u h / sqrt(3) each, where the squares of h add up to at most
        // 4 k. The bound is six standard deviations for weights of magnitude at most 2, and as much for the rounding of
        // sums of magnitude at most 8 sqrt(k).
        let u = match dtype {
            DType::F16 => 1. / 2048.,
            DType::BF16 => 1. / 256.,
            _ => 4. / f64::from(1 << 24),
        };
        let abs = 30. * u * (k as f64).sqrt();
        d.graph.nodes[y].near = Some(Bound { abs, ..EXACT });
        last = Some(y);
    }
    last
}

/// rope of queries and keys; keys and values are appended to a cache.
fn heads(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let (g, t, dim) = (d.between(1, 3), d.between(1, 3), 4 * d.between(1, 4));
    let (past, each) = (d.between(1, 9), d.between(1, 3));
    let q = d.of(dtype, &[1, g * each, t, dim])?;
    let k = d.of(dtype, &[1, g, t, dim])?;
    let v = d.of(dtype, &[1, g, t, dim])?;
    let angles = [d.of(dtype, &[t, dim / 2])?, d.of(dtype, &[t, dim / 2])?];
    let caches = [
        d.of(dtype, &[1, g, past, dim])?,
        d.of(dtype, &[1, g, past, dim])?,
    ];
    let rope = |x| vec![x, angles[0], angles[1]];
    d.call("rope", rope(q), vec![])?;
    let k = d.call("rope", rope(k), vec![])?;
    d.call("cat", vec![caches[0], k], vec![2])?;
    d.call("cat", vec![caches[1], v], vec![2])
}

/// A transposing copy, in tiles of whole quads.
fn across(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let dims = [d.between(1, 2), 4 * d.between(4, 10), 4 * d.between(4, 10)];
    let x = small(d, dtype, &dims)?;
    let x = d.call("transpose", vec![x], vec![1, 2])?;
    d.call("force_contiguous", vec![x], vec![])
}

/// Softmax of rows long enough to be split, in graphs with large tensors.
fn long(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let dims = [d.between(1, 2), 3 * 8192 + d.between(0, 9)];
    let x = small(d, dtype, &dims)?;
    let y = d.call("softmax_last_dim", vec![x], vec![])?;
    // Each differs from the CPU's by at most this.
    d.graph.nodes[y].near = Some(Bound {
        abs: 2. * SOFTMAX.abs,
        rel: 2. * SOFTMAX.rel,
        ulps: 2 * SOFTMAX.ulps,
    });
    Some(y)
}

/// Elementwise ops and casts.
fn chain(d: &mut Drawer, dtype: DType) -> Option<usize> {
    let dims = [d.between(1, 9), d.between(1, 40)];
    let mut x = d.of(dtype, &dims)?;
    for _ in 0..d.between(2, 9) {
        if !d.is_calm(x) {
            return None;
        }
        let dtype = d.dtype_of(x);
        x = match d.between(0, 5) {
            0 => d.call("silu", vec![x], vec![])?,
            1 => d.call("tanh", vec![x], vec![])?,
            2 | 3 => {
                let y = d.of(dtype, &dims)?;
                let op = d.one_of(&["add", "mul", "sub", "maximum"]);
                d.call(op, vec![x, y], vec![])?
            }
            4 => {
                let y = d.of(dtype, &dims[1..])?;
                d.call("broadcast_add", vec![x, y], vec![])?
            }
            _ => {
                let to = d.one_of(&[DType::F32, DType::F16, DType::BF16]);
                let cast = Call {
                    to,
                    ..call(vec![x], vec![])
                };
                d.push(named("to_dtype")?, cast).ok()??
            }
        };
    }
    Some(x)
}
