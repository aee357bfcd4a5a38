//! The LLaMA implementations of candle-transformers with random weights. Each function checks first that the model fits on the device with
//! a KV cache of `tokens` tokens.

use super::{gguf, weights, Preset, Quant};
use crate::checkpoint;
use crate::error::Result;
use crate::gguf::{needs, Forward};
use candle_core::{DType, Device};
use candle_transformers::models::llama::{Cache, Llama};
use candle_transformers::models::quantized_llama::ModelWeights;

/// `models::llama`, which starts anew at position 0.
pub fn dense(preset: &Preset, dtype: DType, tokens: usize, device: &Device) -> Result<Forward> {
    let config = preset.config();
    checkpoint::needs(&config, dtype).check(preset.name, tokens, device)?;
    let model = Llama::load(weights(dtype, device), &config)?;
    let empty = Cache::new(true, dtype, &config, device)?;
    let mut cache = empty.clone();
    Ok(Box::new(move |ids, at| {
        if at == 0 {
            cache = empty.clone();
        }
        model.forward(ids, at, &mut cache)
    }))
}

/// `models::quantized_llama`.
pub fn quantized(
    preset: &Preset,
    quant: &Quant,
    tokens: usize,
    device: &Device,
) -> Result<Forward> {
    let (content, mut file) = gguf(preset, quant)?;
    needs(&content).check(preset.name, tokens, device)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}
