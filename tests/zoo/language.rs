//! Decoder-only language models: a prefill and some steps of decoding with a cache of keys and values.

use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    gemma, gemma3, llama, llama2_c, mistral, phi, phi3, qwen2, qwen3,
};
use serde::de::DeserializeOwned;
use serde_json::{json, Value};

use crate::model::{Model, F32, FLOATS};
use crate::passes;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "llama",    dtypes: FLOATS, run: llama },
    Model { name: "llama3",   dtypes: FLOATS, run: llama3 },
    Model { name: "llama2_c", dtypes: F32,    run: llama2_c },
    Model { name: "mistral",  dtypes: FLOATS, run: mistral },
    Model { name: "qwen2",    dtypes: FLOATS, run: qwen2 },
    Model { name: "qwen3",    dtypes: FLOATS, run: qwen3 },
    // Its angles stay in f32, and no device multiplies f32 by f16.
    Model { name: "phi",      dtypes: F32,    run: phi },
    Model { name: "phi3",     dtypes: FLOATS, run: phi3 },
    Model { name: "gemma",    dtypes: FLOATS, run: gemma },
    Model { name: "gemma3",   dtypes: FLOATS, run: gemma3 },
];

/// The common part of the families' configurations; `more` adds and replaces entries.
pub fn config<C: DeserializeOwned>(more: Value) -> Result<C> {
    let mut config = json!({
        "vocab_size": 67,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": passes::layers(),
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "use_flash_attn": false,
        "sliding_window": null,
        "tie_word_embeddings": false,
    });
    if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
        config.extend(more.clone());
    }
    Ok(serde_json::from_value(config)?)
}

/// Six tokens at once, then four one by one. `forward` takes the ids (1, n) and the position of the first.
pub fn decode(
    device: &Device,
    mut forward: impl FnMut(&Tensor, usize) -> candle_core::Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let ids = [3u32, 14, 15, 9, 26, 5, 35, 8, 66, 0];
    let mut outputs = Vec::new();
    for range in [0..6, 6..7, 7..8, 8..9, 9..10] {
        let position = range.start;
        let input = Tensor::new(&ids[range], device)?.unsqueeze(0)?;
        outputs.push(forward(&input, position)?);
        passes::end(device)?;
    }
    Ok(outputs)
}

fn llama_with(vb: VarBuilder, more: Value) -> Result<Vec<Tensor>> {
    let config = config::<llama::LlamaConfig>(more)?.into_config(false);
    let mut cache = llama::Cache::new(true, vb.dtype(), &config, vb.device())?;
    let device = vb.device().clone();
    let model = llama::Llama::load(vb, &config)?;
    decode(&device, |ids, at| model.forward(ids, at, &mut cache))
}

fn llama(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    llama_with(vb, json!({}))
}

fn llama3(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let scaling = json!({
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_type": "llama3",
    });
    let more = json!({ "rope_scaling": scaling, "tie_word_embeddings": true });
    llama_with(vb, more)
}

fn llama2_c(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = llama2_c::Config {
        dim: 64,
        hidden_dim: 96,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        vocab_size: 67,
        seq_len: 32,
        norm_eps: 1e-5,
    };
    let mut cache = llama2_c::Cache::new(true, &config, vb.pp("rot"))?;
    let device = vb.device().clone();
    let model = llama2_c::Llama::load(vb, config)?;
    decode(&device, |ids, at| model.forward(ids, at, &mut cache))
}

fn mistral(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: mistral::Config = config(json!({ "sliding_window": 4 }))?;
    let device = vb.device().clone();
    let mut model = mistral::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn qwen2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: qwen2::Config = config(json!({
        "sliding_window": 32,
        "max_window_layers": 2,
        "use_sliding_window": false,
        "tie_word_embeddings": true,
    }))?;
    let device = vb.device().clone();
    let mut model = qwen2::ModelForCausalLM::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn qwen3(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: qwen3::Config = config(json!({
        "head_dim": 32,
        "attention_bias": false,
        "max_window_layers": 2,
        "use_sliding_window": false,
    }))?;
    let device = vb.device().clone();
    let mut model = qwen3::ModelForCausalLM::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn phi(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: phi::Config = config(json!({
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "partial_rotary_factor": 0.5,
        // Upstream's norm of queries and keys has the shape of one head, but is applied to all heads at once.
        "qk_layernorm": false,
    }))?;
    let device = vb.device().clone();
    let mut model = phi::Model::new(&config, vb)?;
    decode(&device, |ids, _| model.forward(ids))
}

fn phi3(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: phi3::Config = config(json!({ "partial_rotary_factor": 0.5 }))?;
    let device = vb.device().clone();
    let mut model = phi3::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn gemma(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: gemma::Config = config(json!({
        "attention_bias": false,
        "head_dim": 32,
        "hidden_act": "gelu_pytorch_tanh",
    }))?;
    let device = vb.device().clone();
    let mut model = gemma::Model::new(false, &config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn gemma3(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: gemma3::Config = config(json!({
        // Its cache takes transposed values, which are only contiguous with one head.
        "num_key_value_heads": 1,
        "attention_bias": false,
        "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_local_base_freq": 1000.0,
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
        "query_pre_attn_scalar": 32,
        "sliding_window": 8,
        "sliding_window_pattern": 2,
    }))?;
    let device = vb.device().clone();
    let mut model = gemma3::Model::new(false, &config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}
