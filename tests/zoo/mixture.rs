//! Mixtures of experts, whose routing reads back from the device in the middle of a forward pass.

use anyhow::Result;
use candle_core::Tensor;
use candle_nn::VarBuilder;
use candle_transformers::models::{deepseek2, mixtral, qwen3_moe};
use serde_json::json;

use crate::language::{config, decode};
use crate::model::{Model, F32};

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    // In 16 bits, a near tie may choose another expert, and then the outputs are unrelated.
    Model { name: "mixtral",   dtypes: F32, run: mixtral },
    Model { name: "qwen3_moe", dtypes: F32, run: qwen3_moe },
    Model { name: "deepseek2", dtypes: F32, run: deepseek2 },
];

fn mixtral(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: mixtral::Config = config(json!({
        "sliding_window": 4,
        "num_experts_per_tok": 2,
        "num_local_experts": 4,
    }))?;
    let device = vb.device().clone();
    let mut model = mixtral::Model::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn qwen3_moe(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: qwen3_moe::Config = config(json!({
        "head_dim": 16,
        "attention_bias": false,
        "max_window_layers": 2,
        "use_sliding_window": false,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 48,
        "num_experts_per_tok": 2,
        "num_experts": 4,
        "norm_topk_prob": true,
    }))?;
    let device = vb.device().clone();
    let mut model = qwen3_moe::ModelForCausalLM::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}

fn deepseek2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: deepseek2::DeepSeekV2Config = config(json!({
        "num_key_value_heads": null,
        "moe_intermediate_size": 48,
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "attention_bias": false,
        "q_lora_rank": 32,
        "qk_rope_head_dim": 8,
        "kv_lora_rank": 16,
        "v_head_dim": 16,
        "qk_nope_head_dim": 16,
        "n_group": 1,
        "topk_group": 1,
    }))?;
    let device = vb.device().clone();
    let mut model = deepseek2::DeepSeekV2::new(&config, vb)?;
    decode(&device, |ids, at| model.forward(ids, at))
}
