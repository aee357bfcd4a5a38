//! Matmuls: compute-bound ones, and ones with few rows, which are bound by reading the weight.

use super::{row, ALL, GEMM, TWO};
use crate::bench::workload::{At, Case, Make::Other, Workload};
use candle_core::Result;

/// Sizes are m, n, k; for attn_scores heads, tokens, head_dim.
#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    row(GEMM,          ALL, [4096, 4096, 4096], [256, 256, 256],  Other(gemm)),
    row(GEMM,          ALL, [2048, 2048, 2048], [192, 192, 192],  Other(gemm)),
    row(GEMM,          ALL, [1024, 1024, 1024], [128, 128, 128],  Other(gemm)),
    // The weight is stored as (n, k), as in a linear layer. The last three rows are a prefill of TinyLlama.
    row("gemm_nk",     ALL, [4096, 4096, 4096], [256, 256, 256],  Other(gemm_nk)),
    row("gemm_nk",     ALL, [512, 2048, 2048],  [64, 256, 256],   Other(gemm_nk)),
    row("gemm_nk",     ALL, [512, 5632, 2048],  [64, 704, 256],   Other(gemm_nk)),
    row("gemm_nk",     ALL, [512, 2048, 5632],  [64, 256, 704],   Other(gemm_nk)),
    // Decode: the output projection, the feed-forward layers, the attention projections.
    row("gemv",        TWO, [1, 32000, 2048],   [1, 4000, 256],   Other(gemv)),
    row("gemv",        TWO, [1, 5632, 2048],    [1, 704, 256],    Other(gemv)),
    row("gemv",        TWO, [1, 2048, 2048],    [1, 256, 256],    Other(gemv)),
    row("gemv",        TWO, [8, 32000, 2048],   [8, 4000, 256],   Other(gemv)),
    row("attn_scores", ALL, [32, 512, 64],      [4, 64, 64],      Other(attn_scores)),
];

fn gemm(at: &At) -> Result<Case> {
    let [m, n, k] = at.dims;
    let (x, w) = (at.random((m, k))?, at.random((k, n))?);
    Ok(Case::new(&[], move || x.matmul(&w)).flops(2 * m * n * k))
}

fn gemm_nk(at: &At) -> Result<Case> {
    let [m, n, k] = at.dims;
    Ok(gemv(at)?.flops(2 * m * n * k))
}

fn gemv(at: &At) -> Result<Case> {
    let [m, n, k] = at.dims;
    let (x, w) = (at.random((m, k))?, at.random((n, k))?);
    Ok(Case::new(&[&x.clone(), &w.clone()], move || {
        x.matmul(&w.t()?)
    }))
}

/// Queries by keys, per head.
fn attn_scores(at: &At) -> Result<Case> {
    let [heads, tokens, width] = at.dims;
    let (q, k) = (at.random(&at.dims)?, at.random(&at.dims)?);
    let case = Case::new(&[], move || q.matmul(&k.t()?));
    Ok(case.flops(2 * heads * tokens * tokens * width))
}
