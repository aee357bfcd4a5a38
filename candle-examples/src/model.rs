//! A model that is ready to run.

use crate::error::{Error, Result};
use crate::generate::Causal;
use crate::llama2c::Checkpoint;
use crate::tokenizer::Tokenizer;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_transformers::models::{llama, llama2_c};
use std::io::Read;

/// The most RoPE angles, which are computed for all positions at once: a million positions with heads of 128.
pub(crate) const MOST_ANGLES: usize = 1 << 27;

/// A model with its tokenizer and KV cache.
pub struct Loaded {
    pub model: Model,
    pub tokenizer: Tokenizer,
    pub dtype: DType,
    /// Maximum number of tokens, prompt included.
    pub context: usize,
    /// The end-of-text ids.
    pub ends: Vec<u32>,
}

pub enum Model {
    Llama {
        model: llama::Llama,
        cache: llama::Cache,
        /// Replaces the cache at position 0, since `models::llama` does not clear it.
        empty: llama::Cache,
    },
    Llama2c(llama2_c::Llama, llama2_c::Cache),
}

impl Model {
    /// A model with its empty cache.
    pub fn llama(model: llama::Llama, cache: llama::Cache) -> Self {
        Self::Llama {
            model,
            empty: cache.clone(),
            cache,
        }
    }
}

impl Causal for Model {
    fn logits(&mut self, ids: &Tensor, position: usize) -> Result<Tensor> {
        match self {
            Self::Llama {
                model,
                cache,
                empty,
            } => {
                if position == 0 {
                    cache.clone_from(empty);
                }
                Ok(model.forward(ids, position, cache)?.i(0)?)
            }
            Self::Llama2c(model, cache) => {
                if position == 0 {
                    cache.kvs.fill(None);
                }
                // llama2_c's mask is always f32. With other dtypes, prefill runs token by token, without a mask.
                let tokens = ids.dim(1)?;
                let step = match cache.cos.dtype() {
                    DType::F32 => tokens.max(1),
                    _ => 1,
                };
                let mut logits = None;
                for at in (0..tokens).step_by(step) {
                    let chunk = ids.narrow(1, at, step)?;
                    logits = Some(model.forward(&chunk, position + at, cache)?);
                }
                let logits = logits.ok_or(Error::PromptEmpty)?;
                let last = logits.dim(1)?.checked_sub(1).ok_or(Error::PromptEmpty)?;
                Ok(logits.i((0, last))?)
            }
        }
    }
}

impl Loaded {
    /// A llama2.c checkpoint with its tokenizer. f32 unless `dtype` is given.
    pub fn llama2c(
        checkpoint: Checkpoint<impl Read>,
        tokenizer: Tokenizer,
        dtype: Option<DType>,
        device: &Device,
    ) -> Result<Self> {
        tokenizer.check_fits(checkpoint.config.vocab_size)?;
        let dtype = dtype.unwrap_or(DType::F32);
        let context = checkpoint.config.seq_len;
        let (model, cache) = checkpoint.load(dtype, device)?;
        Ok(Self {
            ends: tokenizer.ends(),
            model: Model::Llama2c(model, cache),
            tokenizer,
            dtype,
            context,
        })
    }
}
