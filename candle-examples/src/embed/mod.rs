//! Sentences to unit vectors: tokens, BERT, mean pooling over each sentence's tokens.

#[cfg(not(target_arch = "wasm32"))]
mod files;

#[cfg(not(target_arch = "wasm32"))]
pub use files::{load, locate, Files};

use crate::error::{Error, Result};
use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use std::path::{Path, PathBuf};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

/// A BERT with its tokenizer.
pub struct Embedder {
    model: BertModel,
    tokenizer: Tokenizer,
    tokenizer_path: PathBuf,
    device: Device,
    /// The most tokens of a sentence; further ones are cut off.
    pub context: usize,
}

/// Parses config.json; `path` is for errors.
pub fn parse_config(path: &Path, json: &[u8]) -> Result<Config> {
    let bad = |reason: String| Error::Checkpoint {
        path: path.to_path_buf(),
        reason,
    };
    let config: Config = serde_json::from_slice(json).map_err(|e| bad(e.to_string()))?;
    // candle-transformers divides by it.
    match config.num_attention_heads {
        0 => Err(bad("it has no attention heads".into())),
        _ => Ok(config),
    }
}

impl Embedder {
    /// `path` is the path of the tokenizer, for errors.
    pub fn new(
        config: &Config,
        (path, mut tokenizer): (&Path, Tokenizer),
        weights: VarBuilder,
        device: &Device,
    ) -> Result<Self> {
        // The file may request padding to a fixed length; a batch only needs the length of its longest sentence.
        tokenizer.with_padding(Some(PaddingParams::default()));
        let truncation = TruncationParams {
            max_length: config.max_position_embeddings,
            ..Default::default()
        };
        let truncated = tokenizer.with_truncation(Some(truncation));
        truncated.map_err(|e| tokenizer_error(path, e))?;
        Ok(Self {
            model: BertModel::load(weights, config)?,
            tokenizer,
            tokenizer_path: path.to_path_buf(),
            device: device.clone(),
            context: config.max_position_embeddings,
        })
    }

    /// One unit vector (row) per sentence: (sentences, hidden), f32.
    pub fn embed(&self, sentences: &[String]) -> Result<Tensor> {
        let encodings = self
            .tokenizer
            .encode_batch(sentences.to_vec(), true)
            .map_err(|e| tokenizer_error(&self.tokenizer_path, e))?;
        let tensor = |rows: Vec<&[u32]>| Tensor::new(rows, &self.device);
        let ids = tensor(encodings.iter().map(|e| e.get_ids()).collect())?;
        let types = tensor(encodings.iter().map(|e| e.get_type_ids()).collect())?;
        let mask = tensor(encodings.iter().map(|e| e.get_attention_mask()).collect())?;

        let tokens = self.model.forward(&ids, &types, Some(&mask))?;
        let mask = mask.to_dtype(candle_core::DType::F32)?.unsqueeze(2)?;
        let sum = tokens.broadcast_mul(&mask)?.sum(1)?;
        let mean = sum.broadcast_div(&mask.sum(1)?)?;
        let length = mean.sqr()?.sum_keepdim(1)?.sqrt()?;
        Ok(mean.broadcast_div(&length)?)
    }
}

fn tokenizer_error(path: &Path, e: impl ToString) -> Error {
    Error::Tokenizer {
        path: path.to_path_buf(),
        reason: e.to_string(),
    }
}
