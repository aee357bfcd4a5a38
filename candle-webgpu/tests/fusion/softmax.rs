//! Softmaxes of single ops, as `candle_nn::ops::softmax` computes them.

use crate::bench::{saves, saves_near, Bench, FLOATS, T};

/// A reduction of the rows of `x`, as a view that repeats each value along its row.
fn along(b: &Bench, op: &'static str, x: &T) -> T {
    let value = b.device.reduce(op, x.v(), &[1]).expect("recorded");
    let rows = T::new(value, x.dtype, &[x.dims[0], 1]);
    rows.shown(&x.dims, &[1, 0], 0)
}

fn softmax(b: &Bench, x: &T) -> T {
    let e = b.unary("uexp", &b.binary("bsub", x, &along(b, "max", x)));
    b.binary("bdiv", &e, &along(b, "sum", &e))
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
        let e = b.unary("uexp", &b.binary("bsub", &x, &along(b, "max", &x)));
        vec![b.binary("bdiv", &e, &along(b, "sum", &e)), e]
    });
    saves(2, "the sum of another tensor", |b| {
        let (x, other) = (b.floats(&[4, 5]), b.floats(&[4, 5]));
        let e = b.unary("uexp", &b.binary("bsub", &x, &along(b, "max", &x)));
        vec![b.binary("bdiv", &e, &along(b, "sum", &other))]
    });
}
