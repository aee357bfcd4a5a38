//! The loop that makes text: one pass over the prompt, then token by token.

use crate::error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use crate::model::Loaded;
use crate::tokenizer::{Stream, Tokenizer};
use candle_core::{DType, Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::utils::apply_repeat_penalty;
use std::ops::ControlFlow;
use std::time::Duration;
use web_time::Instant;

pub struct Options {
    /// The most tokens to generate; the context may end it sooner.
    pub tokens: usize,
    pub sampling: Sampling,
    pub seed: u64,
    /// Above 1, what was said lately becomes less likely.
    pub repeat_penalty: f32,
    /// How many of the latest tokens the penalty looks at.
    pub repeat_last: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model ended its text.
    End,
    /// As many tokens as asked for.
    Tokens,
    /// The model's context is full.
    Context,
    /// Whom it was shown to broke it off.
    Interrupted,
}

pub struct Output {
    pub prompt: Vec<u32>,
    /// The generated ids, without the one that ended the text.
    pub ids: Vec<u32>,
    pub text: String,
    pub stop: Stop,
    /// How many ids went through the model before the first token: the prompt's, and what was not in the cache.
    pub prefilled: usize,
    /// From the start of the prompt's pass to the first token's id.
    pub first_token: Duration,
    /// The passes after the prompt's and the time they took.
    pub steps: usize,
    pub decode: Duration,
}

impl Output {
    pub fn prompt_rate(&self) -> f64 {
        self.prefilled as f64 / self.first_token.as_secs_f64()
    }

    /// `None` where the prompt's pass was the only one.
    pub fn decode_rate(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.steps as f64 / self.decode.as_secs_f64())
    }
}

/// How to choose a token, from the options of a command line. Temperature 0 is greedy.
pub fn sampling(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> Sampling {
    if temperature <= 0. {
        return Sampling::ArgMax;
    }
    match (top_k, top_p) {
        (None, None) => Sampling::All { temperature },
        (Some(k), None) => Sampling::TopK { k, temperature },
        (None, Some(p)) => Sampling::TopP { p, temperature },
        (Some(k), Some(p)) => Sampling::TopKThenTopP { k, p, temperature },
    }
}

/// Continues `prompt`, handing each piece of text to `show` as soon as it is whole.
#[cfg(not(target_arch = "wasm32"))]
pub fn generate(
    loaded: &mut Loaded,
    prompt: &str,
    options: &Options,
    device: &Device,
    mut show: impl FnMut(&str),
) -> Result<Output> {
    let prompt = loaded.tokenizer.encode(prompt)?;
    let mut writer = Writer {
        model: &mut loaded.model,
        tokenizer: &loaded.tokenizer,
        ends: &loaded.ends,
        context: loaded.context,
        device,
    };
    let (mut sequence, mut chooser) = (Sequence::default(), Chooser::new(options));
    writer.extend(&mut sequence, prompt, &mut chooser, |piece| {
        show(piece);
        ControlFlow::Continue(())
    })
}

/// A model that continues ids, with a key-value cache of its own.
pub trait Causal {
    /// The logits (vocab) behind the last of `ids`, the first of which stands at `position`: the cache holds as many
    /// ids already.
    fn forward(&mut self, ids: &[u32], position: usize, device: &Device) -> Result<Tensor>;
}

/// The ids of a text, the first `cached` of which are in the model's key-value cache.
#[derive(Default)]
pub struct Sequence {
    pub ids: Vec<u32>,
    pub cached: usize,
}

/// What it takes to continue a text.
pub struct Writer<'a> {
    pub model: &'a mut dyn Causal,
    pub tokenizer: &'a Tokenizer,
    pub ends: &'a [u32],
    pub context: usize,
    pub device: &'a Device,
}

impl Writer<'_> {
    /// Appends `prompt` to the text, and then what the model says, until `show`, which gets each piece, breaks it off.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn extend(
        &mut self,
        sequence: &mut Sequence,
        prompt: Vec<u32>,
        chooser: &mut Chooser,
        mut show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Output> {
        let show = async |piece: &str| show(piece);
        pollster::block_on(self.extend_async(sequence, prompt, chooser, show))
    }

    /// The same without blocking, with a `show` that may take its time.
    pub async fn extend_async(
        &mut self,
        sequence: &mut Sequence,
        prompt: Vec<u32>,
        chooser: &mut Chooser,
        mut show: impl AsyncFnMut(&str) -> ControlFlow<()>,
    ) -> Result<Output> {
        if prompt.is_empty() {
            return Err(Error::PromptEmpty);
        }
        let begin = sequence.ids.len() + prompt.len();
        if begin > self.context {
            return Err(Error::PromptTooLong {
                tokens: begin,
                context: self.context,
            });
        }
        sequence.ids.extend_from_slice(&prompt);
        let mut stream = Stream::new(self.tokenizer, &sequence.ids);
        let mut text = String::new();

        let start = Instant::now();
        let prefilled = begin - sequence.cached;
        let mut next = self.next(sequence, chooser).await?;
        let first_token = start.elapsed();

        let start = Instant::now();
        let mut steps = 0;
        let stop = loop {
            if self.ends.contains(&next) {
                break Stop::End;
            }
            if sequence.ids.len() - begin == chooser.tokens {
                break Stop::Tokens;
            }
            sequence.ids.push(next);
            let piece = stream.push(next)?;
            text.push_str(&piece);
            if show(&piece).await.is_break() {
                break Stop::Interrupted;
            }
            if sequence.ids.len() - begin == chooser.tokens {
                break Stop::Tokens;
            }
            if sequence.ids.len() > self.context {
                break Stop::Context;
            }
            next = self.next(sequence, chooser).await?;
            steps += 1;
        };
        let decode = start.elapsed();

        let rest = stream.finish()?;
        let _ = show(&rest).await;
        text.push_str(&rest);
        Ok(Output {
            ids: sequence.ids[begin..].to_vec(),
            prompt,
            text,
            stop,
            prefilled,
            first_token,
            steps,
            decode,
        })
    }

    /// Passes on what the cache does not hold yet, and chooses the id behind it.
    async fn next(&mut self, sequence: &mut Sequence, chooser: &mut Chooser) -> Result<u32> {
        let Sequence { ids, cached } = sequence;
        let logits = self.model.forward(&ids[*cached..], *cached, self.device)?;
        *cached = ids.len();
        chooser.choose(&logits, ids).await
    }
}

/// Reading back by a call that blocks is faster where it may: it polls before it sleeps.
const BLOCKS: bool = cfg!(not(target_arch = "wasm32"));

/// Chooses tokens; its random numbers go on from text to text.
pub struct Chooser {
    processor: LogitsProcessor,
    greedy: bool,
    tokens: usize,
    penalty: f32,
    last: usize,
}

impl Chooser {
    pub fn new(options: &Options) -> Self {
        Self {
            processor: LogitsProcessor::from_sampling(options.seed, options.sampling.clone()),
            greedy: options.sampling == Sampling::ArgMax,
            tokens: options.tokens,
            penalty: options.repeat_penalty,
            last: options.repeat_last,
        }
    }

    /// Reads one number back if the likeliest token is all that is asked for, else the logits.
    async fn choose(&mut self, logits: &Tensor, seen: &[u32]) -> Result<u32> {
        if self.greedy && self.penalty == 1. {
            let likeliest = logits.to_dtype(DType::F32)?.argmax(0)?;
            return Ok(match BLOCKS {
                true => likeliest.to_scalar()?,
                false => likeliest.to_scalar_async().await?,
            });
        }
        let logits = match BLOCKS {
            true => logits.to_device(&Device::Cpu)?,
            false => logits.to_device_async(&Device::Cpu).await?,
        };
        if self.penalty == 1. {
            return Ok(self.processor.sample(&logits)?);
        }
        let recent = &seen[seen.len().saturating_sub(self.last)..];
        let logits = apply_repeat_penalty(&logits, self.penalty, recent)?;
        Ok(self.processor.sample(&logits)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_the_sampling() {
        let temperature = 0.5;
        assert_eq!(sampling(0., Some(4), Some(0.9)), Sampling::ArgMax);
        assert_eq!(sampling(0.5, None, None), Sampling::All { temperature });
        let both = sampling(0.5, Some(4), Some(0.9));
        assert!(matches!(both, Sampling::TopKThenTopP { k: 4, .. }));
    }
}
