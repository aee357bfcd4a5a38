//! Loads a model's files to several devices.

use crate::model::{place, Part, Split};
use crate::place::split;
use candle_core::{DType, Device, Tensor};
use candle_examples::files::{default_dtype, words, Files};
use candle_examples::tokenizer::Tokenizer;
use candle_examples::{checkpoint, llama2c};
use candle_transformers::models::llama::Config;
use std::collections::HashMap;

pub struct Loaded {
    pub model: Split,
    pub parts: Vec<Part>,
    pub tokenizer: Tokenizer,
    pub dtype: DType,
    pub context: usize,
    pub ends: Vec<u32>,
}

/// The layers of each device; `asked` are the requested numbers.
fn parts(config: &Config, devices: &[Device], asked: &[usize]) -> anyhow::Result<Vec<Part>> {
    let ranges = split(config.num_hidden_layers, devices.len(), asked)?;
    let parts = devices.iter().cloned().zip(ranges);
    Ok(parts
        .map(|(device, layers)| Part { device, layers })
        .collect())
}

pub fn load(
    files: &Files,
    dtype: Option<DType>,
    devices: &[Device],
    asked: &[usize],
) -> anyhow::Result<Loaded> {
    match files {
        Files::Llama2c { weights, tokenizer } => {
            let llama2c::Dense {
                config,
                weights: vb,
                tokenizer,
            } = llama2c::read(weights, tokenizer)?;
            let parts = parts(&config, devices, asked)?;
            let dtype = dtype.unwrap_or(DType::F32);
            let mut tensors = HashMap::new();
            for (name, shape) in checkpoint::tensors(&config) {
                let tensor: Tensor = vb.get(shape, &name)?.contiguous()?.to_dtype(dtype)?;
                tensors.insert(name.clone(), tensor.to_device(place(&parts, &name))?);
            }
            Ok(Loaded {
                context: config.max_position_embeddings,
                model: Split::new(config, true, tensors, &parts)?,
                parts,
                ends: tokenizer.ends(),
                tokenizer,
                dtype,
            })
        }
        Files::Folder { folder, tokenizer } => {
            let (config, stored) = checkpoint::read_config(&folder.config)?;
            let (tokenizer, ends) = words(folder, tokenizer, config.vocab_size)?;
            let parts = parts(&config, devices, asked)?;
            // All devices must compute in the same dtype.
            let all = devices.iter().map(|device| default_dtype(stored, device));
            let least = all.reduce(|a, b| match a == b {
                true => a,
                false if [a, b].contains(&DType::F32) => DType::F32,
                false => DType::F16,
            });
            let dtype = dtype.or(least).unwrap_or(DType::F32);
            let place = |name: &str| place(&parts, name);
            let weights = checkpoint::weights(folder, &config, dtype, place)?;
            Ok(Loaded {
                context: config.max_position_embeddings,
                model: Split::new(config, false, weights, &parts)?,
                parts,
                ends,
                tokenizer,
                dtype,
            })
        }
    }
}
