//! The same weights in f32 on the CPU, to compare logits with.

use crate::measure::{Bench, Pass};
use anyhow::Context as _;
use candle_core::{DType, Device, Tensor};
use candle_examples::gguf::Forward;
use candle_examples::random::ids;
use std::sync::mpsc::{channel, Receiver, Sender};

/// Candle's variable that dequantizes all matrices when a model is loaded. Its CPU backend rounds activations to 8 bits otherwise.
const DEQUANTIZE: &str = "CANDLE_DEQUANTIZE_ALL";

/// Ids of one sequence, and the position of the first.
type Input = (Vec<u32>, usize);

/// A model on the CPU, on a thread of its own, since Candle reads [`DEQUANTIZE`] once a thread.
pub struct Reference {
    inputs: Sender<Input>,
    logits: Receiver<anyhow::Result<Vec<f32>>>,
}

/// How far logits are off, relative to the root mean square of the reference.
pub struct Difference {
    pub most: f32,
    /// Root mean square.
    pub rms: f32,
    /// Whether the likeliest token is the same for each sequence.
    pub same: bool,
}

impl Reference {
    /// `load` is called with the first input.
    pub fn new(load: impl FnOnce() -> anyhow::Result<Forward> + Send + 'static) -> Self {
        let ((inputs, asked), (answers, logits)) = (channel::<Input>(), channel());
        std::thread::spawn(move || {
            let mut load = Some(load);
            let mut model = None;
            for (ids, at) in asked {
                let answer = || {
                    if let Some(load) = load.take() {
                        std::env::set_var(DEQUANTIZE, "1");
                        model = Some(load()?);
                    }
                    let model = model.as_mut().context("the model was not loaded")?;
                    let logits = model(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, at)?;
                    Ok(logits.flatten_all()?.to_vec1()?)
                };
                if answers.send(answer()).is_err() {
                    return;
                }
            }
        });
        Reference { inputs, logits }
    }

    fn ask(&self, ids: Vec<u32>, at: usize) -> anyhow::Result<Vec<f32>> {
        const STOPPED: &str = "the reference model stopped";
        self.inputs.send((ids, at)).context(STOPPED)?;
        self.logits.recv().context(STOPPED)?
    }

    /// Compares the logits of a pass, or of its first decoded token. All sequences of a pass have the same ids.
    pub fn compare(&self, bench: &mut Bench, pass: Pass) -> anyhow::Result<Difference> {
        let next = bench.ready(pass)?;
        let at = if pass.tokens > 0 { pass.prompt } else { 0 };
        let got = bench.logits(&next, pass.batch, at)?;
        let mut right = self.ask(ids(pass.prompt, bench.vocab), 0)?;
        if pass.tokens > 0 {
            let one = next.first().context("no sequence")?;
            right = self.ask(vec![*one], at)?;
        }
        let got: Vec<Vec<f32>> = got.to_dtype(DType::F32)?.to_vec2()?;
        let mut difference = Difference {
            most: 0.,
            rms: 0.,
            same: true,
        };
        let mean = |squares: f32| (squares / right.len() as f32).sqrt();
        let size = mean(right.iter().map(|x| x * x).sum());
        for row in &got {
            let distance = |(x, y): (&f32, &f32)| match (x - y).abs() {
                d if d.is_nan() => f32::INFINITY,
                d => d,
            };
            let off: Vec<f32> = row.iter().zip(&right).map(distance).collect();
            let most = off.iter().copied().fold(0., f32::max);
            difference.most = difference.most.max(most / size);
            let rms = mean(off.iter().map(|d| d * d).sum());
            difference.rms = difference.rms.max(rms / size);
            difference.same &= likeliest(row) == likeliest(&right);
        }
        Ok(difference)
    }
}

/// The index of the greatest logit.
fn likeliest(logits: &[f32]) -> Option<usize> {
    let all = logits.iter().enumerate();
    all.max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i)
}
