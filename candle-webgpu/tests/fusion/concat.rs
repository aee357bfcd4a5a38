//! Concatenation by copies.

use candle_webgpu::DType;

use crate::bench::{saves, takes};

#[test]
fn keys_and_values() {
    for dtype in [DType::F32, DType::F16, DType::U8] {
        for (g, d) in [(4, 64), (1, 32), (3, 16)] {
            saves(3, (dtype, g, d), |b| {
                let [k, v] = [0; 2].map(|_| b.of(dtype, &[g, 9, d]));
                let [k1, v1] = [0; 2].map(|_| b.of(dtype, &[g, 1, d]));
                vec![b.cat(&[&k, &k1]), b.cat(&[&v, &v1])]
            });
            saves(1, (dtype, g, d), |b| {
                let [k, k1] = [9, 1].map(|t| b.of(dtype, &[g, t, d]));
                vec![b.cat(&[&k, &k1])]
            });
        }
    }
}

#[test]
fn into_caches() {
    takes((1, 2), "one copy", |b| {
        let [k, v] = [0; 2].map(|_| b.floats(&[4, 9, 8]));
        let [k1, v1] = [0; 2].map(|_| b.floats(&[4, 8]));
        for (from, to) in [(k1, &k), (v1, &v)] {
            let to = to.shown(&[4, 8], &[72, 1], 16);
            b.copy(&from, &to);
        }
        vec![k, v]
    });
}

#[test]
fn what_meets_stays_apart() {
    takes((2, 2), "the same place", |b| {
        let (x, y, z) = (b.floats(&[64]), b.floats(&[64]), b.floats(&[64]));
        b.copy(&x, &z);
        b.copy(&y, &z);
        vec![z]
    });
    takes((2, 2), "one reads what the other writes", |b| {
        let (x, y, z) = (b.floats(&[64]), b.floats(&[64]), b.floats(&[64]));
        b.copy(&x, &y);
        b.copy(&y, &z);
        vec![y, z]
    });
    takes((4, 4), "neither can move to the other", |b| {
        let (x, y, z) = (b.floats(&[64]), b.floats(&[64]), b.floats(&[64]));
        b.copy(&x, &y);
        let read = b.unary("uexp", &z);
        let made = b.unary("uexp", &y);
        b.copy(&made, &z);
        vec![read, z, made]
    });
}
