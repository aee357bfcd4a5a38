//! Reductions, sorting and normalization.

use super::{matrix, ONLY_F32, TWO};
use crate::bench::workload::{At, Case, Make::*, Workload};
use candle_core::{Result, D};
use candle_nn::ops::{layer_norm, rms_norm, softmax_last_dim};

/// Sizes are rows and columns.
#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    matrix("sum_last",   TWO,      [65536, 4096],  [1024, 1024], Unary(|x| x.sum(D::Minus1))),
    matrix("sum_first",  TWO,      [65536, 4096],  [1024, 1024], Unary(|x| x.sum(0))),
    matrix("sum_all",    TWO,      [16384, 16384], [1024, 1024], Unary(|x| x.sum_all())),
    matrix("max_last",   TWO,      [65536, 4096],  [1024, 1024], Unary(|x| x.max(D::Minus1))),
    matrix("argmax_last", TWO,     [65536, 4096],  [1024, 1024], Unary(|x| x.argmax(D::Minus1))),
    matrix("argmax_last", ONLY_F32, [1, 128256],   [1, 32000],   Unary(|x| x.argmax(D::Minus1))),
    matrix("sum_last",   TWO,      [1, 2048],      [1, 2048],    Unary(|x| x.sum(D::Minus1))),
    matrix("sum_last",   TWO,      [32, 64],       [32, 64],     Unary(|x| x.sum(D::Minus1))),
    matrix("sum_first",  TWO,      [64, 2048],     [64, 2048],   Unary(|x| x.sum(0))),
    matrix("argsort",    ONLY_F32, [64, 4096],     [16, 1024],   Unary(|x| x.arg_sort_last_dim(true))),
    matrix("softmax",    TWO,      [4096, 4096],   [512, 1024],  Unary(softmax_last_dim)),
    matrix("softmax",    TWO,      [1, 2048],      [1, 2048],    Unary(softmax_last_dim)),
    matrix("softmax",    TWO,      [65536, 4096],  [512, 2048],  Unary(softmax_last_dim)),
    matrix("softmax",    TWO,      [1, 128256],    [1, 32000],   Unary(softmax_last_dim)),
    matrix("softmax",    TWO,      [16, 1 << 20],  [4, 1 << 16], Unary(softmax_last_dim)),
    matrix("softmax",    TWO,      [16, 1 << 24],  [2, 1 << 18], Unary(softmax_last_dim)),
    matrix("rms_norm",   TWO,      [4096, 4096],   [512, 1024],  Other(rms)),
    matrix("rms_norm",   TWO,      [65536, 4096],  [512, 2048],  Other(rms)),
    matrix("rms_norm",   TWO,      [1, 2048],      [1, 2048],    Other(rms)),
    matrix("layer_norm", TWO,      [4096, 4096],   [512, 1024],  Other(layer)),
    matrix("layer_norm", TWO,      [65536, 4096],  [512, 2048],  Other(layer)),
];

const EPS: f32 = 1e-5;

fn rms(at: &At) -> Result<Case> {
    let [rows, cols, _] = at.dims;
    let (x, alpha) = (at.random((rows, cols))?, at.random(cols)?);
    Ok(Case::new(&[&x.clone(), &alpha.clone()], move || {
        rms_norm(&x, &alpha, EPS)
    }))
}

fn layer(at: &At) -> Result<Case> {
    let [rows, cols, _] = at.dims;
    let (x, alpha, beta) = (at.random((rows, cols))?, at.random(cols)?, at.random(cols)?);
    let inputs = [&x.clone(), &alpha.clone(), &beta.clone()];
    Ok(Case::new(&inputs, move || {
        layer_norm(&x, &alpha, &beta, EPS)
    }))
}
