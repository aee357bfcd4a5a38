//! Matmuls of the same activations.

use candle_webgpu::{DType, Quant};

use crate::bench::{saves, takes, Bench, T};

#[test]
fn two_or_three() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for (m, k) in [(1, 2048), (1, 64), (2, 512), (7, 96)] {
            for columns in [&[64, 16, 16][..], &[40, 7], &[5, 6, 7, 8]] {
                let expected = columns.len().min(3) as u64 - 1;
                saves(expected, (dtype, m, k, columns), |b| {
                    let x = b.of(dtype, &[m, k]);
                    let ws: Vec<T> = columns.iter().map(|n| b.of(dtype, &[*n, k])).collect();
                    ws.iter().map(|w| b.linear(&x, w)).collect()
                });
            }
        }
    }
}

#[test]
fn quantized() {
    // Alone, these matmuls would have different tiles: 4096 or more columns have their own.
    for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0] {
        for (dtype, m) in [(DType::F32, 1), (DType::F16, 1), (DType::F32, 3)] {
            for columns in [&[64, 16, 16][..], &[40, 7], &[4200, 300, 300]] {
                let expected = columns.len() as u64 - 1;
                saves(expected, (quant, dtype, m, columns), |b| {
                    let k = 512;
                    let x = b.of(dtype, &[m, k]);
                    let matmul = |n: &usize| b.by_blocks(&x, quant, &b.blocks(quant, *n, k));
                    columns.iter().map(matmul).collect()
                });
            }
        }
    }
}

#[test]
fn with_an_op_in_between() {
    takes((1, 4), "the op that reads both is fused as well", |b| {
        let x = b.floats(&[1, 256]);
        let (gate, up) = (b.floats(&[96, 256]), b.floats(&[96, 256]));
        let gate = b.unary("usilu", &b.linear(&x, &gate));
        vec![b.binary("bmul", &gate, &b.linear(&x, &up))]
    });
}

#[test]
fn stay_apart() {
    let parts = |b: &Bench| [b.floats(&[1, 64]), b.floats(&[8, 64])];
    saves(0, "other rows", |b| {
        let (x, y) = (b.floats(&[1, 64]), b.floats(&[1, 64]));
        let (v, w) = (b.floats(&[8, 64]), b.floats(&[8, 64]));
        vec![b.linear(&x, &v), b.linear(&y, &w)]
    });
    saves(0, "one depends on the result of the other", |b| {
        let ([x, v], w) = (parts(b), b.floats(&[64, 64]));
        let first = b.linear(&x, &v);
        // w is made of the result of the first matmul.
        b.copy(&first, &w.shown(&[1, 8], &[8, 1], 0));
        vec![b.linear(&x, &w), first]
    });
    saves(0, "x has changed by then", |b| {
        let ([x, v], w) = (parts(b), b.floats(&[8, 64]));
        let first = b.linear(&x, &v);
        b.copy(&w.shown(&[1, 64], &[64, 1], 0), &x);
        vec![b.linear(&x, &w), first]
    });
}
