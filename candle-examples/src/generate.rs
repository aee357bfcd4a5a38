//! The loop that makes text: one pass over the prompt, then token by token.

use crate::error::{Error, Result};
use crate::model::Loaded;
use crate::tokenizer::Stream;
use candle_core::Device;
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::utils::apply_repeat_penalty;
use std::time::{Duration, Instant};

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
}

pub struct Output {
    pub prompt: Vec<u32>,
    /// The generated ids, without the one that ended the text.
    pub ids: Vec<u32>,
    pub text: String,
    pub stop: Stop,
    /// From the start of the prompt's pass to the first token's id.
    pub first_token: Duration,
    /// The passes after the prompt's and the time they took.
    pub steps: usize,
    pub decode: Duration,
}

impl Output {
    pub fn prompt_rate(&self) -> f64 {
        self.prompt.len() as f64 / self.first_token.as_secs_f64()
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
pub fn generate(
    loaded: &mut Loaded,
    prompt: &str,
    options: &Options,
    device: &Device,
    mut show: impl FnMut(&str),
) -> Result<Output> {
    let prompt = loaded.tokenizer.encode(prompt)?;
    if prompt.is_empty() {
        return Err(Error::PromptEmpty);
    }
    if prompt.len() > loaded.context {
        return Err(Error::PromptTooLong {
            tokens: prompt.len(),
            context: loaded.context,
        });
    }
    let mut chooser = Chooser {
        processor: LogitsProcessor::from_sampling(options.seed, options.sampling.clone()),
        penalty: options.repeat_penalty,
        last: options.repeat_last,
    };
    let mut stream = Stream::new(&loaded.tokenizer, &prompt);
    let mut text = String::new();
    let mut seen = prompt.clone();

    let start = Instant::now();
    let mut logits = loaded.model.forward(&prompt, 0, device)?;
    let mut next = chooser.choose(&logits, &seen)?;
    let first_token = start.elapsed();

    let start = Instant::now();
    let mut steps = 0;
    let stop = loop {
        if loaded.ends.contains(&next) {
            break Stop::End;
        }
        if seen.len() - prompt.len() == options.tokens {
            break Stop::Tokens;
        }
        seen.push(next);
        let piece = stream.push(next)?;
        show(&piece);
        text.push_str(&piece);
        if seen.len() - prompt.len() == options.tokens {
            break Stop::Tokens;
        }
        if seen.len() > loaded.context {
            break Stop::Context;
        }
        logits = loaded.model.forward(&[next], seen.len() - 1, device)?;
        next = chooser.choose(&logits, &seen)?;
        steps += 1;
    };
    let decode = start.elapsed();

    let rest = stream.finish()?;
    show(&rest);
    text.push_str(&rest);
    let ids = seen.split_off(prompt.len());
    Ok(Output {
        prompt,
        ids,
        text,
        stop,
        first_token,
        steps,
        decode,
    })
}

struct Chooser {
    processor: LogitsProcessor,
    penalty: f32,
    last: usize,
}

impl Chooser {
    fn choose(&mut self, logits: &candle_core::Tensor, seen: &[u32]) -> Result<u32> {
        if self.penalty == 1. {
            return Ok(self.processor.sample(logits)?);
        }
        let recent = &seen[seen.len().saturating_sub(self.last)..];
        let logits = apply_repeat_penalty(logits, self.penalty, recent)?;
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
