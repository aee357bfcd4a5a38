//! Queries and keys that are normalized before RoPE.

use candle_webgpu::DType;

use crate::bench::{near_by, saves, saves_near, Bench, FLOATS, T};
use crate::growing_cache::Sequence;
use crate::rope_attention::{InPlace, Step, LLAMA};

/// Normalized elements are within 4 (x / rms within 2, weights within 2), and their last bit may differ, since squares are added up in another
/// order. Cosines and sines within 2 make that four units, and the result is rounded.
fn bound(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 5. * 4. / 1024.,
        DType::Bf16 => 5. * 4. / 128.,
        _ => 5. * 4. / (1 << 20) as f32,
    }
}

/// Queries and keys (b, h, t, d), and what normalizes and rotates them.
struct Heads {
    x: [T; 2],
    alphas: [T; 2],
    angles: [T; 2],
}

impl Heads {
    fn new(b: &Bench, dtype: DType, [n, t, d]: [usize; 3]) -> Self {
        Heads {
            x: [8, 2].map(|h| b.of(dtype, &[n, h, t, d])),
            alphas: [0; 2].map(|_| b.of(dtype, &[d])),
            angles: [0; 2].map(|_| b.of(dtype, &[t, d / 2])),
        }
    }

    fn normed(&self, b: &Bench) -> [T; 2] {
        [0, 1].map(|i| b.rms_norm(&self.x[i], &self.alphas[i]))
    }

    fn turned(&self, b: &Bench, x: [T; 2]) -> Vec<T> {
        x.map(|x| b.turned(&x, &self.angles)).into()
    }
}

#[test]
fn queries_and_keys() {
    for dtype in FLOATS {
        for (t, d) in [(1, 64), (5, 128), (3, 8), (2, 256)] {
            saves_near(bound(dtype), 3, (dtype, t, d), |b| {
                let heads = Heads::new(b, dtype, [2, t, d]);
                heads.turned(b, heads.normed(b))
            });
            saves_near(bound(dtype), 3, (dtype, t, d, "interleaved"), |b| {
                let heads = Heads::new(b, dtype, [2, t, d]);
                let turned = |x: T| b.turned_i(&x, &heads.angles);
                heads.normed(b).map(turned).into()
            });
        }
    }
}

/// A row that does not consist of whole quads stays with its norm.
#[test]
fn odd_rows() {
    for d in [6, 12] {
        saves(1, d, |b| {
            let heads = Heads::new(b, DType::F32, [1, 3, d]);
            heads.turned(b, heads.normed(b))
        });
    }
}

/// A token behind a KV cache: the kernel of `rope_attention` normalizes, too, unless it copies caches, which would take 12 storage buffers.
#[test]
fn steps() {
    for dtype in FLOATS {
        for sizes in [
            [1, 4, 70, 100, 64],
            [2, 3, 1, 4, 128],
            [1, 1, 600, 601, 128],
        ] {
            let (with, without) = near_by(["", "-qk_norm"], bound(dtype), |b| {
                let step = InPlace::new(b, dtype, sizes);
                let alphas = [0; 2].map(|_| b.of(dtype, &sizes[4..]));
                let norm = |i: usize, x: &T| b.rms_norm(x, &alphas[i]);
                step.record(b, norm).into()
            });
            assert_eq!(without - with, 2, "{dtype} {sizes:?}");
        }
        let copying = near_by(["-growing_cache", "-growing_cache,-qk_norm"], 0.0, |b| {
            let step = Step { dtype, ..LLAMA };
            let alphas = [0; 2].map(|_| b.of(dtype, &[64]));
            let mut operands = step.operands(b);
            for (x, alpha) in operands.iter_mut().zip(&alphas) {
                *x = b.rms_norm(x, alpha);
            }
            step.record(b, &operands).into()
        });
        assert_eq!(copying.0, copying.1, "{dtype}");
    }
}

/// One kernel cannot read a weight where it writes a row of a cache.
#[test]
fn weights_in_a_cache() {
    let run = |b: &Bench| {
        let step = InPlace::new(b, DType::F32, [1, 4, 70, 100, 64]);
        let norm = |i: usize, x: &T| b.rms_norm(x, &step.caches[i].shown(&[64], &[1], 0));
        step.record(b, norm).into()
    };
    let (with, without) = near_by(["", "-qk_norm"], 0.0, run);
    assert_eq!(with, without);
}

/// The attention of grouped heads and of several sequences, from the second token on, when their caches grow in place. There are too few keys
/// for cooperative matrices.
#[test]
fn growing_caches() {
    for sizes in [[2, 8, 2, 70, 64], [16, 8, 2, 70, 16]] {
        for dtype in [DType::F32, DType::F16] {
            let run = |b: &Bench| {
                let step = Step {
                    dtype,
                    sizes,
                    ..LLAMA
                };
                let mut sequence = Sequence::new(b, step);
                let alphas = [0; 2].map(|_| b.of(dtype, &sizes[4..]));
                let raw = sequence.token.clone();
                let token = |_| {
                    for (i, alpha) in alphas.iter().enumerate() {
                        sequence.token[i] = b.rms_norm(&raw[i], alpha);
                    }
                    let made = sequence.decode(1);
                    sequence.token = raw.clone();
                    sequence.sync();
                    made
                };
                (0..3).flat_map(token).collect()
            };
            let (with, without) = near_by(["", "-qk_norm"], bound(dtype), run);
            assert_eq!(without - with, 4, "{dtype} {sizes:?}");
        }
    }
}

/// The rule fires wherever a batch of recorded ops ends.
#[test]
fn many_layers() {
    const LAYERS: u64 = 30;
    let b = Bench::new("");
    let alphas = [0; 2].map(|_| b.of(DType::F16, &[64]));
    let layer = |_| InPlace::new(&b, DType::F16, [1, 4, 70, 100, 64]);
    let layers: Vec<_> = (0..LAYERS).map(layer).collect();
    for shift in 0..8 {
        b.device.synchronize().expect("no error");
        let before = b.device.stats().dispatches;
        for _ in 0..shift {
            b.softmax(&alphas[0]);
        }
        for layer in &layers {
            layer.record(&b, |i, x| b.rms_norm(x, &alphas[i]));
        }
        b.device.synchronize().expect("no error");
        let made = b.device.stats().dispatches - before;
        assert_eq!(made, LAYERS + shift, "{shift}");
    }
}

#[test]
fn stay_apart() {
    let heads = |b: &Bench| Heads::new(b, DType::F32, [1, 3, 64]);
    saves(1, "a norm that is read elsewhere", |b| {
        let heads = heads(b);
        let normed = heads.normed(b);
        let mut all = heads.turned(b, normed.clone());
        all.extend(normed.into_iter().skip(1));
        all
    });
    saves(1, "another eps", |b| {
        let heads = heads(b);
        let [q, k] = &heads.x;
        let [of_q, of_k] = &heads.alphas;
        let k = k.like(b.device.rms_norm(k.v(), of_k.v(), 1e-6));
        heads.turned(b, [b.rms_norm(q, of_q), k])
    });
    saves(1, "rows of the norm that are half as long", |b| {
        let heads = heads(b);
        let alpha = b.floats(&[32]);
        let normed = heads.x.each_ref().map(|x| {
            let halves = T::new(x.value.clone(), x.dtype, &[x.dims[1] * 6, 32]);
            T::new(b.rms_norm(&halves, &alpha).value, x.dtype, &x.dims)
        });
        heads.turned(b, normed)
    });
    saves(1, "the first half of a row is rotated", |b| {
        let mut heads = heads(b);
        heads.angles = [0; 2].map(|_| b.floats(&[3, 16]));
        let half = |x: T| {
            let h = x.dims[1];
            x.shown(&[1, h, 3, 32], &[h * 192, 192, 64, 1], 0)
        };
        let halves = heads.normed(b).map(half);
        let turned = halves.map(|x| {
            let y = b
                .device
                .rope(x.v(), heads.angles[0].v(), heads.angles[1].v());
            T::new(y.expect("recorded"), x.dtype, &x.dims)
        });
        turned.into()
    });
}
