//! A whole model on one rank.

use crate::args::Args;
use crate::items::Item;
use crate::model::{gguf_tokenizer, Model, Parts};
use crate::results::{stop_name, Row};
use crate::sequence::{is_of_prompt, Limits, Sequence};
use crate::source::Ticking;
use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_examples::device::Precision;
use candle_examples::embed::{self, Embedder};
use candle_examples::files;
use candle_examples::generate::{sampling, Causal, Chooser, Options, Writer};
use candle_examples::gguf::Gguf;
use candle_examples::layers::{Cache, Cut, Head, Projection, Share, Stage, Weights};
use candle_examples::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// What computes the results of items.
pub enum Local {
    /// A model of candle-transformers.
    Text {
        model: Box<dyn Causal>,
        tokenizer: Tokenizer,
        ends: Vec<u32>,
        context: usize,
    },
    Embedder(Box<Embedder>),
    /// Random weights.
    Stage(Box<Whole>),
}

/// A model of one stage.
pub struct Whole {
    embed: Projection,
    stage: Stage,
    head: Head,
    cache: Cache,
    limits: Limits,
}

impl Local {
    pub fn load(model: &Model, args: &Args, device: &Device, tick: &dyn Fn()) -> Result<Self> {
        match model {
            Model::Bert(files) => Ok(Self::Embedder(Box::new(embed::load(files, device)?))),
            Model::Llama(found) => {
                let dtype = args.dtype.map(Precision::dtype);
                let loaded = files::load(found, dtype, args.tokens, device)?;
                Ok(Self::Text {
                    model: Box::new(loaded.model),
                    tokenizer: loaded.tokenizer,
                    ends: loaded.ends,
                    context: loaded.context,
                })
            }
            Model::Gguf { path, tokenizer } => {
                let mut file = Gguf::open(path)?;
                let tokenizer = gguf_tokenizer(&file, tokenizer.as_deref())?;
                if file.suits_f32(device) {
                    file = file.unpacked();
                }
                let tokens = args.tokens.min(file.context()?);
                file.needs().check(args.model(), tokens, device)?;
                let loaded = file.load(tokenizer, device)?;
                Ok(Self::Text {
                    model: Box::new(loaded.network),
                    tokenizer: loaded.tokenizer,
                    ends: loaded.ends,
                    context: loaded.context,
                })
            }
            Model::Random { .. } => {
                let mut parts = Parts::open(model, args.dtype, device)?;
                let (config, at) = (&parts.config, (parts.dtype, device));
                let weights = &mut Ticking {
                    weights: &mut *parts.weights,
                    tick,
                };
                let share = Share::layers(config, 0..config.num_hidden_layers);
                let dims = (config.vocab_size, config.hidden_size);
                let stage = Stage::load(config, parts.adjacent, &share, weights, at)?;
                Ok(Self::Stage(Box::new(Whole {
                    embed: weights.matrix("model.embed_tokens", dims, &Cut::Whole)?,
                    head: Head::load(config, &Cut::Whole, weights)?,
                    cache: stage.cache(),
                    stage,
                    limits: Limits {
                        tokenizer: parts.tokenizer,
                        ends: parts.ends,
                        context: config.max_position_embeddings,
                        tokens: args.tokens,
                    },
                })))
            }
        }
    }

    /// The results of items. An error that only concerns an item becomes its result.
    pub fn work(
        &mut self,
        items: &[Item],
        rank: usize,
        tokens: usize,
        (device, tick): (&Device, &dyn Fn()),
    ) -> Result<Vec<Row>> {
        if let Self::Embedder(embedder) = self {
            let texts: Vec<String> = items.iter().map(|item| item.prompt.clone()).collect();
            let vectors = embedder.embed(&texts)?.to_vec2::<f32>()?;
            let rows = items.iter().zip(vectors);
            return Ok(rows
                .map(|(item, vector)| Row {
                    embedding: Some(vector),
                    ..Row::new(item, rank)
                })
                .collect());
        }
        let mut rows = Vec::new();
        for item in items {
            let row = match self {
                Self::Stage(whole) => whole.generate(item, rank, tick),
                _ => self.write(item, rank, tokens, (device, tick)),
            };
            rows.push(match row {
                Err(error) if is_of_prompt(&error) => Row {
                    error: Some(error.to_string()),
                    ..Row::new(item, rank)
                },
                row => row?,
            });
        }
        Ok(rows)
    }

    fn write(
        &mut self,
        item: &Item,
        rank: usize,
        tokens: usize,
        (device, tick): (&Device, &dyn Fn()),
    ) -> candle_examples::Result<Row> {
        let Self::Text {
            model,
            tokenizer,
            ends,
            context,
        } = self
        else {
            let what = "text from a model of embeddings".to_string();
            return Err(candle_examples::Error::Unsupported { what });
        };
        let prompt = tokenizer.encode(&item.prompt)?;
        let options = Options {
            tokens,
            sampling: sampling(0., None, None),
            seed: 0,
            repeat_penalty: 1.,
            repeat_last: 0,
        };
        let mut writer = Writer {
            model: &mut **model,
            tokenizer,
            ends,
            context: *context,
            device,
        };
        let show = |_: &str| {
            tick();
            ControlFlow::Continue(())
        };
        let mut chooser = Chooser::new(&options);
        let output = writer.extend(&mut Default::default(), prompt, &mut chooser, show)?;
        Ok(Row {
            ids: Some(output.ids),
            text: Some(output.text),
            stop: Some(stop_name(output.stop)),
            ..Row::new(item, rank)
        })
    }
}

impl Whole {
    fn generate(
        &mut self,
        item: &Item,
        rank: usize,
        tick: &dyn Fn(),
    ) -> candle_examples::Result<Row> {
        let mut sequence = Sequence::start(item.clone(), &self.limits)?;
        loop {
            tick();
            let ids = Tensor::new(sequence.pending(), self.stage.device())?;
            let (x, at) = (self.embed.rows(&ids)?, sequence.position());
            let x = self.stage.forward(x, at, &mut self.cache, &mut Ok)?;
            let next = self.head.logits(&x)?.argmax(0)?.to_scalar()?;
            if let Some(stop) = sequence.push(next, &self.limits) {
                return sequence.row(stop, rank, &self.limits);
            }
        }
    }
}
