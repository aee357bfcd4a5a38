//! Norms of residual sums that write scaled lines for cooperative matrices.

use std::fmt::Debug;

use candle_webgpu::{DType, Quant};

use crate::bench::{if_cooperative, same_bits_without, Bench, T};

/// Asserts the same bits without the rule, and how many dispatches it saves on adapters with cooperative matrices.
fn saves(dispatches: u64, what: impl Debug, run: impl Fn(&Bench) -> Vec<T>) {
    let (with, without) = same_bits_without("norm_scale_lines", run);
    assert_eq!(without - with, if_cooperative(dispatches), "{what:?}");
}

/// The norm of a sum, and the sum.
fn normed(b: &Bench, dtype: DType, dims: &[usize], centered: bool) -> [T; 2] {
    let (x, y) = (b.of(dtype, dims), b.of(dtype, dims));
    let [alpha, beta] = [0; 2].map(|_| b.of(dtype, &dims[1..]));
    let sum = b.binary("badd", &x, &y);
    let norm = match centered {
        true => b.layer_norm(&sum, [&alpha, &beta]),
        false => b.rms_norm(&sum, &alpha),
    };
    [norm, sum]
}

#[test]
fn of_each_kind() {
    for (m, k) in [(17, 256), (40, 512), (300, 256), (20, 8448)] {
        for (centered, read_again) in [(false, true), (false, false), (true, true), (true, false)] {
            let results = |product: T, sum: T| match read_again {
                true => vec![product, sum],
                false => vec![product],
            };
            saves(1, (m, k, centered, read_again, "bf16"), |b| {
                let w = b.of(DType::Bf16, &[72, k]);
                let [norm, sum] = normed(b, DType::Bf16, &[m, k], centered);
                results(b.linear(&norm, &w), sum)
            });
            saves(1, (m, k, centered, read_again, "q4_0"), |b| {
                let w = b.blocks(Quant::Q4_0, 64, k);
                let [norm, sum] = normed(b, DType::F32, &[m, k], centered);
                results(b.by_blocks(&norm, Quant::Q4_0, &w), sum)
            });
        }
    }
}

/// Rows of zeros, and infinite values and NaN.
#[test]
fn special_values() {
    for special in [0.0, f64::INFINITY, f64::NAN] {
        saves(1, special, |b| {
            let w = b.of(DType::Bf16, &[72, 256]);
            let x = b.of(DType::Bf16, &[40, 256]);
            let part = x.shown(&[3, 5], &[256, 1], 512);
            let value = b.device.unary("affine", part.v(), [0.0, special]);
            b.copy(&part.like(value), &part);
            b.device.synchronize().expect("no error");
            let (y, alpha) = (b.of(DType::Bf16, &[40, 256]), b.of(DType::Bf16, &[256]));
            let norm = b.rms_norm(&b.binary("badd", &x, &y), &alpha);
            vec![b.linear(&norm, &w)]
        });
    }
}

#[test]
fn stays_apart() {
    saves(0, "a norm that is read again", |b| {
        let w = b.of(DType::Bf16, &[72, 256]);
        let [norm, _] = normed(b, DType::Bf16, &[40, 256], false);
        vec![b.linear(&norm, &w), norm]
    });
    saves(0, "a part of the rows", |b| {
        let w = b.of(DType::Bf16, &[72, 256]);
        let [norm, _] = normed(b, DType::Bf16, &[40, 256], false);
        vec![b.linear(&norm.shown(&[20, 256], &[256, 1], 0), &w)]
    });
}
