//! Stable Diffusion: the denoiser and the autoencoder.

use anyhow::Result;
use candle_core::Tensor;
use candle_nn::VarBuilder;
use candle_transformers::models::stable_diffusion::unet_2d::{
    BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig,
};
use candle_transformers::models::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};

use crate::model::{Model, FLOATS};
use crate::passes;
use crate::weights::input;

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "stable_diffusion_unet", dtypes: FLOATS, run: unet },
    Model { name: "stable_diffusion_vae",  dtypes: FLOATS, run: vae },
];

fn unet(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let block = |out_channels, use_cross_attn| BlockConfig {
        out_channels,
        use_cross_attn,
        attention_head_dim: 4,
    };
    let config = UNet2DConditionModelConfig {
        blocks: vec![block(32, Some(1)), block(64, None)],
        layers_per_block: 1,
        norm_num_groups: 8,
        cross_attention_dim: 48,
        ..Default::default()
    };
    let latents = input("latents", (2, 4, 16, 16), &vb)?;
    let text = input("text", (2, 7, 48), &vb)?;
    let model = UNet2DConditionModel::new(vb, 4, 4, false, config)?;
    let at = |step| model.forward(&latents, step, &text);
    // Sines of large time steps are inaccurate in f16.
    Ok(vec![at(1.)?, passes::once(&latents, || at(16.))?])
}

fn vae(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = AutoEncoderKLConfig {
        block_out_channels: vec![32, 64],
        layers_per_block: 1,
        latent_channels: 4,
        norm_num_groups: 8,
        use_quant_conv: true,
        use_post_quant_conv: true,
    };
    let image = input("image", (1, 3, 32, 32), &vb)?;
    let latents = input("latents", (1, 4, 16, 16), &vb)?;
    let model = AutoEncoderKL::new(vb, 3, 3, config)?;
    // The weights make the encoder's distribution so narrow that a sample equals its mean.
    let sample = model.encode(&image)?.sample()?;
    Ok(vec![
        sample,
        passes::once(&latents, || model.decode(&latents))?,
    ])
}
