//! A generated LLaMA, small enough for a test.

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_examples::checkpoint::{read_config, tensors};
use serde_json::json;
use std::collections::HashMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

pub const VOCAB: i32 = 300;

const WRITABLE: &str = "a writable temporary folder";

/// Numbers from -0.5 to 0.5, from a fixed sequence.
pub fn random() -> impl FnMut(i32) -> Vec<f32> {
    let mut state = 1u32;
    move |n| {
        let next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        std::iter::repeat_with(next).take(n as usize).collect()
    }
}

/// A llama2.c checkpoint with weights from a fixed sequence, and a tokenizer.bin of bytes next to it.
pub fn model(dir: &Path) -> PathBuf {
    let [dim, hidden, layers, heads, seq] = [32, 48, 2, 4, 64];
    let header = [dim, hidden, layers, heads, heads, VOCAB, seq];
    let norms = |n: i32| std::iter::repeat_n(1f32, n as usize);
    let mut random = random();
    let mut weights = random(VOCAB * dim);
    weights.extend(norms(layers * dim));
    weights.extend(random(4 * layers * dim * dim));
    weights.extend(norms(layers * dim));
    weights.extend(random(3 * layers * hidden * dim));
    weights.extend(norms(dim));
    let half = dim / heads / 2;
    let angle = |i: i32| {
        let frequency = 10000f32.powf(-((i % half) as f32) / half as f32);
        (i / half) as f32 * frequency
    };
    weights.extend((0..seq * half).map(|i| angle(i).cos()));
    weights.extend((0..seq * half).map(|i| angle(i).sin()));
    let words = header.iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = words
        .chain(weights.iter().flat_map(|w| w.to_le_bytes()))
        .collect();
    let path = dir.join("model.bin");
    std::fs::write(&path, bytes).expect(WRITABLE);

    let mut tokenizer = 8u32.to_le_bytes().to_vec();
    for id in 0..VOCAB {
        let piece = format!("<{id}>");
        tokenizer.extend(0f32.to_le_bytes());
        tokenizer.extend((piece.len() as u32).to_le_bytes());
        tokenizer.extend(piece.as_bytes());
    }
    std::fs::write(dir.join("tokenizer.bin"), tokenizer).expect(WRITABLE);
    path
}

/// A folder in the transformers layout, with grouped-query attention; `more` is added to its config.
pub fn folder(dir: &Path, more: serde_json::Value) -> PathBuf {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "vocab_size": VOCAB,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        // No generated token ends the text.
        "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "eos_token_id": 100_000,
    });
    let all = config.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    let folder = dir.join("folder");
    std::fs::create_dir(&folder).expect(WRITABLE);
    let path = folder.join("config.json");
    std::fs::write(&path, config.to_string()).expect(WRITABLE);
    let (config, _) = read_config(&path).expect("a valid config");
    let mut random = random();
    let mut weights = HashMap::new();
    for (name, shape) in tensors(&config) {
        let values = random(shape.iter().product::<usize>() as i32);
        let weight = Tensor::from_vec(values, shape, &Device::Cpu).expect("as many values");
        weights.insert(name, weight);
    }
    candle_core::safetensors::save(&weights, folder.join("model.safetensors")).expect(WRITABLE);
    folder
}

const SPECIAL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// GPT-2's byte alphabet: printable bytes as they are, the others from U+0100 on.
fn alphabet() -> impl Iterator<Item = String> {
    let mut next = 0xff;
    (0..=0xffu8).map(move |byte| {
        let printed = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        next += u32::from(!printed);
        let code = if printed { u32::from(byte) } else { next };
        char::from_u32(code).expect("a character").to_string()
    })
}

/// A GGUF file of a LLaMA with 4 heads and 2 key-value heads, and weights from a fixed sequence; its tokens are bytes and ChatML's two.
pub fn gguf(
    dir: &Path,
    (layers, dim, context): (usize, usize, u32),
    pack: fn(&Tensor) -> QTensor,
) -> PathBuf {
    let text = |text: &str| Value::String(text.to_string());
    let tokens: Vec<_> = alphabet().chain(SPECIAL.map(str::to_string)).collect();
    let vocabulary = tokens.len();
    let kinds = (0..vocabulary).map(|id| Value::U32(if id < 256 { 1 } else { 3 }));
    let tokens = tokens.iter().map(|token| text(token)).collect();
    let metadata = [
        ("general.architecture", text("llama")),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(2)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.block_count", Value::U32(layers as u32)),
        ("llama.context_length", Value::U32(context)),
        ("llama.embedding_length", Value::U32(dim as u32)),
        ("llama.rope.dimension_count", Value::U32(dim as u32 / 4)),
        ("tokenizer.ggml.eos_token_id", Value::U32(257)),
        ("tokenizer.ggml.merges", Value::Array(Vec::new())),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("gpt-2")),
        ("tokenizer.ggml.token_type", Value::Array(kinds.collect())),
        ("tokenizer.ggml.tokens", Value::Array(tokens)),
    ];
    let mut dims = vec![
        ("token_embd.weight".to_string(), vec![vocabulary, dim]),
        ("output_norm.weight".to_string(), vec![dim]),
    ];
    for layer in 0..layers {
        let parts = [
            ("attn_norm", vec![dim]),
            ("ffn_norm", vec![dim]),
            ("attn_q", vec![dim, dim]),
            ("attn_k", vec![dim / 2, dim]),
            ("attn_v", vec![dim / 2, dim]),
            ("attn_output", vec![dim, dim]),
            ("ffn_gate", vec![2 * dim, dim]),
            ("ffn_up", vec![2 * dim, dim]),
            ("ffn_down", vec![dim, 2 * dim]),
        ];
        let name = |part| format!("blk.{layer}.{part}.weight");
        dims.extend(parts.map(|(part, dims)| (name(part), dims)));
    }
    let mut state = 1u32;
    let mut random = |dims: &[usize]| {
        let next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let values = std::iter::repeat_with(next).take(dims.iter().product());
        let values: Vec<f32> = match dims.len() {
            1 => values.map(|v| 1. + v / 4.).collect(),
            _ => values.collect(),
        };
        let tensor = Tensor::from_vec(values, dims, &Device::Cpu).expect("as many values");
        match dims.len() {
            1 => QTensor::quantize(&tensor, GgmlDType::F32).expect("f32"),
            _ => pack(&tensor),
        }
    };
    let tensors: Vec<_> = dims
        .iter()
        .map(|(name, dims)| (name.as_str(), random(dims)))
        .collect();
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    let mut bytes = Cursor::new(Vec::new());
    gguf_file::write(&mut bytes, &metadata, &tensors).expect("in memory");
    let path = dir.join("model.gguf");
    std::fs::write(&path, bytes.into_inner()).expect(WRITABLE);
    path
}
