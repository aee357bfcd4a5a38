//! Sentences to unit vectors: tokens, BERT, mean pooling over each sentence's tokens.

use crate::bundle::ALL_MINILM_L6_V2;
use crate::catalogue::Artifact;
use crate::checkpoint::Folder;
use crate::error::{Error, Result};
use crate::fetch::{cache_dir, Fetcher};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use std::path::{Path, PathBuf};
use tokenizers::{PaddingParams, Tokenizer, TruncationParams};

/// The files of a BERT.
pub struct Files {
    pub config: PathBuf,
    pub tokenizer: PathBuf,
    pub weights: Vec<PathBuf>,
}

/// Finds `model` (a name, a folder or a hub id) and downloads missing files.
pub fn locate(model: &str) -> Result<Files> {
    if model.eq_ignore_ascii_case("all-minilm-l6-v2") {
        let mut fetcher = Fetcher::new(cache_dir())?;
        let mut get = |artifact: &Artifact| fetcher.get(artifact);
        return Ok(Files {
            config: get(&ALL_MINILM_L6_V2.config)?,
            tokenizer: get(&ALL_MINILM_L6_V2.tokenizer)?,
            weights: vec![get(&ALL_MINILM_L6_V2.weights)?],
        });
    }
    let path = Path::new(model);
    let folder = if path.is_dir() {
        Folder::open(path)?
    } else if model.split('/').filter(|part| !part.is_empty()).count() == 2 {
        Folder::from_hub(model)?
    } else {
        return Err(Error::UnknownModel {
            name: model.to_string(),
            known: "all-minilm-l6-v2".to_string(),
        });
    };
    let tokenizer = folder.tokenizer.ok_or_else(|| Error::Missing {
        what: "tokenizer",
        path: folder.config.with_file_name("tokenizer.json"),
    })?;
    Ok(Files {
        config: folder.config,
        tokenizer,
        weights: folder.weights,
    })
}

/// A BERT with its tokenizer.
pub struct Embedder {
    model: BertModel,
    tokenizer: Tokenizer,
    tokenizer_path: PathBuf,
    device: Device,
}

impl Embedder {
    /// Loads the model in f32.
    pub fn load(files: &Files, device: &Device) -> Result<Self> {
        let text = std::fs::read(&files.config).map_err(Error::io(&files.config))?;
        let config: Config = serde_json::from_slice(&text).map_err(|e| Error::Checkpoint {
            path: files.config.clone(),
            reason: e.to_string(),
        })?;
        let mut tokenizer = Tokenizer::from_file(&files.tokenizer)
            .map_err(|e| tokenizer_error(&files.tokenizer, e))?;
        // The file may request padding to a fixed length; a batch only needs the length of its longest sentence.
        tokenizer.with_padding(Some(PaddingParams::default()));
        let truncation = TruncationParams {
            max_length: config.max_position_embeddings,
            ..Default::default()
        };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(|e| tokenizer_error(&files.tokenizer, e))?;
        // SAFETY: the files lie in a cache or a model folder, and nothing writes to them while they are mapped.
        let weights =
            unsafe { VarBuilder::from_mmaped_safetensors(&files.weights, DType::F32, device)? };
        Ok(Self {
            model: BertModel::load(weights, &config)?,
            tokenizer,
            tokenizer_path: files.tokenizer.clone(),
            device: device.clone(),
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
        let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
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
