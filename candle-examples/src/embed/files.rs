//! From the value of `--model` to a loaded model.

use super::{parse_config, Embedder};
use crate::bundle::ALL_MINILM_L6_V2;
use crate::catalogue::Artifact;
use crate::checkpoint::Folder;
use crate::error::{Error, Result};
use crate::fetch::{cache_dir, Fetcher};
use crate::tokenizer;
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use std::path::{Path, PathBuf};

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

/// Maps the files and loads the model in f32.
pub fn load(files: &Files, device: &Device) -> Result<Embedder> {
    let read = |path: &Path| std::fs::read(path).map_err(Error::io(path));
    let config = parse_config(&files.config, &read(&files.config)?)?;
    // SAFETY: the files lie in a cache or a model folder, and nothing writes to them while they are mapped.
    let weights =
        unsafe { VarBuilder::from_mmaped_safetensors(&files.weights, DType::F32, device)? };
    let path = &files.tokenizer;
    let tokenizer = tokenizer::parse(path, &read(path)?)?;
    Embedder::new(&config, (path, tokenizer), weights, device)
}
