//! A text that grows token by token, and stops where the example llama would stop.

use crate::items::Item;
use crate::results::{stop_name, Row};
use candle_examples::generate::Stop;
use candle_examples::tokenizer::{Stream, Tokenizer};
use candle_examples::{Error, Result};

/// What ends a text, and its tokenizer.
pub struct Limits {
    /// None for random weights: results then have no text.
    pub tokenizer: Option<Tokenizer>,
    pub ends: Vec<u32>,
    pub context: usize,
    pub tokens: usize,
}

pub struct Sequence {
    pub item: Item,
    pub ids: Vec<u32>,
    /// Length of the prompt.
    prompt: usize,
    /// Ids that went through the model.
    cached: usize,
    /// The logits after the prompt, if they are wanted.
    pub logits: Option<Vec<f32>>,
}

impl Sequence {
    /// An error of its own kind if the prompt is empty or longer than the context.
    pub fn start(item: Item, limits: &Limits) -> Result<Self> {
        let ids = match (&item.ids, &limits.tokenizer) {
            (Some(ids), _) => ids.clone(),
            (None, Some(tokenizer)) => tokenizer.encode(&item.prompt)?,
            (None, None) => {
                let what = "prompts without a tokenizer".to_string();
                return Err(Error::Unsupported { what });
            }
        };
        if ids.is_empty() {
            return Err(Error::PromptEmpty);
        }
        if ids.len() > limits.context {
            return Err(Error::PromptTooLong {
                tokens: ids.len(),
                context: limits.context,
            });
        }
        Ok(Self {
            item,
            prompt: ids.len(),
            ids,
            cached: 0,
            logits: None,
        })
    }

    /// The ids that the model has not seen.
    pub fn pending(&self) -> &[u32] {
        &self.ids[self.cached..]
    }

    /// The number of ids that the model has seen.
    pub fn position(&self) -> usize {
        self.cached
    }

    /// Whether the next token is the first one after the prompt.
    pub fn begins(&self) -> bool {
        self.cached == 0
    }

    pub fn generated(&self) -> usize {
        self.ids.len() - self.prompt
    }

    /// Takes the token that follows the pending ids. Returns why the text ends, if it does.
    pub fn push(&mut self, next: u32, limits: &Limits) -> Option<Stop> {
        self.cached = self.ids.len();
        if limits.ends.contains(&next) {
            return Some(Stop::End);
        }
        if self.generated() == limits.tokens {
            return Some(Stop::Tokens);
        }
        self.ids.push(next);
        if self.generated() == limits.tokens {
            return Some(Stop::Tokens);
        }
        (self.ids.len() > limits.context).then_some(Stop::Context)
    }

    /// The result.
    pub fn row(self, stop: Stop, rank: usize, limits: &Limits) -> Result<Row> {
        let (prompt, ids) = self.ids.split_at(self.prompt);
        let text = match &limits.tokenizer {
            None => None,
            Some(tokenizer) => {
                let mut stream = Stream::new(tokenizer, prompt);
                let pieces = ids.iter().map(|id| stream.push(*id));
                let mut text = pieces.collect::<Result<String>>()?;
                text.push_str(&stream.finish()?);
                Some(text)
            }
        };
        Ok(Row {
            ids: Some(ids.to_vec()),
            text,
            stop: Some(stop_name(stop)),
            logits: self.logits,
            ..Row::new(&self.item, rank)
        })
    }
}

/// Whether an error is about one prompt only: it becomes that prompt's result.
pub fn is_of_prompt(error: &Error) -> bool {
    matches!(error, Error::PromptEmpty | Error::PromptTooLong { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end() -> Result<()> {
        let limits = |context, tokens| Limits {
            tokenizer: None,
            ends: vec![9],
            context,
            tokens,
        };
        let item = Item {
            index: 0,
            id: String::new(),
            prompt: String::new(),
            ids: Some(vec![1, 2]),
            key: 0,
        };
        let run = |limits: &Limits, next: &[u32]| {
            let mut sequence = Sequence::start(item.clone(), limits)?;
            let stop = next.iter().find_map(|id| sequence.push(*id, limits));
            Ok((stop, sequence.generated()))
        };
        assert_eq!(run(&limits(8, 2), &[3, 4, 5])?, (Some(Stop::Tokens), 2));
        assert_eq!(run(&limits(8, 0), &[3])?, (Some(Stop::Tokens), 0));
        assert_eq!(run(&limits(8, 5), &[3, 9])?, (Some(Stop::End), 1));
        assert_eq!(run(&limits(3, 5), &[3, 4])?, (Some(Stop::Context), 2));
        assert!(run(&limits(1, 5), &[]).is_err_and(|e: Error| is_of_prompt(&e)));
        Ok(())
    }
}
