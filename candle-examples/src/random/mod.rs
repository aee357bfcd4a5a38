//! Random weights of a given architecture, for measurements without a checkpoint.

#[cfg(not(target_arch = "wasm32"))]
mod args;
mod dense;
pub mod llama;
mod quantized;

#[cfg(not(target_arch = "wasm32"))]
pub use args::{quant, shape};
pub use dense::{weights, Requested};
pub use quantized::{gguf, matrix, Quant, QUANTS};

use candle_transformers::models::llama::Config;

/// Ids spread over a vocabulary, the same in each run.
pub fn ids(tokens: usize, vocab: usize) -> Vec<u32> {
    (0..tokens).map(|i| (i * 7919 % vocab) as u32).collect()
}

/// A named architecture.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    pub name: &'static str,
    hidden: usize,
    inner: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocab: usize,
    context: usize,
}

#[rustfmt::skip]
pub const PRESETS: &[Preset] = &[
    Preset { name: "tiny",           hidden: 256,  inner: 768,  layers: 4,  heads: 8,  kv_heads: 4, vocab: 1024,  context: 2048 },
    Preset { name: "stories15m",     hidden: 288,  inner: 768,  layers: 6,  heads: 6,  kv_heads: 6, vocab: 32000, context: 256 },
    Preset { name: "tinyllama-1.1b", hidden: 2048, inner: 5632, layers: 22, heads: 32, kv_heads: 4, vocab: 32000, context: 2048 },
    Preset { name: "llama-3.1-8b",   hidden: 4096, inner: 14336, layers: 32, heads: 32, kv_heads: 8, vocab: 128256, context: 131072 },
    Preset { name: "llama-2-13b",    hidden: 5120, inner: 13824, layers: 40, heads: 40, kv_heads: 40, vocab: 32000, context: 4096 },
];

impl Preset {
    /// Extends the context to `tokens` if it is shorter: random weights have no trained limit.
    pub fn with_room(self, tokens: usize) -> Self {
        Self {
            context: self.context.max(tokens),
            ..self
        }
    }

    pub fn config(&self) -> Config {
        Config {
            hidden_size: self.hidden,
            intermediate_size: self.inner,
            vocab_size: self.vocab,
            num_hidden_layers: self.layers,
            num_attention_heads: self.heads,
            num_key_value_heads: self.kv_heads,
            max_position_embeddings: self.context,
            rms_norm_eps: 1e-5,
            tie_word_embeddings: false,
            ..Config::config_7b_v2(false)
        }
    }
}
