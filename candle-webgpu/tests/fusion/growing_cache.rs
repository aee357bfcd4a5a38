//! KV caches that grow in place, as candle-transformers' llama makes them longer by `cat`.

use crate::bench::{near, same_bits_without, Bench, FLOATS, T};
use crate::rope_attention::{Step, LLAMA};

const RULE: &str = "growing_cache";

/// A sequence, or several, that are continued token by token.
pub struct Sequence<'a> {
    b: &'a Bench,
    step: Step,
    /// Queries, keys and values of a token, and its cosines and sines.
    pub token: [T; 5],
    /// Keys and values.
    caches: [T; 2],
}

impl<'a> Sequence<'a> {
    pub fn new(b: &'a Bench, step: Step) -> Self {
        let [q, k, v, keys, values, cos, sin] = step.operands(b);
        Sequence {
            b,
            step,
            token: [q, k, v, cos, sin],
            caches: [keys, values],
        }
    }

    /// Continues from caches, which stay as they are. Returns the attention's result and the new caches.
    fn after(&self, [keys, values]: [&T; 2]) -> [T; 3] {
        let [batch, h, g, _, d] = self.step.sizes;
        let old = keys.dims[1];
        let step = Step {
            sizes: [batch, h, g, old, d],
            ..self.step
        };
        let [q, k, v, cos, sin] = self.token.clone();
        let all = [q, k, v, keys.clone(), values.clone(), cos, sin];
        let dims = [batch * g, old + 1, d];
        let [y, keys, values] = step.record(self.b, &all);
        let cache = |t: T| T::new(t.value, t.dtype, &dims);
        [y, cache(keys), cache(values)]
    }

    /// Continues by `tokens` tokens, and returns the attention's results.
    pub fn decode(&mut self, tokens: usize) -> Vec<T> {
        let decode = |_| {
            let [y, keys, values] = self.after(self.caches.each_ref());
            self.caches = [keys, values];
            y
        };
        (0..tokens).map(decode).collect()
    }

    pub fn sync(&self) {
        self.b.device.synchronize().expect("no error");
    }
}

/// Runs with the rule and without it, asserts the same bits, and returns how many dispatches the rule added.
fn added(run: impl Fn(&Bench) -> Vec<T>) -> u64 {
    let (with, without) = same_bits_without(RULE, run);
    with - without
}

/// Caches that are read are copied: one dispatch each.
#[test]
fn tokens() {
    for dtype in FLOATS {
        for (sizes, tokens) in [
            ([1, 8, 2, 60, 64], 6),
            ([1, 4, 4, 1, 32], 3),
            ([2, 4, 2, 33, 64], 3),
            ([3, 2, 1, 510, 16], 4),
            ([1, 2, 1, 127, 48], 3),
            ([64, 16, 4, 9, 16], 3),
            ([64, 16, 4, 62, 16], 3),
        ] {
            for (transposed, in_batches) in [(false, true), (true, true), (false, false)] {
                // Heads before keys and keys before heads are the same for several batches or one head.
                let transposed = transposed && sizes[0] == 1;
                let step = Step {
                    dtype,
                    sizes,
                    transposed,
                    ..LLAMA
                };
                let run = |b: &Bench| {
                    let mut sequence = Sequence::new(b, step);
                    let mut made = Vec::new();
                    for _ in 0..tokens {
                        made.extend(sequence.decode(1));
                        if in_batches {
                            sequence.sync();
                        }
                    }
                    made.extend(sequence.caches.clone());
                    made
                };
                assert_eq!(added(run), 2, "{dtype} {sizes:?} {transposed} {in_batches}");
            }
        }
    }
}

/// What a token adds is not seen by those who continue from, or read, an earlier cache.
#[test]
fn earlier_caches() {
    let run = |b: &Bench| {
        let mut sequence = Sequence::new(b, LLAMA);
        let mut made = sequence.decode(2);
        let [keys, values] = sequence.caches.clone();
        made.extend(sequence.decode(3));
        let mut other = Sequence::new(b, LLAMA);
        other.caches = [keys.clone(), values.clone()];
        made.extend(other.decode(2));
        sequence.sync();
        made.extend(sequence.decode(1));
        made.extend(other.decode(1));
        made.extend([sequence.caches, other.caches, [keys, values]].concat());
        made
    };
    assert_eq!(added(run), 6);
}

#[test]
fn one_cache_for_both() {
    let run = |b: &Bench| {
        let mut sequence = Sequence::new(b, LLAMA);
        sequence.decode(2);
        let [keys, _] = sequence.caches.clone();
        Vec::from(sequence.after([&keys, &keys]))
    };
    assert_eq!(added(run), 2);
}

/// A write to a cache copies it to memory of its own, from where it grows again.
#[test]
fn caches_that_are_written() {
    for in_batches in [false, true] {
        let run = |b: &Bench| {
            let mut sequence = Sequence::new(b, LLAMA);
            let mut made = sequence.decode(2);
            let sync = |sequence: &Sequence| {
                if in_batches {
                    sequence.sync();
                }
            };
            sync(&sequence);
            let row = |x: &T, at: usize| x.shown(&[64], &[1], at);
            b.copy(&row(&sequence.token[0], 64), &row(&sequence.caches[0], 128));
            sync(&sequence);
            made.extend(sequence.decode(3));
            made.extend(sequence.caches);
            made
        };
        added(run);
    }
}

/// Several tokens at once, as a second prompt, take the ordinary path, as all do once the rule is off.
#[test]
fn other_ops_read_copies() {
    let run = |b: &Bench| {
        let mut sequence = Sequence::new(b, LLAMA);
        let mut made = sequence.decode(2);
        let [keys, values] = &sequence.caches;
        made.push(b.scaled(keys, 2.0));
        made.push(b.cat(&[keys, values]));
        sequence.sync();
        made.extend(sequence.decode(2));
        b.device.rewrite_by(&format!("-{RULE}")).expect("a rule");
        made.extend(sequence.decode(1));
        made.extend(sequence.caches.clone());
        b.device.rewrite_by("-all").expect("rules");
        made.extend(sequence.decode(1));
        made.extend(sequence.caches);
        made
    };
    added(run);
}

/// The rule takes what other rules make of single ops.
#[test]
fn near_single_ops() {
    let run = |b: &Bench| {
        let mut sequence = Sequence::new(b, LLAMA);
        let mut made = sequence.decode(3);
        made.extend(sequence.caches);
        made
    };
    let (with, without) = near(1e-2, run);
    assert!(with < without);
}
