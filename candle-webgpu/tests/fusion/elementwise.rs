//! Chains of elementwise ops.

use candle_webgpu::DType;

use crate::bench::{saves, takes, Bench, FLOATS, T};

#[test]
fn silu_and_multiply() {
    for dtype in FLOATS {
        takes((3, 4), (dtype, "with two casts"), |b| {
            let (x, y) = (b.of(dtype, &[3, 50]), b.of(dtype, &[3, 50]));
            vec![b.binary("bmul", &b.unary("usilu", &x), &y)]
        });
    }
}

#[test]
fn rounds_in_between() {
    for dtype in FLOATS {
        takes((3, 9), (dtype, "with two casts"), |b| {
            let (x, y) = (b.of(dtype, &[999]), b.of(dtype, &[999]));
            let z = b.binary("badd", &b.binary("bmul", &x, &y), &x);
            let z = b.cast(&b.unary("affine", &z), DType::F32);
            let z = b.cast(&b.unary("uexp", &z), dtype);
            vec![b.binary("bmul", &z, &z)]
        });
    }
}

#[test]
fn zeros_that_are_added() {
    let zeros = |b: &Bench, dtype: DType, dims: &[usize]| {
        let value = b.device.fill(dims.iter().product(), dtype, 0);
        T::new(value.expect("a fill"), dtype, dims)
    };
    for dtype in FLOATS {
        takes((5, 9), dtype, |b| {
            let (x, y) = (b.of(dtype, &[3, 50]), b.of(dtype, &[3, 50]));
            let sum = b.binary("badd", &zeros(b, dtype, &[3, 50]), &x);
            // -0 becomes 0.
            let low = b.binary(
                "badd",
                &b.unary("uneg", &zeros(b, dtype, &[9])),
                &zeros(b, dtype, &[9]),
            );
            vec![b.binary("bmul", &sum, &y), low]
        });
    }
    saves(4, "an expression has four scalars", |b| {
        let x = b.floats(&[64]);
        let four = (0..4).fold(x, |x, _| b.unary("affine", &x));
        vec![b.binary("badd", &four, &zeros(b, DType::F32, &[64]))]
    });
    takes((2, 2), "another op", |b| {
        let x = b.floats(&[64]);
        vec![b.binary("bmul", &zeros(b, DType::F32, &[64]), &x)]
    });
    takes((3, 3), "integers", |b| {
        let x = b.of(DType::U32, &[64]);
        vec![b.binary("badd", &zeros(b, DType::U32, &[64]), &x)]
    });
}

#[test]
fn masks() {
    for dtype in FLOATS {
        saves(2, dtype, |b| {
            let (x, y) = (b.of(dtype, &[6, 5, 7]), b.of(dtype, &[6, 5, 7]));
            let mask = b.of(DType::U8, &[5, 7]).shown(&[6, 5, 7], &[0, 7, 1], 0);
            let low = b.of(dtype, &[1]).shown(&[6, 5, 7], &[0; 3], 0);
            let x = b.binary("badd", &x, &y);
            vec![b.unary("uneg", &b.where_cond(&mask, &low, &x))]
        });
    }
}

#[test]
fn what_is_held_or_read_elsewhere_stays() {
    takes((2, 2), "a tensor holds it", |b| {
        let x = b.floats(&[64]);
        let held = b.unary("uexp", &x);
        let y = b.unary("uneg", &held);
        vec![y, held]
    });
    takes((3, 3), "another op reads it", |b| {
        let x = b.floats(&[4, 16]);
        let made = b.unary("uexp", &x);
        let soft = b.softmax(&made);
        vec![b.unary("uneg", &made), soft]
    });
}

#[test]
fn what_is_read_otherwise_stays() {
    takes((2, 2), "transposed", |b| {
        let x = b.floats(&[8, 8]);
        vec![b.unary("uneg", &b.unary("uexp", &x).shown(&[8, 8], &[1, 8], 0))]
    });
    takes((2, 2), "half of it", |b| {
        let x = b.floats(&[64]);
        vec![b.unary("uneg", &b.unary("uexp", &x).shown(&[32], &[1], 32))]
    });
    takes((1, 2), "an operand may lie anyhow", |b| {
        let x = b.floats(&[8, 8]).shown(&[8, 8], &[1, 8], 0);
        vec![b.unary("uneg", &b.unary("uexp", &x))]
    });
}

#[test]
fn a_read_stays_before_a_write() {
    takes((3, 3), "an input changes in between", |b| {
        let (x, y) = (b.floats(&[64]), b.floats(&[64]));
        let made = b.unary("uexp", &x);
        b.copy(&y, &x);
        let z = b.unary("uneg", &made);
        drop(made);
        vec![z, x]
    });
}

#[test]
fn long_chains_are_cut() {
    takes((3, 30), "12 steps each", |b| {
        let mut x = b.floats(&[100]);
        for _ in 0..30 {
            x = b.unary("utanh", &x);
        }
        vec![x]
    });
    takes((3, 11), "6 operands each", |b| {
        let all: Vec<T> = (0..12).map(|_| b.floats(&[100])).collect();
        let sum = all[1..]
            .iter()
            .fold(all[0].clone(), |sum, x| b.binary("badd", &sum, x));
        vec![sum]
    });
}
