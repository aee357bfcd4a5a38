//! More decoder-only language models, which share one constructor and one forward signature.

use anyhow::Result;
use candle_core::Tensor;
use candle_nn::VarBuilder;
use candle_transformers::models::{falcon, gemma2, helium, olmo2, stable_lm, starcoder2};
use serde_json::json;

use crate::language::{config, decode};
use crate::model::{Model, FLOATS};
use crate::passes;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "gemma2",     dtypes: FLOATS, run: gemma2 },
    Model { name: "helium",     dtypes: FLOATS, run: helium },
    Model { name: "olmo2",      dtypes: FLOATS, run: olmo2 },
    Model { name: "stable_lm",  dtypes: FLOATS, run: stable_lm },
    Model { name: "starcoder2", dtypes: FLOATS, run: starcoder2 },
    Model { name: "falcon",     dtypes: FLOATS, run: falcon },
];

fn gemma2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: gemma2::Config = config(json!({
        "attention_bias": false,
        "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
        "query_pre_attn_scalar": 32,
        "sliding_window": 4,
    }))?;
    let device = vb.device().clone();
    let mut model = gemma2::Model::new(false, &config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn helium(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: helium::Config = config(json!({
        "attention_bias": false,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "head_dim": 16,
        "mlp_bias": false,
    }))?;
    let device = vb.device().clone();
    let mut model = helium::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn olmo2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: olmo2::Config = config(json!({ "attention_bias": false }))?;
    let device = vb.device().clone();
    let mut model = olmo2::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn stable_lm(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: stable_lm::Config = config(json!({
        "partial_rotary_factor": 0.5,
        "layer_norm_eps": 1e-5,
        "use_cache": true,
        "use_qkv_bias": true,
    }))?;
    let device = vb.device().clone();
    let mut model = stable_lm::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn starcoder2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: starcoder2::Config = config(json!({
        "hidden_act": "gelu_pytorch_tanh",
        "norm_epsilon": 1e-5,
        "use_bias": true,
        "sliding_window": 4,
    }))?;
    let device = vb.device().clone();
    let mut model = starcoder2::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn falcon(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = falcon::Config {
        vocab_size: 67,
        hidden_size: 64,
        num_hidden_layers: passes::layers(),
        num_attention_heads: 4,
        n_head_kv: None,
        ..Default::default()
    };
    let device = vb.device().clone();
    let mut model = falcon::Falcon::load(vb, config)?;
    decode(&device, |ids, _| model.forward(ids))
}
