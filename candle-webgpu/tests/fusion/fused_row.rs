//! Reductions of rows between elementwise ops.

use candle_webgpu::DType;

use crate::bench::{saves, Bench, FLOATS, T};

/// RMS norm as models write it: in f32, with a division by sqrt(mean + eps), rounded, times 1 + alpha.
fn norm(b: &Bench, x: &T, alpha: &T) -> T {
    let cast = |x: &T, to| match x.dtype == to {
        true => x.clone(),
        false => b.cast(x, to),
    };
    let wide = cast(x, DType::F32);
    let square = b.unary("usqr", &wide);
    let root = b.along("sum", &square, |sum| {
        b.unary("usqrt", &b.unary("affine", &b.unary("affine", sum)))
    });
    let y = cast(&b.binary("bdiv", &wide, &root), x.dtype);
    let alpha = b.unary("affine", alpha);
    let dims = &x.dims[..];
    b.binary("bmul", &y, &alpha.shown(dims, &[0, 1], 0))
}

#[test]
fn a_norm_is_one_kernel() {
    for dtype in FLOATS {
        for dims in [[1, 2048], [7, 36], [300, 64], [3, 5000]] {
            let casts = 2 * u64::from(dtype != DType::F32);
            saves(7 + casts, (dtype, dims), |b| {
                let (x, alpha) = (b.of(dtype, &dims), b.of(dtype, &[dims[1]]));
                vec![norm(b, &x, &alpha)]
            });
        }
    }
}

#[test]
fn a_log_softmax_is_two_kernels() {
    for dims in [[1, 2048], [7, 36], [300, 64]] {
        saves(4, dims, |b| {
            let x = b.floats(&dims);
            let x = b.binary("bsub", &x, &b.along("max", &x, T::clone));
            let sum = b.along("sum", &b.unary("uexp", &x), |sum| b.unary("ulog", sum));
            vec![b.binary("bsub", &x, &sum)]
        });
    }
}

#[test]
fn what_others_read_stays() {
    saves(0, "a tensor holds the sum", |b| {
        let x = b.floats(&[4, 64]);
        let sum = b.along("sum", &x, T::clone);
        vec![b.binary("bdiv", &x, &sum), sum]
    });
    saves(0, "the sum is read along columns, too", |b| {
        let x = b.floats(&[8, 8]);
        let sum = b.along("sum", &x, T::clone);
        let down = sum.shown(&[8, 8], &[0, 1], 0);
        vec![b.binary("bmul", &sum, &down)]
    });
    saves(0, "rows of partial quads", |b| {
        let x = b.floats(&[4, 63]);
        let sum = b.along("sum", &x, T::clone);
        vec![b.binary("bdiv", &x, &sum)]
    });
    saves(1, "x is held and read from memory", |b| {
        let x = b.floats(&[4, 64]);
        let wide = b.unary("usqr", &x);
        let sum = b.along("sum", &wide, T::clone);
        vec![b.binary("bdiv", &wide, &sum), wide]
    });
    saves(2, "f64, which the kernel cannot read", |b| {
        let x = b.cast(&b.of(DType::F64, &[4, 64]), DType::F32);
        let sum = b.along("sum", &b.unary("usqr", &x), T::clone);
        vec![b.binary("bdiv", &x, &sum)]
    });
}
