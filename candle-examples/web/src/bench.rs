//! The measurements of llama-bench: prefill and decode with random weights.

use candle_core::{DType, Device, Tensor, D};
use candle_examples::checkpoint;
use candle_examples::gguf::{needs, Forward};
use candle_examples::needs::Needs;
use candle_examples::random::{self, Preset, PRESETS, QUANTS};
use candle_transformers::models::llama::{Cache, Llama};
use candle_transformers::models::quantized_llama::ModelWeights;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsError;
use web_time::Instant;

type Result<T> = std::result::Result<T, JsError>;

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A model with random weights.
#[wasm_bindgen]
pub struct Bench {
    model: Forward,
    device: Device,
    vocab: usize,
}

/// The names of the shapes.
#[wasm_bindgen]
pub fn bench_shapes() -> Vec<String> {
    PRESETS.iter().map(|p| p.name.to_string()).collect()
}

/// The dtypes and quantized formats of the weights.
#[wasm_bindgen]
pub fn bench_weights() -> Vec<String> {
    let dtypes = DTYPES.iter().map(|dtype| dtype.as_str());
    let quants = QUANTS.iter().map(|quant| quant.name);
    dtypes.chain(quants).map(str::to_string).collect()
}

impl Bench {
    pub fn new(shape: &str, weights: &str, tokens: usize, device: &Device) -> Result<Self> {
        let preset = PRESETS.iter().find(|p| p.name == shape);
        let preset = preset.ok_or_else(|| JsError::new(&format!("no shape {shape}")))?;
        let preset = preset.with_room(tokens);
        let dtype = DTYPES.into_iter().find(|dtype| dtype.as_str() == weights);
        let model = match dtype {
            Some(dtype) => dense(&preset, dtype, device)?,
            None => quantized(&preset, weights, device)?,
        };
        Ok(Self {
            model,
            device: device.clone(),
            vocab: preset.config().vocab_size,
        })
    }

    /// The next tokens after a forward pass over `ids`.
    async fn step(&mut self, ids: &[u32], position: usize) -> Result<Vec<u32>> {
        let input = Tensor::new(ids, &self.device)?.unsqueeze(0)?;
        let logits = (self.model)(&input, position)?;
        Ok(logits.argmax(D::Minus1)?.to_vec1_async().await?)
    }
}

#[wasm_bindgen]
impl Bench {
    /// Runs the prefill of `prompt` tokens, or if `tokens` is not 0, the greedy loop over as many tokens after that prompt. Returns its
    /// time and that of its slowest step, in ms. The prompt of a decode is not timed.
    pub async fn run(&mut self, prompt: usize, tokens: usize) -> Result<Vec<f64>> {
        let ids = (0..prompt).map(|i| (i * 7919 % self.vocab) as u32);
        let mut ids: Vec<u32> = ids.collect();
        let mut positions = 0..1;
        if tokens > 0 {
            ids = self.step(&ids, 0).await?;
            positions = prompt..prompt + tokens;
        }
        self.device.synchronize_async().await?;
        let start = Instant::now();
        let mut slowest = 0f64;
        for position in positions {
            let step = Instant::now();
            ids = self.step(&ids, position).await?;
            slowest = slowest.max(step.elapsed().as_secs_f64() * 1e3);
        }
        Ok(vec![start.elapsed().as_secs_f64() * 1e3, slowest])
    }
}

/// An error if a tensor is larger than the device's largest buffer.
fn check(needs: Needs, device: &Device) -> Result<()> {
    let Ok(device) = device.as_webgpu_device() else {
        return Ok(());
    };
    let most = device.adapter().max_buffer_size;
    if needs.largest <= most {
        return Ok(());
    }
    let message = format!(
        "the largest tensor has {} bytes, a buffer of this device at most {most}",
        needs.largest
    );
    Err(JsError::new(&message))
}

fn dense(preset: &Preset, dtype: DType, device: &Device) -> Result<Forward> {
    let config = preset.config();
    check(checkpoint::needs(&config, dtype), device)?;
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

fn quantized(preset: &Preset, quant: &str, device: &Device) -> Result<Forward> {
    let found = QUANTS.iter().find(|q| q.name == quant);
    let quant = found.ok_or_else(|| JsError::new(&format!("no weights {quant}")))?;
    let (content, mut file) = random::gguf(preset, quant)?;
    check(needs(&content), device)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}
