//! The config of a LLaMA checkpoint, and the tensors that it requires.

use crate::error::{Error, Result};
use crate::model::MOST_ANGLES;
use crate::needs::Needs;
use candle_core::DType;
use candle_transformers::models::llama::{Config, LlamaConfig};
use serde_json::Value;
use std::path::Path;

/// Far above any real model. candle-transformers allocates whatever a config asks for.
const MOST: usize = 1 << 24;
const MOST_LAYERS: usize = 1 << 12;

pub(super) fn bad(path: &Path, reason: impl ToString) -> Error {
    Error::Checkpoint {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

/// The config and its dtype from the contents of config.json. Rejects configs that candle-transformers would compute wrongly.
pub fn parse_config(path: &Path, mut json: Value) -> Result<(Config, Option<DType>)> {
    let unsupported = |what: String| Err(Error::Unsupported { what });
    match json["model_type"].as_str() {
        Some("llama") | None => {}
        Some(other) => return unsupported(format!("models of type `{other}`, only LLaMA")),
    }
    for bias in ["attention_bias", "mlp_bias"] {
        if json[bias] == true {
            return unsupported(format!("LLaMA models with {bias}"));
        }
    }
    // Newer configs store theta in the RoPE parameters.
    if json.get("rope_theta").is_none() {
        if let Some(theta) = json["rope_parameters"].get("rope_theta").cloned() {
            json["rope_theta"] = theta;
        }
    }
    let dtype = json.get("dtype").or_else(|| json.get("torch_dtype"));
    let dtype = match dtype.and_then(Value::as_str) {
        Some("float16") => Some(DType::F16),
        Some("bfloat16") => Some(DType::BF16),
        Some("float32") => Some(DType::F32),
        _ => None,
    };
    let head_dim = json["head_dim"].as_u64();
    let config: LlamaConfig = serde_json::from_value(json).map_err(|e| bad(path, e))?;
    let config = config.into_config(false);
    for (what, number, most) in [
        ("hidden_size", config.hidden_size, MOST),
        ("intermediate_size", config.intermediate_size, MOST),
        ("vocab_size", config.vocab_size, MOST),
        ("num_hidden_layers", config.num_hidden_layers, MOST_LAYERS),
    ] {
        if number > most {
            return Err(bad(path, format!("{what} is {number}, more than {most}")));
        }
    }
    let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
    let kv_heads = config.num_key_value_heads;
    if heads == 0 || kv_heads == 0 || hidden % heads != 0 || heads % kv_heads != 0 {
        return Err(bad(
            path,
            format!("a hidden size of {hidden} does not divide into {heads} heads with {kv_heads} key-value heads"),
        ));
    }
    let angles = config.max_position_embeddings.checked_mul(hidden / heads);
    if angles.is_none_or(|angles| angles > MOST_ANGLES) {
        let positions = config.max_position_embeddings;
        return Err(bad(
            path,
            format!(
                "max_position_embeddings of {positions} with a head_dim of {} is too large",
                hidden / heads
            ),
        ));
    }
    if head_dim.is_some_and(|dim| dim != (hidden / heads) as u64) {
        return unsupported("LLaMA models whose head_dim is not hidden_size / heads".to_string());
    }
    Ok((config, dtype))
}

/// The end-of-text ids in the contents of generation_config.json or config.json.
pub fn end_ids(json: &Value) -> Vec<u32> {
    let ids = match &json["eos_token_id"] {
        Value::Array(ids) => ids.iter().filter_map(Value::as_u64).collect(),
        id => Vec::from_iter(id.as_u64()),
    };
    ids.into_iter().map(|id| id as u32).collect()
}

/// The name and shape of each tensor that `models::llama` reads.
pub fn tensors(c: &Config) -> Vec<(String, Vec<usize>)> {
    let head_dim = c.hidden_size / c.num_attention_heads;
    let kv = head_dim * c.num_key_value_heads;
    let (hidden, inner) = (c.hidden_size, c.intermediate_size);
    let mut tensors = vec![
        ("model.embed_tokens".to_string(), vec![c.vocab_size, hidden]),
        ("model.norm".to_string(), vec![hidden]),
    ];
    if !c.tie_word_embeddings {
        tensors.push(("lm_head".to_string(), vec![c.vocab_size, hidden]));
    }
    for layer in 0..c.num_hidden_layers {
        let parts = [
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
        ];
        let name = |part| format!("model.layers.{layer}.{part}");
        tensors.extend(parts.map(|(part, shape)| (name(part), shape)));
    }
    for (name, _) in &mut tensors {
        name.push_str(".weight");
    }
    tensors
}

/// The device memory that the model needs in `dtype`.
pub fn needs(c: &Config, dtype: DType) -> Needs {
    let bytes = |elements: usize| (elements * dtype.size_in_bytes()) as u64;
    let tensors = tensors(c).into_iter();
    let tensors = tensors.map(|(_, shape)| bytes(shape.iter().product()));
    let head_dim = c.hidden_size / c.num_attention_heads;
    let cached = 2 * c.num_hidden_layers * c.num_key_value_heads * head_dim;
    Needs::of(tensors, bytes(cached))
}
