//! Language models with a state instead of a cache of keys and values.

use anyhow::Result;
use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{mamba, rwkv_v5};

use crate::model::{Model, F32};

#[rustfmt::skip]
pub const MODELS: &[Model] = &[
    Model { name: "mamba",   dtypes: F32, run: mamba },
    Model { name: "rwkv_v5", dtypes: F32, run: rwkv },
];

const IDS: [u32; 5] = [3, 14, 15, 9, 26];

fn mamba(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = mamba::Config {
        d_model: 64,
        n_layer: 2,
        vocab_size: 67,
        pad_vocab_size_multiple: 1,
    };
    let device = vb.device().clone();
    let mut state = mamba::State::new(1, &config, DType::F32, &device)?;
    let model = mamba::Model::new(&config, vb)?;
    let step = |id| Ok(model.forward(&Tensor::new(&[id], &device)?, &mut state)?);
    IDS.into_iter().map(step).collect()
}

fn rwkv(vb: VarBuilder<'static>) -> Result<Vec<Tensor>> {
    let config = rwkv_v5::Config {
        vocab_size: 67,
        hidden_size: 64,
        num_hidden_layers: 2,
        attention_hidden_size: 64,
        // The size of a head, in spite of its name.
        num_attention_heads: 16,
        head_size: 16,
        intermediate_size: Some(96),
        layer_norm_epsilon: 1e-5,
        rescale_every: 6,
    };
    let device = vb.device().clone();
    let mut state = rwkv_v5::State::new(1, &config, &device)?;
    let model = rwkv_v5::Model::new(&config, vb)?;
    let step = |id| Ok(model.forward(&Tensor::new(&[[id]], &device)?, &mut state)?);
    IDS.into_iter().map(step).collect()
}
