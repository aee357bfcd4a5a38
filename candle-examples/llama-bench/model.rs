//! The two LLaMA implementations of candle-transformers, with random weights, behind one signature.

use candle_core::{DType, Device};
use candle_examples::gguf::Forward;
use candle_examples::random::{self, Preset, Quant};
use candle_transformers::models::llama::{Cache, Llama};
use candle_transformers::models::quantized_llama::ModelWeights;

pub fn dense(preset: &Preset, dtype: DType, device: &Device) -> anyhow::Result<Forward> {
    let config = preset.config();
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

pub fn quantized(preset: &Preset, quant: &Quant, device: &Device) -> anyhow::Result<Forward> {
    let (content, mut file) = random::gguf(preset, quant)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}
