//! Matmuls of f32 activations with quantized weights: bound by reading the weights, or by arithmetic for many rows.

use super::{row, ONLY_F32};
use crate::bench::workload::{At, Case, Make::Other, Workload};
use crate::random::matrix;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Error, Module, Result};

/// Sizes are m, n, k, as for dense matmuls.
#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    row("gemv_q4_0", ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q4_0))),
    row("gemv_q4_1", ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q4_1))),
    row("gemv_q5_0", ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q5_0))),
    row("gemv_q5_1", ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q5_1))),
    row("gemv_q8_0", ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q8_0))),
    row("gemv_q2k",  ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q2K))),
    row("gemv_q3k",  ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q3K))),
    row("gemv_q4k",  ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q4K))),
    row("gemv_q5k",  ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q5K))),
    row("gemv_q6k",  ONLY_F32, [1, 32000, 2048],  [1, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q6K))),
    row("gemv_q4_0", ONLY_F32, [1, 5632, 2048],   [1, 704, 256],   Other(|at| gemv(at, GgmlDType::Q4_0))),
    row("gemv_q4_0", ONLY_F32, [1, 2048, 2048],   [1, 256, 256],   Other(|at| gemv(at, GgmlDType::Q4_0))),
    row("gemv_q4_0", ONLY_F32, [1, 2048, 5632],   [1, 256, 704],   Other(|at| gemv(at, GgmlDType::Q4_0))),
    row("gemv_q4_0", ONLY_F32, [8, 32000, 2048],  [8, 4000, 256],  Other(|at| gemv(at, GgmlDType::Q4_0))),
    row("gemv_q4k",  ONLY_F32, [1, 2048, 2048],   [1, 256, 256],   Other(|at| gemv(at, GgmlDType::Q4K))),
    row("gemv_q8_0", ONLY_F32, [1, 2048, 2048],   [1, 256, 256],   Other(|at| gemv(at, GgmlDType::Q8_0))),
    row("gemm_q4_0", ONLY_F32, [512, 5632, 2048], [64, 704, 256],  Other(|at| gemm(at, GgmlDType::Q4_0))),
    row("gemm_q4_0", ONLY_F32, [512, 14336, 4096], [64, 512, 256], Other(|at| gemm(at, GgmlDType::Q4_0))), // reads blocks directly
    row("gemm_q4k",  ONLY_F32, [512, 5632, 2048], [64, 704, 256],  Other(|at| gemm(at, GgmlDType::Q4K))),
    row("gemm_q8_0", ONLY_F32, [512, 5632, 2048], [64, 704, 256],  Other(|at| gemm(at, GgmlDType::Q8_0))),
];

fn gemv(at: &At, dtype: GgmlDType) -> Result<Case> {
    let [m, n, k] = at.dims;
    let x = at.random((m, k))?;
    let w = matrix(dtype, (n, k), at.device).map_err(Error::wrap)?;
    let bytes = w.storage_size_in_bytes();
    let w = product(w);
    Ok(Case::new(&[], move || w.forward(&x)).bytes(bytes))
}

fn gemm(at: &At, dtype: GgmlDType) -> Result<Case> {
    let [m, n, k] = at.dims;
    Ok(gemv(at, dtype)?.flops(2 * m * n * k))
}

/// Not `QMatMul::from_qtensor`, which dequantizes some formats at once.
fn product(w: QTensor) -> QMatMul {
    QMatMul::QTensor(std::sync::Arc::new(w))
}
