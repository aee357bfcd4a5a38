//! The generation loop: prefill, then token by token.
//!
//! A token that is chosen on the device ([`Chooser`]) lets the loop run one pass ahead: each pass takes its token there, and is recorded
//! while the token's id is read back.

pub use crate::chooser::Chooser;
use crate::error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use crate::model::Loaded;
use crate::tokenizer::{Stream, Tokenizer};
use candle_core::{Device, Tensor};
use candle_transformers::generation::Sampling;
use futures_util::future::join;
use std::ops::ControlFlow;
use std::time::Duration;
use web_time::Instant;

pub struct Options {
    /// Maximum number of tokens to generate; a full context ends generation earlier.
    pub tokens: usize,
    pub sampling: Sampling,
    pub seed: u64,
    /// Penalty for repeated tokens; values above 1 make repetition less likely.
    pub repeat_penalty: f32,
    /// Number of latest tokens to which the penalty applies.
    pub repeat_last: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model generated an end-of-text token.
    End,
    /// The requested number of tokens was generated.
    Tokens,
    /// The model's context is full.
    Context,
    /// `show` stopped the generation.
    Interrupted,
}

pub struct Output {
    pub prompt: Vec<u32>,
    /// The generated ids, without the end-of-text id.
    pub ids: Vec<u32>,
    pub text: String,
    pub stop: Stop,
    /// Ids that went through the model before the first generated token: the prompt's, and uncached earlier ones.
    pub prefilled: usize,
    /// Time from the start of prefill to the id of the first token.
    pub first_token: Duration,
    /// Decode steps after prefill; `decode` is their total time.
    pub steps: usize,
    pub decode: Duration,
}

impl Output {
    pub fn prompt_rate(&self) -> f64 {
        self.prefilled as f64 / self.first_token.as_secs_f64()
    }

    /// Decoded tokens per second; `None` without decode steps.
    pub fn decode_rate(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.steps as f64 / self.decode.as_secs_f64())
    }
}

/// The sampling method for command line options. Temperature 0 is greedy.
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

/// Continues `prompt` and passes each complete piece of text to `show`.
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

/// A causal language model with its own KV cache.
pub trait Causal {
    /// The logits (vocab) after the last of `ids`, which are (1, n) of u32. `position` is the position of the first id, and the number
    /// of ids in the cache. Position 0 clears the cache.
    fn logits(&mut self, ids: &Tensor, position: usize) -> Result<Tensor>;

    /// [`logits`](Self::logits) of ids that are on the host.
    fn forward(&mut self, ids: &[u32], position: usize, device: &Device) -> Result<Tensor> {
        self.logits(&Tensor::new(ids, device)?.unsqueeze(0)?, position)
    }
}

/// The ids of a text; the first `cached` of them are in the KV cache.
#[derive(Default)]
pub struct Sequence {
    pub ids: Vec<u32>,
    pub cached: usize,
    /// An id that is in the KV cache behind those, since its pass ran ahead, and the logits after it.
    ahead: Option<(u32, Tensor)>,
}

impl Sequence {
    /// Counts the id of the pass that ran ahead as cached, if it is the next one of the text, and returns the logits if no other id
    /// follows. If the text goes on with another id, all ids have to go through the model again.
    fn catch_up(&mut self) -> Option<Tensor> {
        let next = self.ids.get(self.cached)?;
        let (id, logits) = self.ahead.take()?;
        self.cached = if id == *next { self.cached + 1 } else { 0 };
        (self.cached == self.ids.len()).then_some(logits)
    }
}

/// What is needed to continue a text.
pub struct Writer<'a> {
    pub model: &'a mut dyn Causal,
    pub tokenizer: &'a Tokenizer,
    pub ends: &'a [u32],
    pub context: usize,
    pub device: &'a Device,
}

impl Writer<'_> {
    /// Appends `prompt` to the text and generates, passing each piece to `show`, until `show` stops it.
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

    /// [`extend`](Self::extend) without blocking; `show` is async.
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
        let logits = sequence.catch_up();
        let prefilled = begin - sequence.cached;
        let last = self.context.min(begin.saturating_add(chooser.tokens) - 1);
        let mut next = self.next(sequence, chooser, logits, last).await?;
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
            let logits = sequence.catch_up();
            next = self.next(sequence, chooser, logits, last).await?;
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

    /// Samples the next id, from `logits` or after running the model on the ids that are not cached. Runs the next pass ahead if the
    /// text will have at most `last` ids with the new one.
    async fn next(
        &mut self,
        sequence: &mut Sequence,
        chooser: &mut Chooser,
        logits: Option<Tensor>,
        last: usize,
    ) -> Result<u32> {
        let (ids, at) = (&sequence.ids, sequence.ids.len());
        let logits = match logits {
            Some(logits) => logits,
            None => {
                let cached = sequence.cached;
                self.model.forward(&ids[cached..], cached, self.device)?
            }
        };
        sequence.cached = at;
        let Some(chosen) = chooser.choose_on(self.device, &logits, ids)? else {
            return chooser.choose(&logits, ids).await;
        };
        if at >= last {
            return Ok(chosen.to_scalar_async().await?);
        }
        // Until the id is known, so is not what the cache has.
        sequence.cached = 0;
        let ahead = async { self.model.logits(&chosen.reshape((1, 1))?, at) };
        let (id, logits) = join(chosen.to_scalar_async::<u32>(), ahead).await;
        let id = id?;
        sequence.cached = at;
        sequence.ahead = Some((id, logits?));
        Ok(id)
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
