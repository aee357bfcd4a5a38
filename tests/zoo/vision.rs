//! Image encoders and classifiers, and CLIP, which contains one.

use anyhow::Result;
use candle_core::{DType, Module, ModuleT, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::clip::text_model::{Activation as ClipActivation, ClipTextConfig};
use candle_transformers::models::clip::vision_model::ClipVisionConfig;
use candle_transformers::models::clip::{ClipConfig, ClipModel};
use candle_transformers::models::segment_anything::tiny_vit::TinyViT;
use candle_transformers::models::{convnext, dinov2, efficientnet, resnet, segformer, siglip, vit};
use serde_json::json;

use crate::model::{Model, FLOATS};
use crate::passes;
use crate::weights::input;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "clip",         dtypes: FLOATS, run: clip },
    Model { name: "vit",          dtypes: FLOATS, run: vit },
    Model { name: "convnext",     dtypes: FLOATS, run: convnext },
    Model { name: "resnet",       dtypes: FLOATS, run: resnet },
    Model { name: "efficientnet", dtypes: FLOATS, run: efficientnet },
    Model { name: "siglip",       dtypes: FLOATS, run: siglip },
    Model { name: "dinov2",       dtypes: FLOATS, run: dinov2 },
    Model { name: "segformer",    dtypes: FLOATS, run: segformer },
    Model { name: "tiny_vit",     dtypes: FLOATS, run: tiny_vit },
];

fn clip(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = ClipConfig {
        text_config: ClipTextConfig {
            vocab_size: 67,
            embed_dim: 64,
            activation: ClipActivation::QuickGelu,
            intermediate_size: 96,
            max_position_embeddings: 16,
            pad_with: None,
            num_hidden_layers: passes::layers(),
            num_attention_heads: 4,
            projection_dim: 32,
        },
        vision_config: ClipVisionConfig {
            embed_dim: 64,
            activation: ClipActivation::QuickGelu,
            intermediate_size: 96,
            num_hidden_layers: passes::layers(),
            num_attention_heads: 4,
            projection_dim: 32,
            num_channels: 3,
            image_size: 32,
            patch_size: 8,
        },
        logit_scale_init_value: 2.6592,
        image_size: 32,
    };
    let images = input("images", (2, 3, 32, 32), &vb)?;
    // The end-of-text token is the largest id.
    let ids = Tensor::new(&[[1u32, 20, 41, 66], [1, 9, 66, 0]], vb.device())?;
    let model = ClipModel::new(vb, &config)?;
    let (per_text, per_image) = passes::once(&images, || model.forward(&images, &ids))?;
    let features = model.get_image_features(&images)?;
    Ok(vec![
        model.get_text_features(&ids)?,
        features,
        per_text,
        per_image,
    ])
}

fn vit(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = vit::Config {
        hidden_size: 64,
        num_hidden_layers: passes::layers(),
        num_attention_heads: 4,
        intermediate_size: 96,
        hidden_act: Activation::Gelu,
        layer_norm_eps: 1e-12,
        image_size: 32,
        patch_size: 8,
        num_channels: 3,
        qkv_bias: true,
    };
    let images = input("images", (2, 3, 32, 32), &vb)?;
    let model = vit::Model::new(&config, 10, vb)?;
    Ok(vec![passes::once(&images, || model.forward(&images))?])
}

/// The smallest configuration of this code, as in the next two.
fn convnext(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let images = input("images", (1, 3, 64, 64), &vb)?;
    let model = convnext::convnext(&convnext::Config::atto(), 10, vb)?;
    Ok(vec![passes::once(&images, || model.forward(&images))?])
}

fn resnet(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let images = input("images", (1, 3, 64, 64), &vb)?;
    let model = resnet::resnet18(10, vb)?;
    Ok(vec![model.forward_t(&images, false)?])
}

fn efficientnet(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let images = input("images", (1, 3, 64, 64), &vb)?;
    let configs = efficientnet::MBConvConfig::b0();
    let model = efficientnet::EfficientNet::new(vb, configs, 10)?;
    Ok(vec![model.forward(&images)?])
}

/// The image encoder of MobileSAM; its code only supports images of 1024 x 1024 and 320 channels in the last stage.
fn tiny_vit(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let images = input("images", (1, 3, 1024, 1024), &vb)?;
    let (dims, heads) = ([16, 16, 16, 320], [2, 2, 2, 10]);
    let model = TinyViT::new(&dims, &[1, 1, 1, 1], &heads, &[7, 7, 14, 7], 10, vb)?;
    let features = passes::once(&images, || model.forward(&images))?;
    Ok(vec![features.to_dtype(DType::F32)?])
}

fn siglip(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: siglip::Config = serde_json::from_value(json!({
        "text_config": {
            "vocab_size": 67,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": passes::layers(),
            "num_attention_heads": 4,
            "max_position_embeddings": 16,
        },
        "vision_config": {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": passes::layers(),
            "num_attention_heads": 4,
            "image_size": 32,
            "patch_size": 8,
        },
    }))?;
    let images = input("images", (2, 3, 32, 32), &vb)?;
    let ids = Tensor::new(&[[1u32, 20, 41, 66], [1, 9, 66, 0]], vb.device())?;
    let model = siglip::Model::new(&config, vb)?;
    let (per_text, per_image) = model.forward(&images, &ids)?;
    Ok(vec![per_text, per_image, model.get_text_features(&ids)?])
}

/// Its code only supports images of 518 x 518, or 37 x 37 patches.
fn dinov2(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let images = input("images", (1, 3, 518, 518), &vb)?;
    let model = dinov2::DinoVisionTransformer::new(vb, passes::layers(), 64, 4)?;
    Ok(vec![passes::once(&images, || model.forward(&images))?])
}

fn segformer(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config: segformer::Config = serde_json::from_value(json!({
        "num_channels": 3,
        "num_encoder_blocks": 2,
        "depths": [1, 1],
        "sr_ratios": [4, 1],
        "hidden_sizes": [16, 32],
        "patch_sizes": [7, 3],
        "strides": [4, 2],
        "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 2],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-6,
        "decoder_hidden_size": 48,
    }))?;
    let images = input("images", (1, 3, 64, 64), &vb)?;
    let model = segformer::SemanticSegmentationModel::new(&config, 5, vb)?;
    Ok(vec![model.forward(&images)?])
}
