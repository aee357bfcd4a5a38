//! Models small enough to be dropped on the page, whose words the test chooses.

use std::collections::HashMap;
use std::io::Cursor;

use anyhow::Result;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::json;

const DIM: usize = 32;
const INNER: usize = 64;
const SPECIAL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// GPT-2's byte alphabet: printable bytes as they are, the others from U+0100 on.
fn alphabet() -> Vec<char> {
    let mut next = 0xff;
    let code = |byte: u8| {
        let printed = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        next += u32::from(!printed);
        char::from_u32(if printed { byte.into() } else { next }).unwrap_or_default()
    };
    (0..=0xffu8).map(code).collect()
}

/// A chat model that answers everything with `words` in turn, over and over. Its name is `name`.
///
/// The layer's weights are 0, so a token's logits depend on the token alone: each of the words is followed by the next, and everything
/// else by the first.
pub fn parrot(name: &str, words: &[&str]) -> Result<Vec<u8>> {
    let text = |text: &str| Value::String(text.to_string());
    let alphabet = alphabet();
    let spell = |word: &&str| word.bytes().map(|b| alphabet[usize::from(b)]).collect();
    let mut tokens: Vec<String> = alphabet.iter().map(char::to_string).collect();
    tokens.extend(words.iter().map(spell));
    tokens.extend(SPECIAL.map(str::to_string));
    let (first, vocabulary) = (alphabet.len(), tokens.len());
    let kind = |id: usize| {
        Value::U32(if id < vocabulary - SPECIAL.len() {
            1
        } else {
            3
        })
    };
    let kinds = (0..vocabulary).map(kind).collect();
    let tokens = tokens.iter().map(|token| text(token)).collect();
    let metadata = [
        ("general.architecture", text("llama")),
        ("general.name", text(name)),
        ("llama.attention.head_count", Value::U32(4)),
        ("llama.attention.head_count_kv", Value::U32(4)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.block_count", Value::U32(1)),
        ("llama.context_length", Value::U32(512)),
        ("llama.embedding_length", Value::U32(DIM as u32)),
        ("llama.rope.dimension_count", Value::U32(DIM as u32 / 4)),
        (
            "tokenizer.ggml.eos_token_id",
            Value::U32(vocabulary as u32 - 1),
        ),
        ("tokenizer.ggml.merges", Value::Array(Vec::new())),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("gpt-2")),
        ("tokenizer.ggml.token_type", Value::Array(kinds)),
        ("tokenizer.ggml.tokens", Value::Array(tokens)),
    ];
    // Word i has the direction i + 1, all other tokens have the direction 0.
    let direction = |id: usize| match id.checked_sub(first) {
        Some(word) if word < words.len() => word + 1,
        _ => 0,
    };
    let mut embedding = vec![0f32; vocabulary * DIM];
    let mut output = vec![0f32; vocabulary * DIM];
    for id in 0..vocabulary {
        embedding[id * DIM + direction(id)] = 1.;
    }
    for word in 0..words.len() {
        output[(first + word) * DIM + word] = 1.;
    }
    output[first * DIM + words.len()] = 1.;
    let zeros = |rows: usize, columns: usize| vec![0f32; rows * columns];
    let square = || (zeros(DIM, DIM), vec![DIM, DIM]);
    let tensors = [
        ("token_embd.weight", (embedding, vec![vocabulary, DIM])),
        ("output.weight", (output, vec![vocabulary, DIM])),
        ("output_norm.weight", (vec![1.; DIM], vec![DIM])),
        ("blk.0.attn_norm.weight", (vec![1.; DIM], vec![DIM])),
        ("blk.0.ffn_norm.weight", (vec![1.; DIM], vec![DIM])),
        ("blk.0.attn_q.weight", square()),
        ("blk.0.attn_k.weight", square()),
        ("blk.0.attn_v.weight", square()),
        ("blk.0.attn_output.weight", square()),
        (
            "blk.0.ffn_gate.weight",
            (zeros(INNER, DIM), vec![INNER, DIM]),
        ),
        ("blk.0.ffn_up.weight", (zeros(INNER, DIM), vec![INNER, DIM])),
        (
            "blk.0.ffn_down.weight",
            (zeros(DIM, INNER), vec![DIM, INNER]),
        ),
    ];
    let mut packed = Vec::new();
    for (name, (values, dims)) in tensors {
        let tensor = Tensor::from_vec(values, dims, &Device::Cpu)?;
        packed.push((name, QTensor::quantize(&tensor, GgmlDType::F32)?));
    }
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<_> = packed
        .iter()
        .map(|(name, tensor)| (*name, tensor))
        .collect();
    let mut bytes = Cursor::new(Vec::new());
    gguf_file::write(&mut bytes, &metadata, &tensors)?;
    Ok(bytes.into_inner())
}

/// The files of a checkpoint with random weights: its config, a tokenizer of ten words, and the weights by name and shape.
pub fn checkpoint(
    config: &serde_json::Value,
    tensors: &[(String, Vec<usize>)],
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let vocabulary: HashMap<String, usize> = (0..10).map(|id| (format!("w{id}"), id)).collect();
    let tokenizer = json!({
        "version": "1.0",
        "pre_tokenizer": { "type": "Whitespace" },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "w0" },
    });
    let mut weights = HashMap::new();
    for (name, shape) in tensors {
        let tensor = Tensor::randn(0f32, 1., &shape[..], &Device::Cpu)?;
        weights.insert(name.clone(), tensor);
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("model.safetensors");
    candle_core::safetensors::save(&weights, &path)?;
    Ok(vec![
        ("config.json", config.to_string().into_bytes()),
        ("tokenizer.json", tokenizer.to_string().into_bytes()),
        ("model.safetensors", std::fs::read(path)?),
    ])
}
