//! Layers: embedding, RoPE, attention, convolution.

use super::{row, ONLY_F16, TWO};
use crate::bench::workload::{bytes, At, Case, Make::Other, Workload};
use crate::random::weights;
use candle_core::{Result, Tensor};
use candle_nn::ops::sdpa;
use candle_nn::rotary_emb::rope as rotate;
use candle_transformers::models::stable_diffusion::resnet::{ResnetBlock2D, ResnetBlock2DConfig};

#[rustfmt::skip]
pub const TABLE: &[Workload] = &[
    // ids, vocabulary, hidden size
    row("embedding", TWO, [512, 32000, 2048], [64, 4000, 256], Other(embedding)),
    // heads, tokens, head_dim
    row("rope",      TWO, [32, 512, 64],      [8, 64, 64],     Other(rope)),
    // queries, keys, head_dim; 32 query heads, 4 key heads (GQA), causal
    row("sdpa",      ONLY_F16, [512, 512, 64],    [64, 64, 64],   Other(attention)),
    row("sdpa",      ONLY_F16, [512, 512, 128],   [64, 64, 128],  Other(attention)),
    row("sdpa",      ONLY_F16, [2048, 2048, 64],  [128, 128, 64], Other(attention)),
    row("sdpa",      ONLY_F16, [2048, 2048, 128], [96, 96, 128],  Other(attention)),
    row("sdpa",      ONLY_F16, [1, 1024, 64],     [1, 128, 64],   Other(heads)),
    row("sdpa",      ONLY_F16, [1, 1024, 128],    [1, 128, 128],  Other(heads)),
    // channels in and out, length or side, length or side of the kernel
    row("conv1d",    TWO, [384, 3000, 3],     [32, 256, 3],    Other(conv1d)),
    row("conv2d",    TWO, [320, 64, 3],       [32, 16, 3],     Other(conv2d)),
    // Two equal convolutions as in a UNet of Stable Diffusion, each after group_norm and silu.
    row("unet_block", TWO, [320, 64, 3],      [32, 16, 3],     Other(unet_block)),
    // One group per channel.
    row("depthwise1d", TWO, [512, 3000, 4],   [32, 256, 4],    Other(depthwise1d)),
    row("depthwise2d", TWO, [512, 64, 3],     [32, 16, 3],     Other(depthwise2d)),
];

/// Counts only the rows that the ids select.
fn embedding(at: &At) -> Result<Case> {
    let [count, words, width] = at.dims;
    let table = at.random((words, width))?;
    // Spreads the ids over the table.
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

const HEADS: usize = 32;
const KV_HEADS: usize = 4;

/// Attention whose work is reading keys and values.
fn heads(at: &At) -> Result<Case> {
    let [queries, keys, width] = at.dims;
    let q = at.random((1, HEADS, queries, width))?;
    let k = at.random((1, KV_HEADS, keys, width))?;
    let v = at.random((1, KV_HEADS, keys, width))?;
    let inputs = [&q.clone(), &k.clone(), &v.clone()];
    let scale = (width as f32).sqrt().recip();
    Ok(Case::new(&inputs, move || {
        sdpa(&q, &k, &v, None, true, scale, 1.)
    }))
}

/// Counts only the products with keys that the causal mask lets a query see.
fn attention(at: &At) -> Result<Case> {
    let [queries, keys, width] = at.dims;
    let seen = queries * keys - queries * (queries - 1) / 2;
    Ok(heads(at)?.flops(4 * HEADS * seen * width))
}

/// Without the time embedding. Counts only the convolutions' arithmetic.
fn unet_block(at: &At) -> Result<Case> {
    let [channels, side, kernel] = at.dims;
    let x = at.random((1, channels, side, side))?;
    let config = ResnetBlock2DConfig {
        temb_channels: None,
        ..Default::default()
    };
    let block = ResnetBlock2D::new(weights(at.dtype, at.device), channels, config)?;
    let flops = 4 * side * side * channels * channels * kernel * kernel;
    Ok(Case::new(&[], move || block.forward(&x, None)).flops(flops))
}

fn depthwise1d(at: &At) -> Result<Case> {
    let [channels, length, kernel] = at.dims;
    let x = at.random((1, channels, length))?;
    let w = at.random((channels, 1, kernel))?;
    let inputs = [&x.clone(), &w.clone()];
    Ok(Case::new(&inputs, move || {
        x.conv1d(&w, kernel - 1, 1, 1, channels)
    }))
}

fn depthwise2d(at: &At) -> Result<Case> {
    let [channels, side, kernel] = at.dims;
    let x = at.random((1, channels, side, side))?;
    let w = at.random((channels, 1, kernel, kernel))?;
    let inputs = [&x.clone(), &w.clone()];
    Ok(Case::new(&inputs, move || {
        x.conv2d(&w, kernel / 2, 1, 1, channels)
    }))
}
