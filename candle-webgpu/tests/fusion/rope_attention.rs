//! The attention of a decoded token: RoPE, the KV cache and the attention in one kernel.

use candle_webgpu::DType;

use crate::bench::{near, same_bits_by, Bench, FLOATS, T};

/// With the rule and without it. `growing_cache`, which takes its kernels, would add a copy of each cache that is read.
const RULES: [&str; 2] = ["-growing_cache", "-rope_attention,-growing_cache"];

/// A step of decoding, as candle-transformers' llama records it.
#[derive(Clone, Copy)]
pub struct Step {
    pub dtype: DType,
    /// Batch, heads, KV heads, old keys, head_dim.
    pub sizes: [usize; 5],
    pub interleaved: bool,
    /// Queries, keys and values are parts of one value.
    pub parts: bool,
    /// The cache of values has keys before heads, as cat leaves it that gets transposed values (Qwen2).
    pub transposed: bool,
}

pub const LLAMA: Step = Step {
    dtype: DType::F16,
    sizes: [1, 8, 2, 70, 64],
    interleaved: false,
    parts: false,
    transposed: false,
};

impl Step {
    /// Its operands: q, k, v, the old keys and values, cosines and sines.
    pub fn operands(self, b: &Bench) -> [T; 7] {
        let [batch, h, g, old, d] = self.sizes;
        let of = |dims: &[usize]| b.of(self.dtype, dims);
        let [q, k, v] = match self.parts {
            false => [h, g, g].map(|heads| of(&[batch, heads, 1, d])),
            true => {
                let all = of(&[batch, h + 2 * g, 1, d]);
                let part = |heads, from: usize| {
                    let whole = (h + 2 * g) * d;
                    all.shown(&[batch, heads, 1, d], &[whole, d, d, 1], from * d)
                };
                [part(h, 0), part(g, h), part(g, h + g)]
            }
        };
        let cache = [batch * g, old, d];
        let angles = [1, d / 2];
        [q, k, v, of(&cache), of(&cache), of(&angles), of(&angles)]
    }

    /// The attention's result, and the new caches.
    pub fn record(self, b: &Bench, [q, k, v, old_k, old_v, cos, sin]: &[T; 7]) -> [T; 3] {
        let [batch, h, g, old, d] = self.sizes;
        let angles = [cos.clone(), sin.clone()];
        let turned = |x: &T| match self.interleaved {
            true => b.turned_i(x, &angles),
            false => b.turned(x, &angles),
        };
        let (q, k) = (turned(q), turned(k));
        let row = |x: &T| x.shown(&[batch * g, 1, d], &[d, d, 1], x.offset);
        let keys = b.cat(&[old_k, &row(&k)]);
        let tokens = |x: &T, n| x.shown(&[1, n, batch * g * d], &[0, batch * g * d, 1], x.offset);
        let values = match self.transposed {
            true => b.cat(&[&tokens(old_v, old), &tokens(v, 1)]),
            false => b.cat(&[old_v, &row(v)]),
        };
        drop(k);
        let j = old + 1;
        let all = |x: &T| x.shown(&[batch, g, j, d], &[g * j * d, j * d, d, 1], 0);
        let repeat = |x: &T| match h / g {
            1 => x.clone(),
            n => b.repeat(x, n),
        };
        let k = repeat(&all(&keys));
        let v = match self.transposed {
            true => {
                let of_heads = values.shown(&[batch, g, j, d], &[0, d, g * d, 1], 0);
                let y = of_heads.like(b.device.contiguous(of_heads.v()));
                repeat(&y)
            }
            false => repeat(&all(&values)),
        };
        let kt = k.shown(&[batch, h, d, j], &[h * j * d, j * d, 1, d], 0);
        let s = b.scaled(&b.matmul(&q, &kt), 1.0 / (d as f64).sqrt());
        [b.matmul(&b.softmax(&s), &v), keys, values]
    }

    fn run(self, b: &Bench) -> Vec<T> {
        self.record(b, &self.operands(b)).into()
    }
}

fn one_kernel_less(step: Step, what: &str) {
    let (with, without) = same_bits_by(RULES, |b| step.run(b));
    assert_eq!(without - with, 1, "{what}");
}

#[test]
fn steps() {
    for dtype in FLOATS {
        for sizes in [
            [1, 8, 2, 70, 64],
            [1, 4, 4, 1, 32],
            [2, 4, 2, 33, 64],
            [3, 2, 1, 300, 16],
            [2, 1, 1, 40, 64],
            [1, 2, 1, 40, 48],
        ] {
            for (interleaved, parts) in [(false, false), (true, false), (false, true)] {
                let step = Step {
                    dtype,
                    sizes,
                    interleaved,
                    parts,
                    transposed: false,
                };
                // Heads of parts are not equally far apart in all batches.
                if parts && sizes[0] > 1 {
                    same_bits_by(RULES, |b| step.run(b));
                    continue;
                }
                one_kernel_less(step, &format!("{dtype} {sizes:?} {interleaved} {parts}"));
            }
        }
    }
}

/// Workgroups with several rows write the caches where they read them.
#[test]
fn several_rows_of_a_workgroup() {
    for dtype in FLOATS {
        for sizes in [
            [64, 16, 4, 70, 16],
            [64, 12, 4, 9, 48],
            [128, 16, 4, 33, 16],
            [64, 8, 4, 1100, 16],
            // flash_decode_coop, in f16.
            [64, 16, 2, 140, 64],
            [16, 10, 2, 1100, 48],
        ] {
            let step = Step {
                dtype,
                sizes,
                ..LLAMA
            };
            one_kernel_less(step, &format!("{dtype} {sizes:?}"));
        }
    }
    // Subgroups of 8 threads do not hold such rows.
    for sizes in [[64, 16, 4, 9, 160], [64, 8, 2, 200, 128]] {
        let wide = Step { sizes, ..LLAMA };
        same_bits_by(RULES, |b| wide.run(b));
    }
}

#[test]
fn transposed_values() {
    for old in [1, 70, 600] {
        let sizes = [1, 4, 2, old, 64];
        let step = Step {
            sizes,
            transposed: true,
            ..LLAMA
        };
        one_kernel_less(step, &format!("{old} old keys"));
    }
}

/// A step with caches that have room for more rows than are used, as `candle_nn::kv_cache` has them.
pub struct InPlace {
    /// Batch, heads, old keys, rows of the caches, head_dim.
    sizes: [usize; 5],
    /// Queries, keys, values.
    new: [T; 3],
    /// Keys and values.
    pub caches: [T; 2],
    angles: [T; 2],
}

impl InPlace {
    pub fn new(b: &Bench, dtype: DType, sizes: [usize; 5]) -> Self {
        let [batch, h, _, room, d] = sizes;
        let of = |dims: &[usize]| b.of(dtype, dims);
        InPlace {
            sizes,
            new: [0; 3].map(|_| of(&[batch, h, 1, d])),
            caches: [0; 2].map(|_| of(&[batch * h, room, d])),
            angles: [0; 2].map(|_| of(&[1, d / 2])),
        }
    }

    /// The attention's result, and the caches. `before`: what is done to queries and keys before RoPE.
    pub fn record(&self, b: &Bench, before: impl Fn(usize, &T) -> T) -> [T; 3] {
        let [batch, h, old, room, d] = self.sizes;
        let [q, k, v] = &self.new;
        let [keys, values] = &self.caches;
        let q = b.turned(&before(0, q), &self.angles);
        let k = b.turned(&before(1, k), &self.angles);
        for (new, cache) in [(&k, keys), (v, values)] {
            let row = |x: &T, step, from| x.shown(&[batch * h, d], &[step, 1], from);
            b.copy(&row(new, d, 0), &row(cache, room * d, old * d));
        }
        drop(k);
        let j = old + 1;
        let of_batch = h * room * d;
        let kt = keys.shown(&[batch, h, d, j], &[of_batch, room * d, 1, d], 0);
        let vs = values.shown(&[batch, h, j, d], &[of_batch, room * d, d, 1], 0);
        let s = b.scaled(&b.matmul(&q, &kt), 0.125);
        [b.matmul(&b.softmax(&s), &vs), keys.clone(), values.clone()]
    }
}

#[test]
fn caches_in_place() {
    for dtype in FLOATS {
        for [batch, h, old, room] in [[1, 4, 70, 100], [2, 3, 1, 4], [1, 1, 600, 601]] {
            let run = |b: &Bench| {
                let step = InPlace::new(b, dtype, [batch, h, old, room, 64]);
                step.record(b, |_, x| x.clone()).into()
            };
            let (with, without) = same_bits_by(RULES, run);
            assert_eq!(without - with, 1, "{dtype} {batch} {h} {old} {room}");
        }
    }
}

/// Many keys are split: the kernel leaves partial results.
#[test]
fn split_keys() {
    for old in [511, 512, 1100] {
        let sizes = [1, 8, 2, old, 64];
        one_kernel_less(Step { sizes, ..LLAMA }, &format!("{old} old keys"));
    }
}

#[test]
fn near_single_ops() {
    let (with, without) = near(1e-2, |b| LLAMA.run(b));
    assert!(with < without);
}

/// The rule fires wherever a batch of recorded ops ends.
#[test]
fn many_layers() {
    let b = Bench::new("");
    let operands = LLAMA.operands(&b);
    for shift in 0..8 {
        b.device.synchronize().expect("no error");
        let before = b.device.stats().dispatches;
        for _ in 0..shift {
            b.softmax(&operands[0]);
        }
        for _ in 0..30 {
            LLAMA.record(&b, &operands);
        }
        b.device.synchronize().expect("no error");
        assert_eq!(b.device.stats().dispatches - before, 30 + shift, "{shift}");
    }
}

#[test]
fn queries_that_are_read_again() {
    let run = |b: &Bench| {
        let operands = LLAMA.operands(b);
        let angles = [operands[5].clone(), operands[6].clone()];
        let mut made = Vec::from(LLAMA.record(b, &operands));
        made.push(b.turned(&operands[0], &angles));
        made
    };
    let (with, without) = same_bits_by(RULES, run);
    assert!(with < without);
}
