//! RoPE and copies into a KV cache.

use candle_webgpu::{DType, Device};

use crate::bench::{saves, Bench, T};

/// Queries, new keys and values of `heads` KV heads and `t` steps, old ones of `old` steps, cosines, sines.
fn pass(b: &Bench, dtype: DType, [heads, old, t, d]: [usize; 4]) -> [T; 7] {
    [
        b.of(dtype, &[1, 4, t, d]),
        b.of(dtype, &[1, heads, t, d]),
        b.of(dtype, &[heads, t, d]),
        b.of(dtype, &[heads, old, d]),
        b.of(dtype, &[heads, old, d]),
        b.of(dtype, &[t, d / 2]),
        b.of(dtype, &[t, d / 2]),
    ]
}

fn heads(k: &T) -> T {
    T::new(k.value.clone(), k.dtype, &k.dims[1..])
}

/// Rotated queries, the new caches of keys and values, and the rotated keys.
fn grown(b: &Bench, dtype: DType, dims: [usize; 4]) -> [T; 4] {
    let [q, k, v, old_k, old_v, cos, sin] = pass(b, dtype, dims);
    let angles = [cos, sin];
    let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
    let keys = b.cat(&[&old_k, &heads(&k)]);
    [q, keys, b.cat(&[&old_v, &v]), k]
}

#[test]
fn grown_caches() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for dims in [[2, 9, 1, 64], [1, 3, 1, 16], [3, 8, 5, 32]] {
            saves(5, (dtype, dims), |b| {
                let [q, keys, values, _] = grown(b, dtype, dims);
                vec![q, keys, values]
            });
        }
    }
}

#[test]
fn preallocated_caches() {
    for dtype in [DType::F32, DType::F16] {
        saves(3, dtype, |b| {
            let [q, k, v, old_k, old_v, cos, sin] = pass(b, dtype, [2, 9, 1, 64]);
            let angles = [cos, sin];
            let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
            for (new, old) in [(&k, &old_k), (&v, &old_v)] {
                let new = new.shown(&[2, 64], &[64, 1], 0);
                let to = old.shown(&[2, 64], &[9 * 64, 1], 4 * 64);
                b.copy(&new, &to);
            }
            vec![q, old_k, old_v]
        });
    }
}

/// The rule fires wherever a batch of recorded ops ends.
#[test]
fn many_layers() {
    let b = Bench::new("");
    let [q, k, v, old_k, old_v, cos, sin] = pass(&b, DType::F32, [2, 9, 1, 64]);
    let angles = [cos, sin];
    for shift in 0..8 {
        let count = |device: &Device| device.stats().dispatches;
        b.device.read(&q.value, 0, 4).expect("bytes");
        let before = count(&b.device);
        for _ in 0..shift {
            b.softmax(&q);
        }
        for _ in 0..40 {
            let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
            let _keys = b.cat(&[&old_k, &heads(&k)]);
            drop(k);
            b.cat(&[&old_v, &v]);
            b.softmax(&b.softmax(&q));
        }
        b.device.synchronize().expect("no error");
        assert_eq!(count(&b.device) - before, 3 * 40 + shift, "{shift}");
    }
}

#[test]
fn keys_that_are_read_again() {
    saves(4, "the copies stay separate", |b| {
        grown(b, DType::F32, [2, 9, 1, 64]).into()
    });
}

#[test]
fn rows_of_partial_quads() {
    saves(1, "the ropes are one", |b| {
        let [q, keys, values, _] = grown(b, DType::F32, [2, 9, 1, 10]);
        vec![q, keys, values]
    });
}
