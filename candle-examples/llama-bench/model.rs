//! The LLaMA implementations of candle-transformers with random weights, and any model of a GGUF file, behind one signature.

use candle_core::{DType, Device};
use candle_examples::checkpoint;
use candle_examples::gguf::{needs, Forward, Gguf};
use candle_examples::random::{self, Preset, Quant};
use candle_transformers::models::llama::{Cache, Llama};
use candle_transformers::models::quantized_llama::ModelWeights;

/// Each function checks first that the model fits on the device with a KV cache of `tokens` tokens.
pub fn dense(
    preset: &Preset,
    dtype: DType,
    tokens: usize,
    device: &Device,
) -> anyhow::Result<Forward> {
    let config = preset.config();
    checkpoint::needs(&config, dtype).check(preset.name, tokens, device)?;
    let model = Llama::load(random::weights(dtype, device), &config)?;
    let empty = Cache::new(true, dtype, &config, device)?;
    let mut cache = empty.clone();
    Ok(Box::new(move |ids, at| {
        if at == 0 {
            cache = empty.clone();
        }
        model.forward(ids, at, &mut cache)
    }))
}

pub fn quantized(
    preset: &Preset,
    quant: &Quant,
    tokens: usize,
    device: &Device,
) -> anyhow::Result<Forward> {
    let (content, mut file) = random::gguf(preset, quant)?;
    needs(&content).check(preset.name, tokens, device)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}

pub fn file(file: Gguf, tokens: usize, device: &Device) -> anyhow::Result<Forward> {
    file.needs().check(file.path.display(), tokens, device)?;
    Ok(file.forward(device)?)
}
