//! Small valid inputs for each target, so that fuzzing need not discover the file formats.

use std::collections::HashMap;
use std::io::Cursor;

use anyhow::Result;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use candle_examples::checkpoint::{read_config, tensors};

use crate::family::{Family, FAMILIES};

/// A target, a name, the bytes.
type Seed = (&'static str, String, Vec<u8>);

pub fn all() -> Result<Vec<Seed>> {
    let mut seeds = vec![
        ("safetensors", "whole".to_string(), folder()?),
        ("llama2c", "whole".to_string(), checkpoint()),
        ("tokenizer", "whole".to_string(), tokenizer()),
    ];
    for family in FAMILIES {
        seeds.push(("gguf", family.name.to_string(), model(family, gpt2())?));
    }
    seeds.push(("gguf", "pieces".to_string(), model(&FAMILIES[0], pieces())?));
    seeds.extend((0..48).map(|n| ("layouts", format!("{n}"), layout(n))));
    Ok(seeds)
}

/// How many times wider a family of tests/gguf is than a seed.
const NARROW: usize = 8;
const LAYER: &str = "blk.1.";

fn model(family: &Family, words: Vec<(&str, Value)>) -> Result<Vec<u8>> {
    let mut metadata = family.metadata();
    for (key, value) in &mut metadata {
        match value {
            Value::U32(layers) if key.ends_with("block_count") => *layers = 1,
            Value::U32(wide) if key.ends_with("_length") || key.ends_with("dimension_count") => {
                *wide /= NARROW as u32;
            }
            _ => {}
        }
    }
    let mut tensors = Vec::new();
    let narrow = |dim: &usize| match dim % (4 * NARROW) {
        0 => dim / NARROW,
        _ => *dim,
    };
    let names = family.tensors();
    for (name, dims) in names.iter().filter(|(name, _)| !name.starts_with(LAYER)) {
        let dims: Vec<usize> = dims.iter().map(narrow).collect();
        let dtype = match dims[..] {
            [_, columns] if columns % 32 == 0 => GgmlDType::Q4_0,
            _ => GgmlDType::F32,
        };
        let tensor = Tensor::ones(dims, DType::F32, &Device::Cpu)?;
        tensors.push((name.as_str(), QTensor::quantize(&tensor, dtype)?));
    }
    let metadata = metadata.iter().map(|(key, value)| (key.as_str(), value));
    let words = words.iter().map(|(key, value)| (*key, value));
    let metadata: Vec<_> = metadata.chain(words).collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

fn text(text: &str) -> Value {
    Value::String(text.to_string())
}

fn texts(all: &[&str]) -> Value {
    Value::Array(all.iter().map(|t| text(t)).collect())
}

fn gpt2() -> Vec<(&'static str, Value)> {
    vec![
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("qwen2")),
        (
            "tokenizer.ggml.tokens",
            texts(&["1", "2", "12", "<|im_start|>"]),
        ),
        ("tokenizer.ggml.merges", texts(&["1 2"])),
        (
            "tokenizer.ggml.token_type",
            Value::Array([1, 1, 1, 3].map(Value::I32).into()),
        ),
        ("tokenizer.ggml.eos_token_id", Value::U32(3)),
    ]
}

fn pieces() -> Vec<(&'static str, Value)> {
    let scores = [0., 0., 0., -1., -2.].map(Value::F32);
    vec![
        ("tokenizer.ggml.model", text("llama")),
        (
            "tokenizer.ggml.tokens",
            texts(&["<unk>", "<s>", "<0x31>", "1", "\u{2581}1"]),
        ),
        ("tokenizer.ggml.scores", Value::Array(scores.into())),
        ("tokenizer.ggml.unknown_token_id", Value::U32(0)),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        (
            "tokenizer.chat_template",
            text("{% for m in messages %}{{ m.content }}{% endfor %}"),
        ),
    ]
}

fn folder() -> Result<Vec<u8>> {
    let config = serde_json::json!({
        "model_type": "llama", "hidden_size": 4, "intermediate_size": 4, "vocab_size": 3,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 8, "eos_token_id": [2],
        "rope_scaling": {
            "factor": 8., "low_freq_factor": 1., "high_freq_factor": 4.,
            "original_max_position_embeddings": 4, "rope_type": "llama3"
        },
    })
    .to_string();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("config.json");
    std::fs::write(&path, &config)?;
    let mut weights = HashMap::new();
    for (name, shape) in tensors(&read_config(&path)?.0) {
        weights.insert(name, Tensor::ones(shape, DType::F16, &Device::Cpu)?);
    }
    let path = dir.path().join("model.safetensors");
    candle_core::safetensors::save(&weights, &path)?;
    let mut seed = (config.len() as u16).to_le_bytes().to_vec();
    seed.extend(config.as_bytes());
    seed.extend(std::fs::read(&path)?);
    Ok(seed)
}

fn checkpoint() -> Vec<u8> {
    const WORDS: [i32; 7] = [4, 4, 1, 2, 2, 5, 4];
    let [dim, hidden, layers, heads, _, vocabulary, length] = WORDS.map(|word| word as usize);
    let layer = 2 * dim + 4 * dim * dim + 3 * dim * hidden;
    let floats = vocabulary * dim + layers * layer + dim + length * dim / heads;
    let mut bytes: Vec<u8> = WORDS.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend((0..floats).flat_map(|i| (i as f32 / 64.).to_le_bytes()));
    bytes
}

fn tokenizer() -> Vec<u8> {
    let mut pieces: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_string).into();
    pieces.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    pieces.extend([" ", "a", "b", " a", "ab", "abab"].map(str::to_string));
    let mut bytes = 6u32.to_le_bytes().to_vec();
    for piece in pieces {
        let score = if piece.len() < 6 {
            -(piece.len() as f32)
        } else {
            0.
        };
        bytes.extend(score.to_le_bytes());
        bytes.extend((piece.len() as u32).to_le_bytes());
        bytes.extend(piece.as_bytes());
    }
    bytes
}

/// The device and the op, then any bytes.
fn layout(n: usize) -> Vec<u8> {
    let mut state = n as u32 + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let head = [n as u8 & 1, (n / 2) as u8];
    head.into_iter().chain((0..40).map(|_| next())).collect()
}
