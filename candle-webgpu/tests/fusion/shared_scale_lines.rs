//! Matmuls of the same rows with several bf16 or quantized matrices, which cooperative matrices multiply after a conversion.

use candle_webgpu::{DType, Quant};

use crate::bench::{if_cooperative, saves, Bench, T};

fn matrices<const N: usize>(b: &Bench, n: usize, k: usize) -> [T; N] {
    std::array::from_fn(|_| b.of(DType::Bf16, &[n, k]))
}

#[test]
fn rows_are_converted_once() {
    for (m, k) in [(17, 128), (40, 200), (300, 64)] {
        saves(if_cooperative(2), (m, k), |b| {
            let x = b.of(DType::Bf16, &[m, k]);
            // Two of one size would become a pair (`gemm_pair`).
            let all = [64, 80, 96].map(|n| b.of(DType::Bf16, &[n, k]));
            all.iter().map(|w| b.linear(&x, w)).collect()
        });
        let k = k.next_multiple_of(256);
        for quant in [Quant::Q4_0, Quant::Q6K] {
            saves(if_cooperative(2), (m, k, quant), |b| {
                let x = b.floats(&[m, k]);
                let all = [64, 80, 96].map(|n| b.blocks(quant, n, k));
                let products = all.iter().map(|w| b.by_blocks(&x, quant, w));
                products.collect()
            });
        }
    }
}

#[test]
fn rows_that_differ_stay_apart() {
    // Other rows, the same matrix again, and rows that are overwritten in between.
    saves(0, "rows", |b| {
        let x = b.of(DType::Bf16, &[40, 64]);
        let [v, w]: [T; 2] = matrices(b, 32, 64);
        let first = x.shown(&[20, 64], &[64, 1], 0);
        let second = x.shown(&[20, 64], &[64, 1], 20 * 64);
        vec![b.linear(&first, &v), b.linear(&second, &w)]
    });
    saves(0, "again", |b| {
        let x = b.of(DType::Bf16, &[40, 64]);
        let [w]: [T; 1] = matrices(b, 32, 64);
        vec![b.linear(&x, &w), b.linear(&x, &w)]
    });
    saves(0, "written", |b| {
        let [x, other]: [T; 2] = matrices(b, 40, 64);
        let [v, w]: [T; 2] = matrices(b, 32, 64);
        let before = b.linear(&x, &v);
        b.copy(&other, &x);
        vec![before, b.linear(&x, &w)]
    });
}
