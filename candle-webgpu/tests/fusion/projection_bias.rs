//! Biases of fused projections.

use candle_webgpu::{DType, Quant};

use crate::bench::{saves, takes, Bench, FLOATS, T};

/// Adds a bias (n) to each row of y (m, n).
fn add(b: &Bench, y: &T, bias: &T) -> T {
    b.binary("badd", y, &bias.shown(&y.dims, &[0, 1], 0))
}

/// The biases of columns.
fn biases(b: &Bench, dtype: DType, columns: &[usize]) -> Vec<T> {
    columns.iter().map(|n| b.of(dtype, &[*n])).collect()
}

#[test]
fn one_kernel() {
    for dtype in FLOATS {
        for (m, k) in [(1, 2048), (1, 64), (2, 512), (7, 96)] {
            for columns in [&[64, 16, 16][..], &[40, 7], &[5, 6, 7]] {
                let saved = 2 * columns.len() as u64 - 1;
                saves(saved, (dtype, m, k, columns), |b| {
                    let x = b.of(dtype, &[m, k]);
                    let ws: Vec<T> = columns.iter().map(|n| b.of(dtype, &[*n, k])).collect();
                    let biases = biases(b, dtype, columns);
                    let layers = ws.iter().zip(&biases);
                    layers
                        .map(|(w, bias)| add(b, &b.linear(&x, w), bias))
                        .collect()
                });
            }
        }
    }
}

#[test]
fn some_without_a_bias() {
    let columns = [24, 32, 40];
    for bare in 0..3 {
        saves(4, bare, |b| {
            let x = b.of(DType::F16, &[1, 512]);
            let ws = columns.map(|n| b.of(DType::F16, &[n, 512]));
            let biases = biases(b, DType::F16, &columns);
            let project = |i: usize| {
                let y = b.linear(&x, &ws[i]);
                match i == bare {
                    true => y,
                    false => add(b, &y, &biases[i]),
                }
            };
            (0..3).map(project).collect()
        });
    }
}

#[test]
fn quantized() {
    for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0] {
        for (dtype, m) in [(DType::F32, 1), (DType::F16, 1), (DType::F32, 3)] {
            for columns in [&[64, 16, 16][..], &[40, 7]] {
                let saved = 2 * columns.len() as u64 - 1;
                saves(saved, (quant, dtype, m, columns), |b| {
                    let x = b.of(dtype, &[m, 512]);
                    let biases = biases(b, dtype, columns);
                    let layers = columns.iter().zip(&biases);
                    let project = |(n, bias): (&usize, &T)| {
                        add(b, &b.by_blocks(&x, quant, &b.blocks(quant, *n, 512)), bias)
                    };
                    layers.map(project).collect()
                });
            }
        }
    }
}

/// x v and x w, where `then` makes results of the first product and a bias.
fn two(b: &Bench, then: impl Fn(&T, &T) -> Vec<T>) -> Vec<T> {
    let x = b.floats(&[1, 256]);
    let [v, w, bias] = [24, 8, 1].map(|n| b.floats(&[n, 256]));
    let (first, second) = (b.linear(&x, &v), b.linear(&x, &w));
    let mut made = then(&first, &bias.shown(&[24], &[1], 0));
    made.push(second);
    made
}

#[test]
fn stays_apart() {
    takes((1, 3), "a bias is added", |b| {
        two(b, |y, bias| vec![add(b, y, bias)])
    });
    takes((2, 3), "the product is held", |b| {
        two(b, |y, bias| vec![add(b, y, bias), y.clone()])
    });
    takes((2, 3), "it is doubled", |b| {
        two(b, |y, _| vec![b.binary("badd", y, y)])
    });
    takes((2, 3), "it is multiplied", |b| {
        two(b, |y, bias| {
            vec![b.binary("bmul", y, &bias.shown(&y.dims, &[0, 1], 0))]
        })
    });
    takes((2, 3), "the bias has one element", |b| {
        two(b, |y, bias| {
            vec![b.binary("badd", y, &bias.shown(&y.dims, &[0, 0], 0))]
        })
    });
}
