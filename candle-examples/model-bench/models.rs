//! Models of candle-transformers at the sizes of published checkpoints.

use crate::training;
use anyhow::Result;
use candle_core::{DType, Device, Tensor, D};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::stable_diffusion::unet_2d::{
    UNet2DConditionModel, UNet2DConditionModelConfig,
};
use candle_transformers::models::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};
use candle_transformers::models::whisper::model::Whisper;
use candle_transformers::models::{
    bert, clip, gemma3, phi3, qwen2, qwen3, qwen3_moe, vit, whisper,
};
use serde_json::json;

/// One forward pass, or one step of training. A decoding model continues its text by a token per pass.
pub type Pass = Box<dyn FnMut() -> Result<Tensor>>;

/// A model and the input of its pass.
pub struct Model {
    pub name: &'static str,
    /// What a pass computes.
    pub pass: &'static str,
    /// The dtype of weights and activations that it is usually run in. Whisper supports no other one.
    pub dtype: DType,
    pub load: fn(VarBuilder<'static>) -> Result<Pass>,
}

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "all-minilm-l6",            dtype: DType::F32, pass: "a text of 128 tokens",              load: minilm },
    Model { name: "bert-base",                dtype: DType::F32, pass: "32 texts of 128 tokens",            load: bert_base },
    Model { name: "clip-vit-base-patch32",    dtype: DType::F16, pass: "32 images and 32 texts",            load: clip_base },
    Model { name: "gemma-3-1b",               dtype: DType::F16, pass: "a token after 128",                 load: gemma3_1b },
    Model { name: "phi-3-mini",               dtype: DType::F16, pass: "a token after 128",                 load: phi3_mini },
    Model { name: "qwen2.5-1.5b",             dtype: DType::F16, pass: "a token after 128",                 load: qwen2_1b5 },
    Model { name: "qwen3-1.7b",               dtype: DType::F16, pass: "a token after 128",                 load: qwen3_1b7 },
    Model { name: "qwen3-8b",                 dtype: DType::F16, pass: "a token after 128",                 load: qwen3_8b },
    Model { name: "qwen3-30b-a3b",            dtype: DType::F16, pass: "a token after 128, 12 of 48 layers", load: qwen3_30b_a3b },
    Model { name: "sd-1.5-unet",              dtype: DType::F16, pass: "a guided step at 64 x 64 latents",  load: sd15_unet },
    Model { name: "sd-1.5-vae",               dtype: DType::F16, pass: "decodes an image of 512 x 512",     load: sd15_vae },
    Model { name: "train-llama",              dtype: DType::F32, pass: "a step of 8 x 64 letters",          load: training::llama },
    Model { name: "train-llama-26m",          dtype: DType::F32, pass: "a step of 8 x 256 letters",         load: training::llama_26m },
    Model { name: "train-resnet-20",          dtype: DType::F32, pass: "a step of 128 images of 32 x 32",   load: training::resnet20 },
    Model { name: "vit-large-patch16",        dtype: DType::F16, pass: "an image of 224 x 224",             load: vit_large },
    Model { name: "whisper-large-v3-encoder", dtype: DType::F32, pass: "30 s of speech",                    load: whisper_encoder },
    Model { name: "whisper-large-v3-decoder", dtype: DType::F32, pass: "128 tokens of 30 s of speech",      load: whisper_decoder },
];

/// Tokens before the first decoded one.
const PROMPT: usize = 128;

/// The most tokens of a decoding model.
const CONTEXT: usize = 4096;

fn randn(shape: &[usize], vb: &VarBuilder) -> Result<Tensor> {
    Ok(Tensor::randn(0f32, 1., shape, vb.device())?.to_dtype(vb.dtype())?)
}

/// Token ids (rows, tokens), below every model's vocabulary.
pub fn ids(rows: usize, tokens: usize, device: &Device) -> Result<Tensor> {
    let ids = Tensor::arange(0, (rows * tokens) as u32, device)?;
    let ids = (ids.to_dtype(DType::F32)? / 1e3)?.to_dtype(DType::U32)?;
    Ok(ids.reshape((rows, tokens))?)
}

/// Greedy decoding: the pass ends when the next id is on the host.
fn decoder(
    device: &Device,
    mut forward: impl FnMut(&Tensor, usize) -> candle_core::Result<Tensor> + 'static,
) -> Result<Pass> {
    let mut next = forward(&ids(1, PROMPT, device)?, 0)?;
    let (mut position, device) = (PROMPT, device.clone());
    Ok(Box::new(move || {
        let id = next.flatten_all()?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        next = forward(&Tensor::new(&[[id]], &device)?, position)?;
        position += 1;
        Ok(next.clone())
    }))
}

fn bert(vb: VarBuilder<'static>, config: &bert::Config, texts: usize) -> Result<Pass> {
    let ids = ids(texts, 128, vb.device())?;
    let types = ids.zeros_like()?;
    let model = bert::BertModel::load(vb, config)?;
    Ok(Box::new(move || Ok(model.forward(&ids, &types, None)?)))
}

fn bert_base(vb: VarBuilder<'static>) -> Result<Pass> {
    bert(vb, &bert::Config::default(), 32)
}

fn minilm(vb: VarBuilder<'static>) -> Result<Pass> {
    let config = bert::Config {
        hidden_size: 384,
        num_hidden_layers: 6,
        intermediate_size: 1536,
        ..Default::default()
    };
    bert(vb, &config, 1)
}

fn clip_base(vb: VarBuilder<'static>) -> Result<Pass> {
    let images = randn(&[32, 3, 224, 224], &vb)?;
    let texts = ids(32, 77, vb.device())?;
    let model = clip::ClipModel::new(vb, &clip::ClipConfig::vit_base_patch32())?;
    Ok(Box::new(move || Ok(model.forward(&images, &texts)?.0)))
}

fn gemma3_1b(vb: VarBuilder<'static>) -> Result<Pass> {
    let config: gemma3::Config = serde_json::from_value(json!({
        "attention_bias": false, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
        "intermediate_size": 6912, "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "vocab_size": 262144,
        "query_pre_attn_scalar": 256, "sliding_window": 512, "sliding_window_pattern": 6,
        "max_position_embeddings": CONTEXT,
    }))?;
    let device = vb.device().clone();
    let mut model = gemma3::Model::new(false, &config, vb)?;
    decoder(&device, move |ids, at| model.forward(ids, at))
}

fn phi3_mini(vb: VarBuilder<'static>) -> Result<Pass> {
    let config: phi3::Config = serde_json::from_value(json!({
        "vocab_size": 32064, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "rms_norm_eps": 1e-5,
        "rope_theta": 1e4, "max_position_embeddings": CONTEXT, "original_max_position_embeddings": CONTEXT,
    }))?;
    let device = vb.device().clone();
    let mut model = phi3::Model::new(&config, vb)?;
    decoder(&device, move |ids, at| model.forward(ids, at))
}

fn qwen2_1b5(vb: VarBuilder<'static>) -> Result<Pass> {
    let config: qwen2::Config = serde_json::from_value(json!({
        "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
        "sliding_window": CONTEXT, "max_window_layers": 28, "tie_word_embeddings": true, "rope_theta": 1e6,
        "rms_norm_eps": 1e-6, "use_sliding_window": false, "hidden_act": "silu",
    }))?;
    let device = vb.device().clone();
    let mut model = qwen2::ModelForCausalLM::new(&config, vb)?;
    decoder(&device, move |ids, at| model.forward(ids, at))
}

fn qwen3_config(layers: usize, hidden: usize, intermediate: usize, heads: usize) -> qwen3::Config {
    qwen3::Config {
        vocab_size: 151936,
        hidden_size: hidden,
        intermediate_size: intermediate,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        head_dim: 128,
        attention_bias: false,
        num_key_value_heads: 8,
        max_position_embeddings: CONTEXT,
        sliding_window: None,
        max_window_layers: layers,
        tie_word_embeddings: false,
        rope_theta: 1e6,
        rms_norm_eps: 1e-6,
        use_sliding_window: false,
        hidden_act: Activation::Silu,
    }
}

fn qwen3(vb: VarBuilder<'static>, config: &qwen3::Config) -> Result<Pass> {
    let device = vb.device().clone();
    let mut model = qwen3::ModelForCausalLM::new(config, vb)?;
    decoder(&device, move |ids, at| model.forward(ids, at))
}

fn qwen3_1b7(vb: VarBuilder<'static>) -> Result<Pass> {
    let config = qwen3::Config {
        tie_word_embeddings: true,
        ..qwen3_config(28, 2048, 6144, 16)
    };
    qwen3(vb, &config)
}

fn qwen3_8b(vb: VarBuilder<'static>) -> Result<Pass> {
    qwen3(vb, &qwen3_config(36, 4096, 12288, 32))
}

fn qwen3_30b_a3b(vb: VarBuilder<'static>) -> Result<Pass> {
    let config: qwen3_moe::Config = serde_json::from_value(json!({
        "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 12,
        "num_attention_heads": 32, "head_dim": 128, "attention_bias": false, "num_key_value_heads": 4,
        "max_position_embeddings": CONTEXT, "sliding_window": null, "max_window_layers": 12, "tie_word_embeddings": false,
        "rope_theta": 1e6, "rms_norm_eps": 1e-6, "use_sliding_window": false, "hidden_act": "silu",
        "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128,
        "norm_topk_prob": true,
    }))?;
    let device = vb.device().clone();
    let mut model = qwen3_moe::ModelForCausalLM::new(&config, vb)?;
    decoder(&device, move |ids, at| model.forward(ids, at))
}

fn sd15_unet(vb: VarBuilder<'static>) -> Result<Pass> {
    // With and without the text, as classifier-free guidance needs.
    let latents = randn(&[2, 4, 64, 64], &vb)?;
    let text = randn(&[2, 77, 768], &vb)?;
    let config = UNet2DConditionModelConfig {
        cross_attention_dim: 768,
        ..Default::default()
    };
    let model = UNet2DConditionModel::new(vb, 4, 4, false, config)?;
    Ok(Box::new(move || Ok(model.forward(&latents, 500., &text)?)))
}

fn sd15_vae(vb: VarBuilder<'static>) -> Result<Pass> {
    let config = AutoEncoderKLConfig {
        block_out_channels: vec![128, 256, 512, 512],
        layers_per_block: 2,
        ..Default::default()
    };
    let latents = randn(&[1, 4, 64, 64], &vb)?;
    let model = AutoEncoderKL::new(vb, 3, 3, config)?;
    Ok(Box::new(move || Ok(model.decode(&latents)?)))
}

fn vit_large(vb: VarBuilder<'static>) -> Result<Pass> {
    let config = vit::Config {
        hidden_size: 1024,
        num_hidden_layers: 24,
        num_attention_heads: 16,
        intermediate_size: 4096,
        ..vit::Config::vit_base_patch16_224()
    };
    let image = randn(&[1, 3, 224, 224], &vb)?;
    let model = vit::Model::new(&config, 1000, vb)?;
    Ok(Box::new(move || Ok(model.forward(&image)?)))
}

fn whisper_large(vb: &VarBuilder<'static>) -> Result<Whisper> {
    let config: whisper::Config = serde_json::from_value(json!({
        "num_mel_bins": 128, "max_source_positions": 1500, "d_model": 1280, "encoder_attention_heads": 20,
        "encoder_layers": 32, "vocab_size": 51866, "max_target_positions": 448, "decoder_attention_heads": 20,
        "decoder_layers": 32,
    }))?;
    Ok(Whisper::load(vb, config)?)
}

fn whisper_encoder(vb: VarBuilder<'static>) -> Result<Pass> {
    let mel = randn(&[1, 128, 3000], &vb)?;
    let mut model = whisper_large(&vb)?;
    Ok(Box::new(move || Ok(model.encoder.forward(&mel, true)?)))
}

fn whisper_decoder(vb: VarBuilder<'static>) -> Result<Pass> {
    let heard = randn(&[1, 1500, 1280], &vb)?;
    let mut model = whisper_large(&vb)?;
    // models::whisper caches no keys of the text, so each pass reads the whole text.
    let text = ids(1, PROMPT, vb.device())?;
    let mut first = true;
    Ok(Box::new(move || {
        let states = model.decoder.forward(&text, &heard, first)?;
        first = false;
        let last = states.narrow(1, PROMPT - 1, 1)?;
        let logits = model.decoder.final_linear(&last)?;
        let id = logits.flatten_all()?.argmax(D::Minus1)?;
        id.to_scalar::<u32>()?;
        Ok(id)
    }))
}
