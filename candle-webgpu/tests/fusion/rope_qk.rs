//! RoPE of queries and keys.

use candle_webgpu::DType;

use crate::bench::{saves, takes};

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
