//! From the value of `--model` to a loaded model, through local files.

use crate::catalogue::{self, Source, Wanted};
use crate::checkpoint::{self, Folder};
use crate::error::{Error, Result};
use crate::fetch::{cache_dir, Fetcher};
use crate::model::{Loaded, Model};
use crate::tokenizer::Tokenizer;
use crate::{llama2c, progress};
use candle_core::{DType, Device};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The local files of a model.
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

/// Loads a model, unless it does not fit on the device with a KV cache of `tokens` tokens. Without `dtype`, uses the checkpoint's dtype, or
/// f32 on the CPU.
pub fn load(files: &Files, dtype: Option<DType>, tokens: usize, device: &Device) -> Result<Loaded> {
    match files {
        Files::Llama2c { weights, tokenizer } => {
            let file = File::open(weights).map_err(Error::io(weights))?;
            let bytes = file.metadata().map_err(Error::io(weights))?.len();
            let bar = progress::bytes("loading", bytes);
            let reader = bar.wrap_read(BufReader::new(file));
            let checkpoint = llama2c::Checkpoint::open(weights, reader, bytes)?;
            let tokens = tokens.min(checkpoint.config.seq_len);
            let needs = checkpoint.needs(dtype.unwrap_or(DType::F32));
            needs.check(weights.display(), tokens, device)?;
            let loaded = Loaded::llama2c(checkpoint, Tokenizer::open(tokenizer)?, dtype, device)?;
            bar.finish_and_clear();
            Ok(loaded)
        }
        Files::Folder { folder, tokenizer } => {
            let (config, stored) = checkpoint::read_config(&folder.config)?;
            let (tokenizer, ends) = words(folder, tokenizer, config.vocab_size)?;
            let dtype = dtype.unwrap_or_else(|| default_dtype(stored, device));
            let tokens = tokens.min(config.max_position_embeddings);
            let needs = checkpoint::needs(&config, dtype);
            needs.check(folder.dir().display(), tokens, device)?;
            let (model, cache) = checkpoint::load(folder, &config, dtype, device)?;
            Ok(Loaded {
                model: Model::llama(model, cache),
                tokenizer,
                dtype,
                context: config.max_position_embeddings,
                ends,
            })
        }
    }
}

/// The tokenizer of a checkpoint folder, and the end-of-text ids.
pub fn words(folder: &Folder, tokenizer: &Path, vocab: usize) -> Result<(Tokenizer, Vec<u32>)> {
    let tokenizer = Tokenizer::open(tokenizer)?;
    tokenizer.check_fits(vocab)?;
    let mut ends = checkpoint::ends(folder)?;
    if ends.is_empty() {
        ends = tokenizer.ends();
    }
    Ok((tokenizer, ends))
}

/// The checkpoint's dtype if the device computes in it; f32 on the CPU.
pub fn default_dtype(stored: Option<DType>, device: &Device) -> DType {
    match stored {
        Some(DType::BF16) if !device.is_cpu() && !device.supports_bf16() => DType::F16,
        Some(dtype) if !device.is_cpu() => dtype,
        _ => DType::F32,
    }
}

/// Finds `model` (a catalogue name, a path or a hub id) and downloads missing files.
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
            Source::Gguf(_) | Source::HubGguf(_) => Err(Error::Unsupported {
                what: format!("{}, which is a GGUF file: use the example chat", entry.name),
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
                    "{}: supported are folders, .safetensors and llama2.c's .bin (for a GGUF file, use the example chat)",
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

/// The tokenizer in the folder of a llama2.c `.bin`.
fn beside(weights: &Path) -> Result<PathBuf> {
    let names = ["tokenizer.bin", "tokenizer.json"];
    let mut paths = names.iter().map(|name| weights.with_file_name(name));
    paths
        .find(|path| path.exists())
        .ok_or_else(|| Error::Missing {
            what: "tokenizer (give one with --tokenizer)",
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
