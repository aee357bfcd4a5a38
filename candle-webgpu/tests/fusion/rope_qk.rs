//! RoPE of queries and keys.

use candle_webgpu::DType;

use crate::bench::{saves, takes, Bench, FLOATS, T};

#[test]
fn queries_and_keys() {
    for dtype in [DType::F32, DType::F16] {
        for (t, d) in [(1, 64), (5, 12)] {
            saves(1, (dtype, t, d), |b| {
                let (q, k) = (b.of(dtype, &[2, 8, t, d]), b.of(dtype, &[2, 2, t, d]));
                let angles = [0; 2].map(|_| b.of(dtype, &[t, d / 2]));
                vec![b.turned(&q, &angles), b.turned(&k, &angles)]
            });
        }
    }
}

/// Projections (2, t, h, d), transposed to heads by copies.
fn by_heads(b: &Bench, x: &T) -> T {
    let [n, t, h, d] = x.dims[..].try_into().expect("four dims");
    let y = b.output(x.dtype, &[n, h, t, d]);
    b.copy(
        &x.shown(&[n, h, t, d], &[t * h * d, d, h * d, 1], x.offset),
        &y,
    );
    y
}

#[test]
fn transposed_projections() {
    for dtype in FLOATS {
        for (t, d) in [(5, 64), (3, 12), (4, 6)] {
            for interleaved in [false, true] {
                saves(3, (dtype, t, d, interleaved), |b| {
                    let angles = [0; 2].map(|_| b.of(dtype, &[t, d / 2]));
                    let projections = [8, 2].map(|h| b.of(dtype, &[2, t, h, d]));
                    let heads = projections.each_ref().map(|x| by_heads(b, x));
                    let turned = heads.each_ref().map(|x| match interleaved {
                        true => b.turned_i(x, &angles),
                        false => b.turned(x, &angles),
                    });
                    turned.into()
                });
            }
        }
    }
    saves(2, "a copy that is read later", |b| {
        let angles = [0; 2].map(|_| b.floats(&[5, 8]));
        let [q, k] = [4, 2].map(|h| by_heads(b, &b.floats(&[2, 5, h, 16])));
        vec![b.turned(&q, &angles), b.turned(&k, &angles), k]
    });
    // Pairs of copies are one kernel each, too.
    saves(3, "projections that are overwritten", |b| {
        let angles = [0; 2].map(|_| b.floats(&[5, 8]));
        let projections = [4, 2].map(|h| b.floats(&[2, 5, h, 16]));
        let heads = projections.each_ref().map(|x| by_heads(b, x));
        for x in &projections {
            b.copy(&b.floats(&x.dims), x);
        }
        heads.each_ref().map(|x| b.turned(x, &angles)).into()
    });
}

/// Queries and keys that one matmul computed.
#[test]
fn parts_of_one_value() {
    saves(1, "two heads of queries, one of keys", |b| {
        let (x, angles) = (b.floats(&[1, 4, 16]), [0; 2].map(|_| b.floats(&[1, 8])));
        let part = |heads, at| x.shown(&[1, heads, 1, 16], &[64, 16, 16, 1], at);
        vec![
            b.turned(&part(2, 0), &angles),
            b.turned(&part(1, 32), &angles),
        ]
    });
}

#[test]
fn stay_apart() {
    takes((2, 2), "other angles", |b| {
        let q = b.floats(&[1, 2, 3, 8]);
        let [one, other] = [0; 2].map(|_| [0; 2].map(|_| b.floats(&[3, 4])));
        vec![b.turned(&q, &one), b.turned(&q, &other)]
    });
    takes((2, 2), "the same again", |b| {
        let q = b.floats(&[1, 2, 3, 8]);
        let angles = [0; 2].map(|_| b.floats(&[3, 4]));
        vec![b.turned(&q, &angles), b.turned(&q, &angles)]
    });
    takes((2, 2), "one after the other", |b| {
        let q = b.floats(&[1, 2, 3, 8]);
        let angles = [0; 2].map(|_| b.floats(&[3, 4]));
        let once = b.turned(&q, &angles);
        vec![b.turned(&once, &angles), once]
    });
}
