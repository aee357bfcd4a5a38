//! Norms ahead of matmuls.

use candle_webgpu::kernel::matmul::quantized::Blocks;
use candle_webgpu::{DType, Quant};

use crate::bench::{near, saves, saves_near, Bench, FLOATS, T};

/// n rows of k weights up to 1 / (2 sqrt(k)). The squares of a norm's results h sum to at most 4 k, since alpha is at most 2, and to
/// 4 / 3 k on average; an element of the matmul has a standard deviation of 1 / 3.
fn weights(b: &Bench, dtype: DType, n: usize, k: usize) -> T {
    let w = b.scaled(&b.floats(&[n, k]), 0.25 / (k as f64).sqrt());
    b.device.synchronize().expect("no error");
    let w = b.cast(&w, dtype);
    b.device.synchronize().expect("no error");
    w
}

/// The tolerance of such matmuls, whose elements are within 2 (six standard deviations). With rules off, h is rounded, with a
/// standard deviation of u h / sqrt(3): six of them are 6 u / sqrt(3) 2 sqrt(k) / (2 sqrt(k)) = 3.5 u in the result. The result
/// is rounded to its dtype, by 2 u. In f32 other errors are larger: the terms and their order differ, some hundred are
/// accumulated in sequence, and two square roots and quotients are up to 2.5 units off: 32 u.
fn bound(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 8. / 2048.,
        DType::Bf16 => 8. / 256.,
        _ => 32. / (1 << 24) as f32,
    }
}

/// The norm of a new row.
fn row(b: &Bench, dtype: DType, m: usize, k: usize) -> T {
    b.rms_norm(&b.of(dtype, &[m, k]), &b.of(dtype, &[k]))
}

/// silu(x gate^T) (x up^T).
fn gated(b: &Bench, x: &T, [gate, up]: [&T; 2]) -> T {
    let gate = b.unary("usilu", &b.linear(x, gate));
    b.binary("bmul", &gate, &b.linear(x, up))
}

#[test]
fn one_to_four_matmuls() {
    for dtype in FLOATS {
        for k in [64, 72, 520, 2048, 4096] {
            for columns in [&[40][..], &[40, 7], &[64, 16, 16], &[5, 6, 7, 8]] {
                let matmuls = columns.len() as u64;
                let saved = matmuls + 1 - matmuls.div_ceil(3);
                saves_near(bound(dtype), saved, (dtype, k, columns), |b| {
                    let n = columns.iter();
                    let w: Vec<T> = n.map(|n| weights(b, dtype, *n, k)).collect();
                    let x = row(b, dtype, 1, k);
                    w.iter().map(|w| b.linear(&x, w)).collect()
                });
            }
        }
    }
}

#[test]
fn many_columns() {
    for dtype in FLOATS {
        saves_near(bound(dtype), 2, dtype, |b| {
            let w = [4200, 4099].map(|n| weights(b, dtype, n, 768));
            let x = row(b, dtype, 1, 768);
            w.iter().map(|w| b.linear(&x, w)).collect()
        });
    }
}

/// If gate and up are within 2 and off by the bound, silu(gate) up is off by 1.1 * 2 + 2 bounds; three results within 4 are
/// rounded, by 4 u each.
#[test]
fn gate_and_up() {
    for dtype in FLOATS {
        for (n, k) in [(96, 2048), (7, 64), (33, 520), (4100, 512)] {
            saves_near(6. * bound(dtype), 4, (dtype, n, k), |b| {
                let w = [0; 2].map(|_| weights(b, dtype, n, k));
                let x = row(b, dtype, 1, k);
                vec![gated(b, &x, [&w[0], &w[1]])]
            });
        }
    }
}

#[test]
fn with_steps_and_operands() {
    for dtype in FLOATS {
        // Two more additions, with results within 6.
        saves_near(3. * bound(dtype), 5, dtype, |b| {
            let (w, x) = (weights(b, dtype, 48, 256), b.of(dtype, &[1, 256]));
            let [bias, other] = [0; 2].map(|_| b.of(dtype, &[1, 48]));
            let [alpha, beta] = [0; 2].map(|_| b.of(dtype, &[256]));
            let one = b.binary("badd", &b.linear(&b.rms_norm(&x, &alpha), &w), &bias);
            let two = b.linear(&b.rms_norm(&x, &beta), &w);
            vec![b.binary("badd", &one, &other), b.scaled(&two, 0.5)]
        });
    }
}

/// As in a transformer layer: the residual sum becomes an epilogue of the matmul before it.
#[test]
fn behind_a_residual_sum() {
    for dtype in FLOATS {
        saves_near(6. * bound(dtype), 5, dtype, |b| {
            let (x, residual) = (b.of(dtype, &[1, 512]), b.of(dtype, &[1, 256]));
            let down = weights(b, dtype, 256, 512);
            let w = [0; 2].map(|_| weights(b, dtype, 96, 256));
            let alpha = b.of(dtype, &[256]);
            let sum = b.binary("badd", &b.linear(&x, &down), &residual);
            let y = gated(b, &b.rms_norm(&sum, &alpha), [&w[0], &w[1]]);
            vec![y, sum]
        });
    }
}

#[test]
fn parts_of_values() {
    for dtype in FLOATS {
        for (offset, folded) in [(16, true), (4, dtype == DType::F32), (3, false)] {
            let counts = near(bound(dtype), |b| {
                let (x, alpha) = (b.of(dtype, &[400]), b.of(dtype, &[300]));
                let w = weights(b, dtype, 24, 128);
                let x = x.shown(&[1, 128], &[128, 1], 2 * offset);
                let alpha = alpha.shown(&[128], &[1], offset);
                vec![b.linear(&b.rms_norm(&x, &alpha), &w)]
            });
            let saved = counts.1 - counts.0;
            assert_eq!(saved, u64::from(folded), "{dtype} {offset}");
        }
    }
}

/// `special` with alternating signs if it is finite; otherwise numbers with one `special` among them.
fn values(special: f32) -> Vec<f32> {
    let of = |i: usize| match (special.is_finite(), i) {
        (true, _) => special * [1., -1.][i % 2],
        (false, 77) => special,
        _ => (i as f32).sin(),
    };
    (0..128).map(of).collect()
}

/// Rows of zeros, of the largest numbers, and with an infinity or a NaN: the results are those without rules.
#[test]
fn special_rows() {
    for (dtype, greatest) in [
        (DType::F32, 1e15),
        (DType::F16, 65504.),
        (DType::Bf16, 1e15),
    ] {
        for special in [0., greatest, f32::INFINITY, f32::NAN, 1e-7] {
            saves_near(bound(dtype), 1, (dtype, special), |b| {
                let (w, alpha) = (weights(b, dtype, 24, 128), b.of(dtype, &[128]));
                let x = b.device.upload(bytemuck::cast_slice(&values(special)));
                let x = T::new(x.expect("an upload"), DType::F32, &[1, 128]);
                let row = b.cast(&x, dtype);
                b.device.synchronize().expect("no error");
                vec![b.linear(&b.rms_norm(&row, &alpha), &w)]
            });
        }
    }
}

/// The largest Euclidean norm of n quantized rows of k elements.
fn longest(quant: Quant, n: usize, k: usize) -> f32 {
    let b = Bench::new("");
    let (value, count) = (b.blocks(quant, n, k).value, n * k);
    let w = Blocks {
        value: &value,
        quant,
    };
    let all = b.device.dequantize(w, count, DType::F32).expect("values");
    let all = b.device.read(&all, 0, all.bytes()).expect("values");
    let all: Vec<f32> = bytemuck::pod_collect_to_vec(&all[..4 * count]);
    let squares = all.chunks(k).map(|row| row.iter().map(|w| w * w).sum());
    squares.fold(0f32, f32::max).sqrt()
}

/// Elements h of the norm are up to 3.5. Unfused, h is rounded to its dtype and then to 16 bits per block; fused, x * alpha is
/// rounded only to the latter: six standard deviations are 6 * 3.5 (u / sqrt(3) + sqrt(2) / (sqrt(12) 16320)) times the longest
/// row of weights. The result, up to 8 times that row, is rounded twice.
#[test]
fn quantized() {
    for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0, Quant::Q2K] {
        for dtype in FLOATS {
            for columns in [&[40][..], &[40, 7], &[4200, 300, 300], &[33, 33]] {
                let rows = columns.iter().map(|n| longest(quant, *n, 512));
                let longest = rows.fold(0., f32::max);
                let u = bound(dtype) / 8.;
                let off = longest * (28. * u + 5.3e-4);
                let saved = columns.len() as u64;
                saves_near(off, saved, (quant, dtype, columns), |b| {
                    let w = columns.iter().map(|n| b.blocks(quant, *n, 512));
                    let w: Vec<T> = w.collect();
                    let x = row(b, dtype, 1, 512);
                    w.iter().map(|w| b.by_blocks(&x, quant, w)).collect()
                });
            }
        }
    }
}

#[test]
fn quantized_gate_and_up() {
    for quant in [Quant::Q4_0, Quant::Q4K] {
        for (dtype, n) in [(DType::F32, 40), (DType::F16, 33), (DType::Bf16, 4100)] {
            let longest = longest(quant, n, 512);
            // Two such errors, and the rounding of their sum, which is up to 16 times the longest row.
            let off = longest * (2. * 5.3e-4 + 72. * bound(dtype) / 8.);
            saves_near(off, 4, (quant, dtype, n), |b| {
                let w = [0; 2].map(|_| b.blocks(quant, n, 512));
                let x = row(b, dtype, 1, 512);
                let [gate, up] = [0, 1].map(|i| b.by_blocks(&x, quant, &w[i]));
                vec![b.binary("badd", &b.unary("uneg", &gate), &up)]
            });
        }
    }
}

#[test]
fn stay_apart() {
    let w = |b: &Bench| weights(b, DType::F32, 24, 64);
    saves(0, "a tensor holds the norm", |b| {
        let (w, x) = (w(b), row(b, DType::F32, 1, 64));
        vec![b.linear(&x, &w), x]
    });
    saves(0, "another op reads the norm", |b| {
        let (w, x) = (w(b), row(b, DType::F32, 1, 64));
        vec![b.linear(&x, &w), b.softmax(&x)]
    });
    saves(0, "two rows", |b| {
        vec![b.linear(&row(b, DType::F32, 2, 64), &w(b))]
    });
    saves(0, "a matrix contiguous along n", |b| {
        let w = b.floats(&[64, 24]);
        vec![b.product(&row(b, DType::F32, 1, 64), &w)]
    });
    saves(0, "x has changed by then", |b| {
        let (w, x, y) = (w(b), b.floats(&[1, 64]), b.floats(&[1, 64]));
        let normed = b.rms_norm(&x, &b.floats(&[64]));
        b.copy(&y, &x);
        vec![b.linear(&normed, &w)]
    });
    saves(1, "`add_norm` fuses the norm with its sum", |b| {
        let (w, x, y) = (w(b), b.floats(&[1, 64]), b.floats(&[1, 64]));
        let sum = b.binary("badd", &x, &y);
        let normed = b.rms_norm(&sum, &b.floats(&[64]));
        vec![b.linear(&normed, &w), normed, sum]
    });
}
