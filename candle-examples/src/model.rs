//! From what `--model` says to a model that is ready to run.

use crate::catalogue::{self, Source, Wanted};
use crate::checkpoint::{self, Folder};
use crate::error::{Error, Result};
use crate::fetch::{cache_dir, Fetcher};
use crate::generate::Causal;
use crate::llama2c;
use crate::tokenizer::Tokenizer;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_transformers::models::{llama, llama2_c};
use std::path::{Path, PathBuf};

/// A model with its tokenizer and its key-value cache.
pub struct Loaded {
    pub model: Model,
    pub tokenizer: Tokenizer,
    pub dtype: DType,
    /// The most tokens, prompt included, that the model can look at.
    pub context: usize,
    /// The ids that end a text.
    pub ends: Vec<u32>,
}

pub enum Model {
    Llama(llama::Llama, llama::Cache),
    Llama2c(llama2_c::Llama, llama2_c::Cache),
}

impl Causal for Model {
    fn forward(&mut self, ids: &[u32], position: usize, device: &Device) -> Result<Tensor> {
        let input = |ids: &[u32]| Tensor::new(ids, device)?.unsqueeze(0);
        match self {
            Self::Llama(model, cache) => Ok(model.forward(&input(ids)?, position, cache)?.i(0)?),
            Self::Llama2c(model, cache) => {
                // llama2_c masks with f32 whatever the weights are: other dtypes go without a mask, one by one.
                let step = if cache.cos.dtype() == DType::F32 {
                    ids.len()
                } else {
                    1
                };
                let mut logits = None;
                for (i, chunk) in ids.chunks(step.max(1)).enumerate() {
                    let at = position + i * step;
                    logits = Some(model.forward(&input(chunk)?, at, cache)?);
                }
                let logits = logits.ok_or(Error::PromptEmpty)?;
                let last = logits.dim(1)?.checked_sub(1).ok_or(Error::PromptEmpty)?;
                Ok(logits.i((0, last))?)
            }
        }
    }
}

/// The files of a model, on this machine.
pub enum Files {
    Llama2c {
        weights: PathBuf,
        tokenizer: PathBuf,
    },
    Folder {
        folder: Folder,
        tokenizer: PathBuf,
    },
}

/// Loads a model. Without `dtype` in the checkpoint's, and in f32 on the CPU.
pub fn load(files: &Files, dtype: Option<DType>, device: &Device) -> Result<Loaded> {
    match files {
        Files::Llama2c { weights, tokenizer } => {
            let config = llama2c::read_config(weights)?;
            let tokenizer = Tokenizer::open(tokenizer)?;
            tokenizer.check_fits(config.vocab_size)?;
            let dtype = dtype.unwrap_or(DType::F32);
            let context = config.seq_len;
            let (model, cache) = llama2c::load(weights, config, dtype, device)?;
            Ok(Loaded {
                ends: tokenizer.ends(),
                model: Model::Llama2c(model, cache),
                tokenizer,
                dtype,
                context,
            })
        }
        Files::Folder { folder, tokenizer } => {
            let (config, stored) = checkpoint::read_config(&folder.config)?;
            let tokenizer = Tokenizer::open(tokenizer)?;
            tokenizer.check_fits(config.vocab_size)?;
            let dtype = dtype.unwrap_or_else(|| default_dtype(stored, device));
            let mut ends = checkpoint::ends(folder)?;
            if ends.is_empty() {
                ends = tokenizer.ends();
            }
            let (model, cache) = checkpoint::load(folder, &config, dtype, device)?;
            Ok(Loaded {
                model: Model::Llama(model, cache),
                tokenizer,
                dtype,
                context: config.max_position_embeddings,
                ends,
            })
        }
    }
}

fn default_dtype(stored: Option<DType>, device: &Device) -> DType {
    match stored {
        Some(DType::BF16) if !device.is_cpu() && !device.supports_bf16() => DType::F16,
        Some(dtype) if !device.is_cpu() => dtype,
        _ => DType::F32,
    }
}

/// Finds `model`, a catalogue name, a path or a hub id, and downloads what is not here yet.
pub fn locate(model: &str, tokenizer: Option<&Path>) -> Result<Files> {
    let given = tokenizer.map(Path::to_path_buf);
    match catalogue::resolve(model)? {
        Wanted::Entry(entry) => match &entry.source {
            Source::Llama2c {
                weights,
                tokenizers,
            } => {
                let mut fetcher = Fetcher::new(cache_dir())?;
                Ok(Files::Llama2c {
                    weights: fetcher.get(weights)?,
                    tokenizer: match given {
                        Some(path) => path,
                        None => fetcher.first(tokenizers)?,
                    },
                })
            }
            Source::Hub(repo) => with_tokenizer(Folder::from_hub(repo)?, given),
            Source::Gguf(_) => Err(Error::Unsupported {
                what: format!("{}, a GGUF: the example chat does", entry.name),
            }),
        },
        Wanted::Hub(repo) => with_tokenizer(Folder::from_hub(&repo)?, given),
        Wanted::Path(path) if path.is_dir() => with_tokenizer(Folder::open(&path)?, given),
        Wanted::Path(path) => match path.extension().and_then(|e| e.to_str()) {
            Some("safetensors") => {
                let dir = path.parent().unwrap_or(Path::new("."));
                let mut found = Folder::open(dir)?;
                found.weights = vec![path];
                with_tokenizer(found, given)
            }
            Some("bin") => Ok(Files::Llama2c {
                tokenizer: given.map_or_else(|| beside(&path), Ok)?,
                weights: path,
            }),
            _ => Err(Error::Unsupported {
                what: format!(
                    "{}: only folders, .safetensors and llama2.c's .bin (for a GGUF there is the example chat)",
                    path.display()
                ),
            }),
        },
    }
}

fn with_tokenizer(folder: Folder, given: Option<PathBuf>) -> Result<Files> {
    let tokenizer = given.or_else(|| folder.tokenizer.clone());
    let tokenizer = tokenizer.ok_or_else(|| Error::Missing {
        what: "tokenizer",
        path: folder.config.with_file_name("tokenizer.json"),
    })?;
    Ok(Files::Folder { folder, tokenizer })
}

/// The tokenizer in the folder of a `.bin`.
fn beside(weights: &Path) -> Result<PathBuf> {
    let names = ["tokenizer.bin", "tokenizer.json"];
    let mut paths = names.iter().map(|name| weights.with_file_name(name));
    paths
        .find(|path| path.exists())
        .ok_or_else(|| Error::Missing {
            what: "tokenizer (--tokenizer tells where one is)",
            path: weights.with_file_name("tokenizer.bin"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_without_a_tokenizer_and_an_unknown_format_say_so() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        for name in ["model.bin", "model.gguf"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "").map_err(Error::io(&path))?;
        }
        let open = |name: &str| {
            let path = dir.path().join(name);
            locate(&path.to_string_lossy(), None).err()
        };
        assert!(matches!(open("model.bin"), Some(Error::Missing { .. })));
        assert!(matches!(
            open("model.gguf"),
            Some(Error::Unsupported { .. })
        ));
        assert!(matches!(open("other.bin"), Some(Error::Missing { .. })));
        Ok(())
    }
}
