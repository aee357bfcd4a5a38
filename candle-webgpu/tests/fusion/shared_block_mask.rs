//! Attentions with the same mask, as in the layers of a model.

use candle_webgpu::kernel::attention::Attention;
use candle_webgpu::DType;

use crate::bench::{same_bits_without, Bench, T};

const QUERIES: usize = 40;
const KEYS: usize = 70;

/// Attention of random operands with a mask.
fn attend(b: &Bench, mask: &T) -> T {
    let [q, k, v] = [QUERIES, KEYS, KEYS].map(|n| b.floats(&[1, 2, n, 16]));
    let how = Attention {
        causal: false,
        scale: 0.25,
        softcapping: 1.0,
    };
    let y = b.device.sdpa([q.v(), k.v(), v.v()], Some(mask.v()), how);
    q.like(y)
}

/// Hides the keys from `first` on.
fn mask(b: &Bench, first: usize) -> T {
    let hidden = |n: usize| [0f32, f32::NEG_INFINITY][usize::from(n % KEYS >= first)];
    let values: Vec<f32> = (0..QUERIES * KEYS).map(hidden).collect();
    let value = b.device.upload(bytemuck::cast_slice(&values));
    T::new(value.expect("an upload"), DType::F32, &[QUERIES, KEYS])
}

/// Asserts the same bits, and how many dispatches the rule saves.
fn saves(dispatches: u64, what: &str, run: impl Fn(&Bench) -> Vec<T>) {
    let (with, without) = same_bits_without("shared_block_mask", run);
    assert_eq!(without - with, dispatches, "{what}");
}

#[test]
fn layers_share_a_block_mask() {
    saves(2, "one batch", |b| {
        let mask = mask(b, 20);
        (0..3).map(|_| attend(b, &mask)).collect()
    });
    saves(2, "three batches", |b| {
        let mask = mask(b, 20);
        let one = || {
            let y = attend(b, &mask);
            b.device.synchronize().expect("no error");
            y
        };
        (0..3).map(|_| one()).collect()
    });
}

#[test]
fn masks_that_differ_do_not() {
    saves(0, "two masks", |b| {
        let masks = [20, 50].map(|first| mask(b, first));
        masks.iter().map(|mask| attend(b, mask)).collect()
    });
    saves(0, "two views", |b| {
        let mask = mask(b, 20);
        let row = mask.shown(&[QUERIES, KEYS], &[0, 1], 0);
        vec![attend(b, &mask), attend(b, &row)]
    });
}

#[test]
fn a_mask_that_is_written_is_read_again() {
    let written = |b: &Bench, waits: [bool; 2]| {
        let [mask, other] = [20, 50].map(|first| mask(b, first));
        let wait = |waits: bool| {
            if waits {
                b.device.synchronize().expect("no error");
            }
        };
        let before = attend(b, &mask);
        wait(waits[0]);
        b.copy(&other, &mask);
        wait(waits[1]);
        vec![before, attend(b, &mask), attend(b, &mask)]
    };
    for (waits, saved) in [
        ([false; 2], 0),
        ([true, false], 0),
        ([false, true], 1),
        ([true; 2], 1),
    ] {
        saves(saved, &format!("{waits:?}"), |b| written(b, waits));
    }
}
