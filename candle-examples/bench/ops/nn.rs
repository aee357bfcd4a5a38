//! Layers: embeddings, rotations, convolutions.

use super::{row, TWO};
use crate::workload::{bytes, At, Case, Make::Other, Workload};
use candle_core::{Result, Tensor};
use candle_nn::rotary_emb::rope as rotate;

#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    // ids, words, width
    row("embedding", TWO, [512, 32000, 2048], [64, 4000, 256], Other(embedding)),
    // heads, tokens, width of a head
    row("rope",      TWO, [32, 512, 64],      [8, 64, 64],     Other(rope)),
    // channels in and out, length or side, length or side of the kernel
    row("conv1d",    TWO, [384, 3000, 3],     [32, 256, 3],    Other(conv1d)),
    row("conv2d",    TWO, [320, 64, 3],       [32, 16, 3],     Other(conv2d)),
];

/// Only the rows that the ids name are read.
fn embedding(at: &At) -> Result<Case> {
    let [count, words, width] = at.dims;
    let table = at.random((words, width))?;
    // Spread over the table.
    let ids: Vec<u32> = (0..count).map(|i| (i * 7919 % words) as u32).collect();
    let ids = Tensor::new(ids, at.device)?;
    let rows = 2 * count * width * at.dtype.size_in_bytes();
    let touched = rows + bytes(&ids);
    let case = Case::new(&[], move || table.index_select(&ids, 0));
    Ok(case.bytes(touched))
}

fn rope(at: &At) -> Result<Case> {
    let [heads, tokens, width] = at.dims;
    let x = at.random((1, heads, tokens, width))?;
    let (cos, sin) = (
        at.random((tokens, width / 2))?,
        at.random((tokens, width / 2))?,
    );
    let inputs = [&x.clone(), &cos.clone(), &sin.clone()];
    Ok(Case::new(&inputs, move || rotate(&x, &cos, &sin)))
}

fn conv1d(at: &At) -> Result<Case> {
    let [channels, length, kernel] = at.dims;
    let x = at.random((1, channels, length))?;
    let w = at.random((channels, channels, kernel))?;
    let flops = 2 * length * channels * channels * kernel;
    Ok(Case::new(&[], move || x.conv1d(&w, kernel / 2, 1, 1, 1)).flops(flops))
}

fn conv2d(at: &At) -> Result<Case> {
    let [channels, side, kernel] = at.dims;
    let x = at.random((1, channels, side, side))?;
    let w = at.random((channels, channels, kernel, kernel))?;
    let flops = 2 * side * side * channels * channels * kernel * kernel;
    Ok(Case::new(&[], move || x.conv2d(&w, kernel / 2, 1, 1, 1)).flops(flops))
}
