//! Elementwise ops behind matmuls.

use candle_webgpu::{DType, Quant};

use crate::bench::{saves, takes, Bench, FLOATS, T};

/// gelu(y + bias).
fn biased(b: &Bench, y: &T, bias: &T) -> T {
    let bias = bias.shown(&y.dims, &[0, 1], 0);
    b.unary("ugelu", &b.binary("badd", y, &bias))
}

/// gelu(y + bias) + x.
fn block(b: &Bench, y: &T, bias: &T, x: &T) -> T {
    b.binary("badd", &biased(b, y, bias), x)
}

#[test]
fn behind_dense_matmuls() {
    for dtype in FLOATS {
        for (m, n, k) in [
            (1, 64, 256),
            (1, 7, 24),
            (1, 34, 4096),
            (1, 7, 4104),
            (3, 40, 64),
            (40, 72, 48),
            (70, 33, 40),
        ] {
            for along_k in [true, false] {
                let expected = if m <= 8 { 3 } else { 2 };
                saves(expected, (dtype, m, n, k, along_k), |b| {
                    let x = b.of(dtype, &[m, k]);
                    let (bias, more) = (b.of(dtype, &[n]), b.of(dtype, &[m, n]));
                    let y = match along_k {
                        true => b.linear(&x, &b.of(dtype, &[n, k])),
                        false => b.product(&x, &b.of(dtype, &[k, n])),
                    };
                    vec![match m {
                        0..=8 => block(b, &y, &bias, &more),
                        _ => biased(b, &y, &bias),
                    }]
                });
            }
        }
    }
}

#[test]
fn behind_quantized_matmuls() {
    for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0] {
        for (dtype, m) in [(DType::F32, 1), (DType::F16, 3), (DType::Bf16, 8)] {
            saves(2, (quant, dtype, m), |b| {
                let x = b.of(dtype, &[m, 512]);
                let bias = b.of(dtype, &[40]);
                let y = b.by_blocks(&x, quant, &b.blocks(quant, 40, 512));
                vec![biased(b, &y, &bias)]
            });
        }
    }
}

#[test]
fn to_another_dtype() {
    for (from, to) in [
        (DType::F16, DType::F32),
        (DType::F32, DType::Bf16),
        (DType::Bf16, DType::F16),
    ] {
        for m in [1, 33] {
            saves(2, (from, to, m), |b| {
                let y = b.linear(&b.of(from, &[m, 64]), &b.of(from, &[50, 64]));
                vec![b.cast(&b.scaled(&y, 0.3), to)]
            });
        }
    }
}

#[test]
fn gate_and_up() {
    for dtype in FLOATS {
        for (m, n, k) in [
            (1, 96, 2048),
            (1, 7, 64),
            (2, 40, 512),
            (7, 33, 96),
            (8, 62, 64),
            // gemv_coop takes whole tiles of columns.
            (8, 96, 576),
        ] {
            saves(3, (dtype, m, n, k), |b| {
                let x = b.of(dtype, &[m, k]);
                let (gate, up) = (b.of(dtype, &[n, k]), b.of(dtype, &[n, k]));
                let gate = b.unary("usilu", &b.linear(&x, &gate));
                vec![b.binary("bmul", &gate, &b.linear(&x, &up))]
            });
        }
    }
}

#[test]
fn gate_and_up_of_many_rows() {
    let cooperative = crate::bench::cooperative();
    for dtype in FLOATS {
        for (m, n, k) in [(40, 72, 64), (70, 40, 100), (300, 6016, 128)] {
            // With cooperative matrices, one kernel, and in bf16 one conversion of the rows less.
            let expected = match dtype {
                DType::F16 if cooperative => 3,
                DType::Bf16 if cooperative => 4,
                _ => 1,
            };
            saves(expected, (dtype, m, n, k), |b| {
                let x = b.of(dtype, &[m, k]);
                let (gate, up) = (b.of(dtype, &[n, k]), b.of(dtype, &[n, k]));
                let gate = b.unary("usilu", &b.linear(&x, &gate));
                vec![b.binary("bmul", &gate, &b.linear(&x, &up))]
            });
        }
    }
}

#[test]
fn matrices_that_lie_in_one_value() {
    saves(2, "the epilogue is fused with one of them", |b| {
        let (x, both) = (b.floats(&[1, 64]), b.floats(&[80, 64]));
        let up = both.shown(&[64, 40], &[1, 64], 0);
        let gate = both.shown(&[64, 40], &[1, 64], 40 * 64);
        let gate = b.unary("usilu", &b.product(&x, &gate));
        vec![b.binary("bmul", &gate, &b.product(&x, &up))]
    });
}

#[test]
fn quantized_gate_and_up() {
    for quant in [Quant::Q4_0, Quant::Q4K, Quant::Q5_1, Quant::Q8_0] {
        for (dtype, m) in [
            (DType::F32, 1),
            (DType::F16, 1),
            (DType::F32, 2),
            (DType::Bf16, 11),
        ] {
            // Many columns have other tiles.
            for n in [40, 33, 2100] {
                saves(3, (quant, dtype, m, n), |b| {
                    let x = b.of(dtype, &[m, 512]);
                    let gate = b.unary("usilu", &b.by_blocks(&x, quant, &b.blocks(quant, n, 512)));
                    let up = b.by_blocks(&x, quant, &b.blocks(quant, n, 512));
                    vec![b.binary("bmul", &gate, &up)]
                });
            }
        }
    }
}

/// One matrix whose halves are gate and up.
#[test]
fn gate_and_up_of_one_matrix() {
    let halves = |b: &Bench, y: &T, n: usize, [gate, up]: [usize; 2]| {
        let half = |at: usize| y.shown(&[1, n], &[2 * n, 1], at * n);
        vec![b.binary("bmul", &b.unary("usilu", &half(gate)), &half(up))]
    };
    for dtype in FLOATS {
        for (n, k, order) in [(96, 2048, [0, 1]), (40, 64, [1, 0])] {
            saves(2, (dtype, n, k), |b| {
                let y = b.linear(&b.of(dtype, &[1, k]), &b.of(dtype, &[2 * n, k]));
                halves(b, &y, n, order)
            });
        }
    }
    for quant in [Quant::Q4_0, Quant::Q6K] {
        saves(2, quant, |b| {
            let y = b.by_blocks(&b.floats(&[1, 512]), quant, &b.blocks(quant, 80, 512));
            halves(b, &y, 40, [0, 1])
        });
    }
    saves(1, "other parts", |b| {
        let y = b.linear(&b.floats(&[1, 64]), &b.floats(&[80, 64]));
        let half = |at: usize| y.shown(&[1, 40], &[80, 1], at);
        vec![b.binary("bmul", &b.unary("usilu", &half(0)), &half(32))]
    });
    saves(1, "two rows", |b| {
        let y = b.linear(&b.floats(&[2, 64]), &b.floats(&[80, 64]));
        let half = |at: usize| y.shown(&[2, 40], &[80, 1], at);
        vec![b.binary("bmul", &b.unary("usilu", &half(0)), &half(40))]
    });
}

#[test]
fn stays_apart() {
    let parts = |b: &Bench| (b.floats(&[1, 64]), b.floats(&[8, 64]));
    saves(0, "a tensor holds the result", |b| {
        let (x, w) = parts(b);
        let y = b.linear(&x, &w);
        vec![b.unary("uexp", &y), y]
    });
    saves(0, "another op reads it", |b| {
        let (x, w) = parts(b);
        let y = b.linear(&x, &w);
        vec![b.unary("uexp", &y), b.softmax(&y)]
    });
    saves(0, "it is read transposed", |b| {
        let y = b.linear(&b.floats(&[8, 64]), &b.floats(&[8, 64]));
        vec![b.unary("uexp", &y.shown(&[8, 8], &[1, 8], 0))]
    });
    saves(0, "an operand is broadcast along rows", |b| {
        let y = b.linear(&b.floats(&[3, 64]), &b.floats(&[8, 64]));
        let column = b.floats(&[3]).shown(&[3, 8], &[1, 0], 0);
        vec![b.binary("badd", &y, &column)]
    });
    let why = "a GEMM cannot hide the loads of an operand as large as its result";
    saves(0, why, |b| {
        let y = b.linear(&b.floats(&[40, 64]), &b.floats(&[8, 64]));
        vec![b.binary("badd", &y, &b.floats(&[40, 8]))]
    });
    saves(0, "the result is u8", |b| {
        let (x, w) = parts(b);
        vec![b.binary("lt", &b.linear(&x, &w), &b.floats(&[1, 8]))]
    });
    saves(0, "the matmul reads the old x, the sum the new one", |b| {
        let (x, w) = parts(b);
        let y = b.linear(&x, &w);
        b.copy(&b.floats(&[1, 64]), &x);
        vec![b.binary("badd", &y, &x.shown(&[1, 8], &[64, 1], 0))]
    });
}

#[test]
fn projections_that_are_needed() {
    let gated = |b: &Bench| {
        let x = b.floats(&[1, 64]);
        let gate = b.linear(&x, &b.floats(&[8, 64]));
        let up = b.linear(&x, &b.floats(&[8, 64]));
        (b.binary("bmul", &b.unary("usilu", &gate), &up), gate, up)
    };
    saves(2, "a tensor holds the second of two projections", |b| {
        let (made, _, up) = gated(b);
        vec![made, up]
    });
    saves(2, "a tensor holds the first of two projections", |b| {
        let (made, gate, _) = gated(b);
        vec![made, gate]
    });
    takes(
        (3, 5),
        "another op reads the second of two projections",
        |b| {
            let (made, _, up) = gated(b);
            vec![made, b.softmax(&up)]
        },
    );
}
