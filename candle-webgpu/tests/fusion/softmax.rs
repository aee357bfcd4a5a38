//! Softmaxes of single ops, as `candle_nn::ops::softmax` computes them.

use crate::bench::{saves, saves_near, Bench, FLOATS, T};

fn softmax(b: &Bench, x: &T) -> T {
    let e = b.unary("uexp", &b.binary("bsub", x, &b.along("max", x, T::clone)));
    b.binary("bdiv", &e, &b.along("sum", &e, T::clone))
}

#[test]
fn is_one_kernel() {
    for (dtype, bound) in FLOATS.into_iter().zip([1e-6, 1e-3, 8e-3]) {
        for dims in [[1, 2048], [7, 5], [300, 64], [40, 33]] {
            saves_near(bound, 4, (dtype, dims), |b| {
                vec![softmax(b, &b.of(dtype, &dims))]
            });
        }
    }
}

#[test]
fn what_others_read_stays() {
    // Only the difference and its exponential are fused.
    saves(1, "the exponentials are held", |b| {
        let x = b.floats(&[4, 5]);
        let e = b.unary("uexp", &b.binary("bsub", &x, &b.along("max", &x, T::clone)));
        vec![b.binary("bdiv", &e, &b.along("sum", &e, T::clone)), e]
    });
    saves(2, "the sum of another tensor", |b| {
        let (x, other) = (b.floats(&[4, 5]), b.floats(&[4, 5]));
        let e = b.unary("uexp", &b.binary("bsub", &x, &b.along("max", &x, T::clone)));
        vec![b.binary("bdiv", &e, &b.along("sum", &other, T::clone))]
    });
}
