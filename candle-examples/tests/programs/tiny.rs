//! A generated LLaMA, small enough for a test.

use std::path::{Path, PathBuf};

pub const VOCAB: i32 = 300;

/// Numbers from -0.5 to 0.5, from a fixed sequence.
pub fn random() -> impl FnMut(i32) -> Vec<f32> {
    let mut state = 1u32;
    move |n| {
        let next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        std::iter::repeat_with(next).take(n as usize).collect()
    }
}

/// A llama2.c checkpoint with weights from a fixed sequence, and a tokenizer.bin of bytes next to it.
pub fn model(dir: &Path) -> PathBuf {
    let [dim, hidden, layers, heads, seq] = [32, 48, 2, 4, 64];
    let header = [dim, hidden, layers, heads, heads, VOCAB, seq];
    let norms = |n: i32| std::iter::repeat_n(1f32, n as usize);
    let mut random = random();
    let mut weights = random(VOCAB * dim);
    weights.extend(norms(layers * dim));
    weights.extend(random(4 * layers * dim * dim));
    weights.extend(norms(layers * dim));
    weights.extend(random(3 * layers * hidden * dim));
    weights.extend(norms(dim));
    let half = dim / heads / 2;
    let angle = |i: i32| {
        let frequency = 10000f32.powf(-((i % half) as f32) / half as f32);
        (i / half) as f32 * frequency
    };
    weights.extend((0..seq * half).map(|i| angle(i).cos()));
    weights.extend((0..seq * half).map(|i| angle(i).sin()));
    let words = header.iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = words
        .chain(weights.iter().flat_map(|w| w.to_le_bytes()))
        .collect();
    let path = dir.join("model.bin");
    std::fs::write(&path, bytes).expect("a writable temporary folder");

    let mut tokenizer = 8u32.to_le_bytes().to_vec();
    for id in 0..VOCAB {
        let piece = format!("<{id}>");
        tokenizer.extend(0f32.to_le_bytes());
        tokenizer.extend((piece.len() as u32).to_le_bytes());
        tokenizer.extend(piece.as_bytes());
    }
    std::fs::write(dir.join("tokenizer.bin"), tokenizer).expect("a writable temporary folder");
    path
}
