//! The files of a checkpoint on disk, which are mapped into memory.

use super::config::{bad, end_ids, parse_config, tensors};
use crate::error::{Error, Result};
use crate::hub;
use crate::progress;
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Config, Llama};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one checkpoint.
pub struct Folder {
    pub config: PathBuf,
    pub generation: Option<PathBuf>,
    pub tokenizer: Option<PathBuf>,
    pub weights: Vec<PathBuf>,
}

const INDEX: &str = "model.safetensors.index.json";

impl Folder {
    pub fn open(dir: &Path) -> Result<Self> {
        let present = |name: &str| Some(dir.join(name)).filter(|p| p.exists());
        let config = present("config.json").ok_or_else(|| Error::Missing {
            what: "config of the model",
            path: dir.join("config.json"),
        })?;
        let mut weights: Vec<PathBuf> = match present(INDEX) {
            Some(index) => shards(&index)?.iter().map(|s| dir.join(s)).collect(),
            None => fs::read_dir(dir)
                .map_err(Error::io(dir))?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|p| p.extension().is_some_and(|e| e == "safetensors"))
                .collect(),
        };
        weights.sort();
        Ok(Self {
            config,
            generation: present("generation_config.json"),
            tokenizer: present("tokenizer.json"),
            weights,
        })
    }

    pub fn dir(&self) -> &Path {
        self.config.parent().unwrap_or(&self.config)
    }

    pub fn from_hub(repo: &str) -> Result<Self> {
        let files = hub::files(repo)?;
        let has = |name: &str| files.iter().any(|f| f == name);
        let names: Vec<String> = if has(INDEX) {
            shards(&hub::get(repo, INDEX)?)?.into_iter().collect()
        } else {
            let weights = files.iter().filter(|f| f.ends_with(".safetensors"));
            weights.filter(|f| !f.contains('/')).cloned().collect()
        };
        Ok(Self {
            config: hub::get(repo, "config.json")?,
            generation: hub::get_optional(repo, "generation_config.json", &files)?,
            tokenizer: hub::get_optional(repo, "tokenizer.json", &files)?,
            weights: names
                .iter()
                .map(|name| hub::get(repo, name))
                .collect::<Result<_>>()?,
        })
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read(path).map_err(Error::io(path))?;
    serde_json::from_slice(&text).map_err(|e| bad(path, e))
}

/// The weight files that an index lists.
fn shards(index: &Path) -> Result<BTreeSet<String>> {
    let json = read_json(index)?;
    let map = json.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad(index, "it has no weight_map"))?;
    Ok(map
        .values()
        .filter_map(|v| Some(v.as_str()?.to_string()))
        .collect())
}

/// The config and its dtype. Rejects configs that candle-transformers would compute wrongly.
pub fn read_config(path: &Path) -> Result<(Config, Option<DType>)> {
    parse_config(path, read_json(path)?)
}

/// The end-of-text ids, from generation_config.json or config.json.
pub fn ends(folder: &Folder) -> Result<Vec<u32>> {
    let mut ends = Vec::new();
    for path in folder.generation.iter().chain([&folder.config]) {
        ends.extend(end_ids(&read_json(path)?));
    }
    Ok(ends)
}

/// Loads the model and creates an empty KV cache.
pub fn load(
    folder: &Folder,
    config: &Config,
    dtype: DType,
    device: &Device,
) -> Result<(Llama, Cache)> {
    let loaded = weights(folder, config, dtype, |_| device)?;
    let vb = VarBuilder::from_tensors(loaded, dtype, device);
    let cache = Cache::new(true, dtype, config, device)?;
    Ok((Llama::load(vb, config)?, cache))
}

/// Loads the tensors that [`tensors`] lists, each to the device that `place` gives for its name.
pub fn weights<'a>(
    folder: &Folder,
    config: &Config,
    dtype: DType,
    place: impl Fn(&str) -> &'a Device,
) -> Result<HashMap<String, Tensor>> {
    let (dir, mapped) = (folder.dir(), mapped(folder)?);
    let wanted = tensors(config);
    let mut total = 0;
    for (name, shape) in &wanted {
        let view = mapped
            .get(name)
            .map_err(|_| bad(dir, format!("no tensor {name}")))?;
        if view.shape() != shape {
            let found = view.shape();
            let reason = format!("{name} has shape {found:?}, but the config requires {shape:?}");
            return Err(bad(dir, reason));
        }
        total += view.data().len() as u64;
    }
    let bar = progress::bytes("loading", total);
    let mut loaded = HashMap::new();
    for (name, _) in wanted {
        let tensor: Tensor = mapped.load(&name, place(&name))?;
        bar.inc((tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64);
        loaded.insert(name, tensor.to_dtype(dtype)?);
    }
    bar.finish_and_clear();
    Ok(loaded)
}

/// Maps the weight files. An error names a file that is missing or damaged.
pub fn mapped(folder: &Folder) -> Result<MmapedSafetensors> {
    let what = "weights of the model";
    let missing = |path: PathBuf| Error::Missing { what, path };
    if folder.weights.is_empty() {
        return Err(missing(folder.dir().join("model.safetensors")));
    }
    for path in &folder.weights {
        if !path.exists() {
            return Err(missing(path.clone()));
        }
        // Map each file alone first, so that an error names the damaged file.
        map(std::slice::from_ref(path)).map_err(|e| bad(path, e))?;
    }
    Ok(map(&folder.weights)?)
}

fn map(paths: &[PathBuf]) -> candle_core::Result<MmapedSafetensors> {
    // SAFETY: the files are mapped read-only. As with every mapped file, no process may modify them while they are
    // mapped.
    unsafe { MmapedSafetensors::multi(paths) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config() -> Value {
        json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 16,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "rms_norm_eps": 1e-5, "max_position_embeddings": 32, "eos_token_id": [3, 4],
        })
    }

    /// A folder with `config` and random weights of matching shapes.
    fn folder(config: &Value) -> Result<tempfile::TempDir> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let path = dir.path().join("config.json");
        fs::write(&path, config.to_string()).map_err(Error::io(&path))?;
        let mut weights = HashMap::new();
        if let Ok((config, _)) = read_config(&path) {
            for (name, shape) in tensors(&config) {
                weights.insert(name, Tensor::randn(0f32, 1., shape, &Device::Cpu)?);
            }
        }
        candle_core::safetensors::save(&weights, dir.path().join("model.safetensors"))?;
        Ok(dir)
    }

    fn open(dir: &Path) -> Result<(Llama, Cache)> {
        let folder = Folder::open(dir)?;
        let (config, _) = read_config(&folder.config)?;
        load(&folder, &config, DType::F32, &Device::Cpu)
    }

    #[test]
    fn a_whole_folder_loads() -> Result<()> {
        let dir = folder(&config())?;
        open(dir.path())?;
        assert_eq!(ends(&Folder::open(dir.path())?)?, [3, 4]);
        Ok(())
    }

    #[test]
    fn a_truncated_file_is_named() -> Result<()> {
        let dir = folder(&config())?;
        let path = dir.path().join("model.safetensors");
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        for length in [0, 5, 100, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).map_err(Error::io(&path))?;
            let error = open(dir.path()).err().map(|e| e.to_string());
            assert!(
                error.is_some_and(|e| e.contains("model.safetensors")),
                "{length}"
            );
        }
        Ok(())
    }

    #[test]
    fn tensors_that_do_not_fit_the_config_are_errors_and_no_panics() -> Result<()> {
        for (key, value) in [("num_hidden_layers", 2), ("vocab_size", 17)] {
            let dir = folder(&config())?;
            let mut other = config();
            other[key] = json!(value);
            let path = dir.path().join("config.json");
            fs::write(&path, other.to_string()).map_err(Error::io(&path))?;
            assert!(
                matches!(open(dir.path()), Err(Error::Checkpoint { .. })),
                "{key}"
            );
        }
        Ok(())
    }

    #[test]
    fn configs_that_would_run_wrongly_are_refused() -> Result<()> {
        for (key, value) in [
            ("model_type", json!("gpt2")),
            ("attention_bias", json!(true)),
            ("head_dim", json!(16)),
        ] {
            let mut other = config();
            other[key] = value;
            let dir = folder(&other)?;
            assert!(
                matches!(open(dir.path()), Err(Error::Unsupported { .. })),
                "{key}"
            );
        }
        let mut other = config();
        other["num_attention_heads"] = json!(3);
        let dir = folder(&other)?;
        assert!(matches!(open(dir.path()), Err(Error::Checkpoint { .. })));
        Ok(())
    }

    #[test]
    fn numbers_without_measure_are_errors_and_no_allocations() -> Result<()> {
        for key in [
            "hidden_size",
            "intermediate_size",
            "vocab_size",
            "num_hidden_layers",
            "max_position_embeddings",
            "num_attention_heads",
            "num_key_value_heads",
        ] {
            for value in [json!(1u64 << 40), json!(u64::MAX), json!(-1), json!(1.5)] {
                let dir = folder(&config())?;
                let mut other = config();
                other[key] = value.clone();
                let path = dir.path().join("config.json");
                fs::write(&path, other.to_string()).map_err(Error::io(&path))?;
                let result = open(dir.path());
                assert!(
                    matches!(result, Err(Error::Checkpoint { .. })),
                    "{key} {value}"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn angles_without_measure_are_errors_and_no_allocations() -> Result<()> {
        let mut wide = config();
        for (key, value) in [
            ("hidden_size", 1 << 14),
            ("num_attention_heads", 1),
            ("num_hidden_layers", 0),
            ("vocab_size", 1),
            ("max_position_embeddings", 1 << 20),
        ] {
            wide[key] = json!(value);
        }
        let dir = folder(&wide)?;
        assert!(matches!(open(dir.path()), Err(Error::Checkpoint { .. })));
        Ok(())
    }

    #[test]
    fn missing_files_are_named() -> Result<()> {
        let dir = folder(&config())?;
        fs::remove_file(dir.path().join("model.safetensors")).map_err(Error::io("model"))?;
        assert!(matches!(open(dir.path()), Err(Error::Missing { .. })));
        fs::remove_file(dir.path().join("config.json")).map_err(Error::io("config"))?;
        assert!(matches!(open(dir.path()), Err(Error::Missing { .. })));
        Ok(())
    }
}
