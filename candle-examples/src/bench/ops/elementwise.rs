//! Elementwise ops and copies, which are memory-bound.

use super::{matrix, row, ALL, COPY, ONLY_F16, ONLY_F32, TWO};
use crate::bench::workload::{At, Case, Make::*, Workload};
use candle_core::{DType, Result, Tensor};

/// Sizes are rows and columns.
#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    matrix(COPY,          ONLY_F32, [16384, 16384], [4096, 4096], Unary(|x| x.copy())),
    matrix("copy_f16",    ONLY_F16, [16384, 16384], [4096, 4096], Unary(|x| x.copy())),
    matrix("add",         ALL,      [16384, 16384], [2048, 2048], Binary(|a, b| a + b)),
    matrix("add",         ALL,      [4096, 4096],   [1024, 1024], Binary(|a, b| a + b)),
    matrix("mul_row",     TWO,      [4096, 4096],   [1024, 1024], Other(mul_row)),
    matrix("affine",      TWO,      [4096, 4096],   [1024, 1024], Unary(|x| x.affine(1.5, 0.5))),
    matrix("exp",         TWO,      [4096, 4096],   [512, 1024],  Unary(|x| x.exp())),
    matrix("gelu",        TWO,      [4096, 4096],   [512, 1024],  Unary(|x| x.gelu())),
    matrix("silu",        TWO,      [4096, 4096],   [512, 1024],  Unary(|x| x.silu())),
    matrix("cast_to_f16", ONLY_F32, [4096, 4096],   [1024, 1024], Unary(|x| x.to_dtype(DType::F16))),
    matrix("cast_to_f32", ONLY_F16, [4096, 4096],   [1024, 1024], Unary(|x| x.to_dtype(DType::F32))),
    matrix("affine",      TWO,      [16384, 16384], [2048, 2048], Unary(|x| x.affine(1.5, 0.5))),
    matrix("cast_to_f16", ONLY_F32, [16384, 16384], [2048, 2048], Unary(|x| x.to_dtype(DType::F16))),
    matrix("cast_to_f32", ONLY_F16, [16384, 16384], [2048, 2048], Unary(|x| x.to_dtype(DType::F32))),
    matrix("transpose",   TWO,      [4096, 4096],   [1024, 1024], Unary(|x| x.t()?.contiguous())),
    matrix("transpose",   TWO,      [16384, 16384], [2048, 2048], Unary(|x| x.t()?.contiguous())),
    // Batch, rows, columns
    row("transpose",      TWO,      [4096, 256, 64], [64, 256, 64], Other(transpose)),
    matrix("cat_cols",    TWO,      [4096, 4096],   [1024, 1024], Binary(|a, b| Tensor::cat(&[a, b], 1))),
    matrix("where_cond",  TWO,      [4096, 4096],   [1024, 1024], Other(where_cond)),
];

/// Broadcasts a row over a matrix.
fn mul_row(at: &At) -> Result<Case> {
    let [rows, cols, _] = at.dims;
    let (x, row) = (at.random((rows, cols))?, at.random((1, cols))?);
    Ok(Case::new(&[&x.clone(), &row.clone()], move || {
        x.broadcast_mul(&row)
    }))
}

/// Transposes the matrices of a batch.
fn transpose(at: &At) -> Result<Case> {
    let [batch, rows, cols] = at.dims;
    let x = at.random((batch, rows, cols))?;
    Ok(Case::new(&[&x.clone()], move || x.t()?.contiguous()))
}

/// Uses a u8 mask.
fn where_cond(at: &At) -> Result<Case> {
    let [rows, cols, _] = at.dims;
    let (a, b) = (at.random((rows, cols))?, at.random((rows, cols))?);
    let mask = at.random((rows, cols))?.ge(0.)?;
    let inputs = [&mask.clone(), &a.clone(), &b.clone()];
    Ok(Case::new(&inputs, move || mask.where_cond(&a, &b)))
}
