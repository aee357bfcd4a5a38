//! Random weights of a given shape, made on the device: for measuring without a checkpoint.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use candle_transformers::models::llama::Config;
use half::{bf16, f16};

/// A named architecture.
#[derive(Debug)]
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
    Preset { name: "tiny",           hidden: 256,  inner: 688,  layers: 4,  heads: 8,  kv_heads: 4, vocab: 1024,  context: 2048 },
    Preset { name: "stories15m",     hidden: 288,  inner: 768,  layers: 6,  heads: 6,  kv_heads: 6, vocab: 32000, context: 256 },
    Preset { name: "tinyllama-1.1b", hidden: 2048, inner: 5632, layers: 22, heads: 32, kv_heads: 4, vocab: 32000, context: 2048 },
];

impl Preset {
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

/// A builder whose tensors are drawn on `device` in `dtype`, each once, as the model asks for it.
pub fn weights(dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(Random), dtype, device.clone())
}

struct Random;

impl SimpleBackend for Random {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, dev: &Device) -> Result<Tensor> {
        // Norms scale by one, as in a fresh model; the deviation is that of transformers' initializer.
        if name.contains("norm") {
            return Tensor::ones(shape, dtype, dev);
        }
        match dtype {
            DType::F16 => Tensor::randn(f16::ZERO, f16::from_f32(0.02), shape, dev),
            DType::BF16 => Tensor::randn(bf16::ZERO, bf16::from_f32(0.02), shape, dev),
            _ => Tensor::randn(0f32, 0.02, shape, dev)?.to_dtype(dtype),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("random weights need the shape of {name}")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
