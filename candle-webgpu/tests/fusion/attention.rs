//! Attention, as models record it.

use candle_webgpu::DType;

use crate::bench::{near, Bench, T};

/// Attention as candle-transformers' llama records it; the sizes are batch, heads, KV heads, queries, keys, head_dim.
struct Llama {
    sizes: [usize; 6],
    dtype: DType,
    /// Casts to f32 and back.
    in_f32: bool,
    mask: &'static str,
}

impl Llama {
    fn run(&self, b: &Bench) -> Vec<T> {
        let [batch, h, g, i, j, d] = self.sizes;
        let scores = if self.in_f32 { DType::F32 } else { self.dtype };
        let cast = |x: T, to| if self.in_f32 { b.cast(&x, to) } else { x };
        let q = b.of(self.dtype, &[batch, h, i, d]);
        let [k, v] = [0, 1].map(|_| b.of(self.dtype, &[batch, g, j, d]));
        let mark = |at| u8::from(at % j > at / j + j - i);
        let marks: Vec<u8> = (0..i * j).map(mark).collect();
        let marks = T::new(b.device.upload(&marks).expect("upload"), DType::U8, &[i, j]);
        let low: f32 = match self.mask {
            "finite" => -3.0,
            _ => f32::NEG_INFINITY,
        };
        let low = b.device.fill(1, DType::F32, low.to_bits().into());
        let low = T::new(low.expect("fill"), DType::F32, &[1]);
        let low = b.cast(&low, self.dtype);
        let low = cast(low.clone(), DType::F32);
        let add = b.of(scores, &[batch, 1, i, j]);
        b.device.synchronize().expect("no error");
        let (k, v) = match h / g {
            1 => (k, v),
            n => (b.repeat(&k, n), b.repeat(&v, n)),
        };
        let [q, k, v] = [q, k, v].map(|x| cast(x, DType::F32));
        let kt = k.shown(&[batch, h, d, j], &[h * j * d, j * d, 1, d], 0);
        let s = b.scaled(&b.matmul(&q, &kt), 1.0 / (d as f64).sqrt());
        let all = [batch, h, i, j];
        let s = match self.mask {
            "none" => s,
            "add" => b.binary("badd", &s, &add.shown(&all, &[i * j, 0, j, 1], 0)),
            _ => {
                let marks = marks.shown(&all, &[0, 0, j, 1], 0);
                b.where_cond(&marks, &low.shown(&all, &[0; 4], 0), &s)
            }
        };
        vec![cast(b.matmul(&b.softmax(&s), &v), self.dtype)]
    }
}

#[test]
fn llama_attention() {
    let sizes = [
        [1, 8, 2, 1, 70, 16],
        [2, 4, 4, 1, 33, 8],
        [1, 4, 2, 12, 40, 32],
        [2, 6, 3, 9, 9, 64],
    ];
    for sizes in sizes {
        for (dtype, in_f32, bound) in [
            (DType::F32, false, 2e-6),
            (DType::F16, true, 2e-3),
            (DType::F16, false, 1e-2),
            (DType::Bf16, true, 2e-2),
        ] {
            for mask in ["none", "add", "hide", "finite"] {
                let llama = Llama {
                    sizes,
                    dtype,
                    in_f32,
                    mask,
                };
                let plain = 4 + u64::from(mask != "none");
                let repeats = match sizes[1] / sizes[2] {
                    1 => 0,
                    n => 2 * n as u64,
                };
                let casts = if in_f32 { 4 } else { 0 };
                let (with, without) = near(bound, |b| llama.run(b));
                let saved = without - with;
                let all = plain + repeats + casts;
                assert!(
                    saved >= all - 2 && saved < all,
                    "{sizes:?} {dtype} {in_f32} {mask}: {saved} of {all}"
                );
            }
        }
    }
}

/// Queries, keys and values, and the scores of the first two.
fn plain(b: &Bench) -> ([T; 3], T) {
    let [q, k, v] = [0; 3].map(|_| b.floats(&[1, 2, 4, 16]));
    let kt = k.shown(&[1, 2, 16, 4], &[128, 64, 1, 16], 0);
    let s = b.matmul(&q, &kt);
    ([q, k, v], s)
}

/// As in Whisper: queries and keys are scaled, and heads become the columns of tokens. Many keys are split.
#[test]
fn scaled_operands_and_tokens() {
    for (i, j, kernels) in [(4, 4, 1), (40, 40, 1), (3, 1500, 2)] {
        for dtype in [DType::F32, DType::F16] {
            let counts = near(1e-2, |b| {
                let dims = |n| [2, 4, n, 16];
                let [q, k, v, y] = [i, j, j, i].map(|n| b.of(dtype, &dims(n)));
                let (q, k) = (b.scaled(&q, 0.5), b.scaled(&k, 0.5));
                let kt = k.shown(&[2, 4, 16, j], &[64 * j, 16 * j, 1, 16], 0);
                let s = b.matmul(&b.softmax(&b.matmul(&q, &kt)), &v);
                let tokens = |x: &T, strides: [usize; 4]| x.shown(&[2, i, 4, 16], &strides, 0);
                b.copy(
                    &tokens(&s, [64 * i, 16, 16 * i, 1]),
                    &tokens(&y, [64 * i, 64, 16, 1]),
                );
                drop(s);
                vec![y]
            });
            // Four casts bring the operands.
            assert_eq!(counts, (4 + kernels, 10), "{i} {j} {dtype}");
        }
    }
}

/// The copy behind an attention may overwrite its queries, which the kernel reads.
#[test]
fn a_result_that_replaces_the_queries() {
    let counts = near(2e-6, |b| {
        let ([q, _, v], s) = plain(b);
        let y = b.matmul(&b.softmax(&s), &v);
        drop(s);
        let tokens = |x: &T, strides: [usize; 4]| x.shown(&[1, 4, 2, 16], &strides, 0);
        b.copy(&tokens(&y, [128, 16, 64, 1]), &tokens(&q, [128, 32, 16, 1]));
        drop(y);
        vec![q]
    });
    assert_eq!(counts, (2, 4));
}

#[test]
fn weights_that_are_read_again() {
    let counts = near(0.0, |b| {
        let ([_, _, v], s) = plain(b);
        let p = b.softmax(&s);
        vec![b.matmul(&p, &v), p]
    });
    assert_eq!(counts, (3, 3));
}

#[test]
fn a_write_to_keys_in_between() {
    let counts = near(0.0, |b| {
        let ([q, k, v], s) = plain(b);
        b.copy(&q, &k);
        let p = b.softmax(&s);
        drop(s);
        vec![b.matmul(&p, &v), k]
    });
    assert_eq!(counts, (4, 4));
}

#[test]
fn scores_that_no_op_computes_from_others() {
    // A fill has one operand, its result, where a matmul has three.
    let counts = near(0.0, |b| {
        let s = b.device.fill(12, DType::F32, u64::from(1f32.to_bits()));
        let s = T::new(s.expect("a fill"), DType::F32, &[3, 4]);
        vec![b.softmax(&b.binary("badd", &s, &b.floats(&[3, 4])))]
    });
    assert_eq!(counts, (3, 3));
}

/// The softmax of single ops may be recorded while the copies of queries and keys are about to be encoded, wherever a batch ends.
#[test]
fn of_single_ops_wherever_batches_end() {
    for before in 0..12 {
        let (with, _) = near(1e-5, |b| {
            let x = b.floats(&[64]);
            let mut made: Vec<T> = (0..before).map(|_| b.unary("uexp", &x)).collect();
            for _ in 0..12 {
                let [q, k, v] = [0, 1, 2].map(|_| b.floats(&[1, 1, 6, 16]));
                let [q, k] = [q, k].map(|x| b.scaled(&x, 0.5));
                let scores = b.matmul(&q, &k.shown(&[1, 1, 16, 6], &[96, 96, 1, 16], 0));
                let scores = b.scaled(&scores, 0.25).shown(&[6, 6], &[6, 1], 0);
                let below = b.binary("bsub", &scores, &b.along("max", &scores, T::clone));
                let e = b.unary("uexp", &below);
                let weights = b.binary("bdiv", &e, &b.along("sum", &e, T::clone));
                made.push(b.matmul(&weights.shown(&[1, 1, 6, 6], &[36, 36, 6, 1], 0), &v));
            }
            made
        });
        assert_eq!(with, before + 12, "{before} ops before");
    }
}
