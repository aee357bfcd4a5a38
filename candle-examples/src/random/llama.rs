//! The LLaMA implementations of candle-transformers with random weights. `check` gets what a model needs before its weights are made.

use super::{gguf, Preset, Quant};
use crate::checkpoint;
use crate::error::Error;
use crate::gguf::{needs, Forward};
use crate::needs::Needs;
use candle_core::Device;
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama};
use candle_transformers::models::quantized_llama::ModelWeights;

/// `models::llama`, which starts anew at position 0.
pub fn dense<E: From<Error> + From<candle_core::Error>>(
    preset: &Preset,
    weights: VarBuilder<'_>,
    check: impl FnOnce(Needs) -> Result<(), E>,
) -> Result<Forward, E> {
    let config = preset.config();
    let (dtype, device) = (weights.dtype(), weights.device().clone());
    check(checkpoint::needs(&config, dtype))?;
    let model = Llama::load(weights, &config)?;
    let empty = Cache::new(true, dtype, &config, &device)?;
    let mut cache = empty.clone();
    Ok(Box::new(move |ids, at| {
        if at == 0 {
            cache = empty.clone();
        }
        model.forward(ids, at, &mut cache)
    }))
}

/// `models::quantized_llama`.
pub fn quantized<E: From<Error> + From<candle_core::Error>>(
    preset: &Preset,
    quant: &Quant,
    device: &Device,
    check: impl FnOnce(Needs) -> Result<(), E>,
) -> Result<Forward, E> {
    let (content, mut file) = gguf(preset, quant)?;
    check(needs(&content))?;
    let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}
