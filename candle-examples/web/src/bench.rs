//! The measurements of llama-bench: prefill and decode with random weights.

use candle_core::{DType, Device, Tensor, D};
use candle_examples::gguf::Forward;
use candle_examples::needs::Needs;
use candle_examples::random::{self, llama, PRESETS, QUANTS};
use futures_util::future::join;
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
        let fits = |needs| check(needs, device);
        let model = match dtype {
            Some(dtype) => llama::dense(&preset, random::weights(dtype, device), fits)?,
            None => {
                let quant = QUANTS.iter().find(|q| q.name == weights);
                let quant = quant.ok_or_else(|| JsError::new(&format!("no weights {weights}")))?;
                llama::quantized(&preset, quant, device, fits)?
            }
        };
        Ok(Self {
            model,
            device: device.clone(),
            vocab: preset.config().vocab_size,
        })
    }

    /// The next token (1) after a forward pass over `ids`.
    fn next(&mut self, ids: &Tensor, position: usize) -> Result<Tensor> {
        Ok((self.model)(&ids.unsqueeze(0)?, position)?.argmax(D::Minus1)?)
    }
}

#[wasm_bindgen]
impl Bench {
    /// Runs the prefill of `prompt` tokens, or if `tokens` is not 0, the greedy loop over as many tokens after that prompt. Returns its
    /// time and that of its slowest step, in ms. The prompt of a decode is not timed. `ahead`: each pass takes its token on the device,
    /// and is recorded while the token's id is read back.
    pub async fn run(&mut self, prompt: usize, tokens: usize, ahead: bool) -> Result<Vec<f64>> {
        let device = self.device.clone();
        let mut ids = Tensor::new(random::ids(prompt, self.vocab), &device)?;
        let mut positions = 0..1;
        if tokens > 0 {
            ids = self.next(&ids, 0)?;
            positions = prompt..prompt + tokens;
        }
        device.synchronize_async().await?;
        let start = Instant::now();
        let (mut step, mut slowest) = (start, 0f64);
        let mut pass = positions.next().map(|at| self.next(&ids, at));
        while let Some(next) = pass.transpose()? {
            let mut following = |ids: &Tensor| positions.next().map(|at| self.next(ids, at));
            pass = match ahead {
                true => {
                    let following = async { following(&next) };
                    let (read, following) = join(next.to_vec1_async::<u32>(), following).await;
                    read?;
                    following
                }
                false => {
                    let read = next.to_vec1_async::<u32>().await?;
                    following(&Tensor::new(read, &device)?)
                }
            };
            slowest = slowest.max(step.elapsed().as_secs_f64() * 1e3);
            step = Instant::now();
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
