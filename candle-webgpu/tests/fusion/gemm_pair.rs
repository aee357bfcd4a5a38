//! Matmuls of the same many rows with two matrices of one size, such as those of keys and values.

use candle_webgpu::{DType, Quant};

use crate::bench::{if_cooperative, saves, Bench, T};

/// The products of `m` rows with matrices of these numbers of rows.
fn products(b: &Bench, dtype: DType, m: usize, k: usize, sizes: &[usize]) -> Vec<T> {
    let x = b.of(dtype, &[m, k]);
    let matrices: Vec<T> = sizes.iter().map(|n| b.of(dtype, &[*n, k])).collect();
    matrices.iter().map(|w| b.linear(&x, w)).collect()
}

#[test]
fn keys_and_values() {
    for (m, k, n) in [(40, 64, 72), (70, 100, 37), (300, 128, 6016)] {
        saves(if_cooperative(1), (m, k, n), |b| {
            products(b, DType::F16, m, k, &[2 * n, n, n])
        });
    }
    // So are lines of bf16. The three matmuls share the conversion of their rows, too.
    saves(if_cooperative(3), "bf16", |b| {
        products(b, DType::Bf16, 40, 64, &[144, 72, 72])
    });
    // Blocks are converted beyond 384 rows. So are the rows, once.
    saves(if_cooperative(2), "q4_0", |b| {
        let x = b.floats(&[400, 128]);
        let all = [(); 2].map(|()| b.blocks(Quant::Q4_0, 96, 128));
        all.iter()
            .map(|w| b.by_blocks(&x, Quant::Q4_0, w))
            .collect()
    });
}

#[test]
fn matmuls_that_stay_apart() {
    saves(0, "other sizes", |b| {
        products(b, DType::F16, 40, 64, &[72, 80])
    });
    saves(0, "f32", |b| products(b, DType::F32, 40, 64, &[72, 72]));
    // Biases are epilogues.
    saves(2, "biases", |b| {
        let bias = b.of(DType::F16, &[72]).shown(&[40, 72], &[0, 1], 0);
        let all = products(b, DType::F16, 40, 64, &[72, 72]);
        all.iter().map(|y| b.binary("badd", y, &bias)).collect()
    });
}
