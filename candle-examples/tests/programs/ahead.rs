//! On a WebGPU device, the generation loop runs one pass ahead. It generates what it generates on the CPU, where it does not.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Waker};

use candle_core::{DType, Device, Tensor};
use candle_examples::generate::{
    sampling, Causal, Chooser, Options, Output, Sequence, Stop, Writer,
};
use candle_examples::tokenizer::Tokenizer;
use candle_examples::Result;

use crate::tiny;

const CONTEXT: usize = 60;
const PROMPT: [u32; 3] = [3, 1, 2];
/// More tokens than the context has room for.
const ENDLESS: usize = usize::MAX;

/// A model whose likeliest token depends on all ids in its cache and on their order.
#[derive(Default)]
struct Sum {
    cache: Option<Tensor>,
    passes: usize,
}

impl Causal for Sum {
    fn logits(&mut self, ids: &Tensor, position: usize) -> Result<Tensor> {
        self.passes += 1;
        let ids = ids.to_dtype(DType::F32)?;
        let all = match self.cache.take().filter(|_| position > 0) {
            Some(cache) => {
                assert_eq!(cache.dim(1)?, position, "ids in the cache");
                Tensor::cat(&[&cache, &ids], 1)?
            }
            None => ids,
        };
        let count = all.dim(1)?;
        assert!(count <= CONTEXT, "the context is full");
        let weights = Tensor::arange(1f32, 1. + count as f32, all.device())?;
        let sum = all.squeeze(0)?.mul(&weights)?.sum_all()?;
        // The remainder of a division by 31. The half keeps the quotient away from whole numbers.
        let rounds = ((&sum + 0.5)? / 31.)?.floor()?;
        let next = (sum - (rounds * 31.)?)?;
        let vocab = Tensor::arange(0f32, tiny::VOCAB as f32, all.device())?;
        self.cache = Some(all);
        Ok(vocab.broadcast_sub(&next)?.abs()?.neg()?)
    }
}

/// A model of three tokens, whose probabilities do not depend on the text.
struct Dice;

const CHANCES: [f32; 3] = [0.5, 0.3, 0.2];

impl Causal for Dice {
    fn logits(&mut self, ids: &Tensor, _: usize) -> Result<Tensor> {
        Ok(Tensor::new(&CHANCES.map(f32::ln), ids.device())?)
    }
}

fn tokenizer() -> Tokenizer {
    let dir = tempfile::tempdir().unwrap();
    tiny::model(dir.path());
    Tokenizer::open(&dir.path().join("tokenizer.bin")).unwrap()
}

fn chooser(tokens: usize, temperature: f64, seed: u64) -> Chooser {
    Chooser::new(&Options {
        tokens,
        sampling: sampling(temperature, None, None),
        seed,
        repeat_penalty: 1.,
        repeat_last: 0,
    })
}

#[test]
fn tokens_are_drawn_by_their_probabilities() {
    const TOKENS: usize = 800;
    let device = Device::new_webgpu(0).unwrap();
    let tokenizer = tokenizer();
    let run = |seed, temperature| {
        let mut writer = Writer {
            model: &mut Dice,
            tokenizer: &tokenizer,
            ends: &[],
            context: 2 * TOKENS,
            device: &device,
        };
        let mut chooser = chooser(TOKENS, temperature, seed);
        let go_on = |_: &str| ControlFlow::Continue(());
        let output = writer.extend(&mut Sequence::default(), vec![1], &mut chooser, go_on);
        output.unwrap().ids
    };
    let ids = run(7, 1.);
    assert_eq!(ids, run(7, 1.));
    assert_ne!(ids, run(8, 1.));
    for temperature in [1., 0.5] {
        let weights = CHANCES.map(|chance| chance.powf(1. / temperature as f32));
        let ids = run(7, temperature);
        for (id, weight) in (0u32..).zip(weights) {
            let chance = weight / weights.iter().sum::<f32>();
            let share = ids.iter().filter(|drawn| **drawn == id).count() as f32 / TOKENS as f32;
            // Four standard deviations.
            let most = 4. * (chance * (1. - chance) / TOKENS as f32).sqrt();
            assert!((share - chance).abs() < most, "{id}: {share}, not {chance}");
        }
    }
}

/// A text with its model, on one device.
struct Text {
    model: Sum,
    tokenizer: Tokenizer,
    ends: Vec<u32>,
    device: Device,
    sequence: Sequence,
}

impl Text {
    fn new(device: &Device, ends: &[u32]) -> Self {
        Text {
            model: Sum::default(),
            tokenizer: tokenizer(),
            ends: ends.to_vec(),
            device: device.clone(),
            sequence: Sequence::default(),
        }
    }

    /// Extends the text, and stops after `pieces` tokens.
    async fn extend(&mut self, prompt: &[u32], tokens: usize, pieces: usize) -> Output {
        let mut writer = Writer {
            model: &mut self.model,
            tokenizer: &self.tokenizer,
            ends: &self.ends,
            context: CONTEXT,
            device: &self.device,
        };
        let mut chooser = chooser(tokens, 0., 0);
        let mut shown = 0;
        let show = async |_: &str| {
            shown += 1;
            match shown == pieces {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let sequence = &mut self.sequence;
        let output = writer.extend_async(sequence, prompt.to_vec(), &mut chooser, show);
        output.await.unwrap()
    }

    fn extended(&mut self, prompt: &[u32], tokens: usize) -> Output {
        pollster::block_on(self.extend(prompt, tokens, ENDLESS))
    }
}

fn devices() -> [Device; 2] {
    [Device::Cpu, Device::new_webgpu(0).unwrap()]
}

#[test]
fn no_pass_is_wasted_if_the_end_is_known() {
    for (tokens, stop) in [
        (10, Stop::Tokens),
        (1, Stop::Tokens),
        (ENDLESS, Stop::Context),
    ] {
        let [here, there] = devices().map(|device| {
            let mut text = Text::new(&device, &[]);
            let output = text.extended(&PROMPT, tokens);
            assert_eq!(output.stop, stop);
            (output.ids, text.model.passes)
        });
        assert_eq!(here, there);
    }
}

#[test]
fn a_text_goes_on_after_its_end() {
    let all = Text::new(&Device::Cpu, &[]).extended(&PROMPT, 10).ids;
    let end = all[4];
    assert!(!all[..4].contains(&end));
    for (prompt, prefilled) in [
        // The end is in the cache, since its pass ran ahead.
        (&[end, 5][..], [2, 1]),
        (&[end], [1, 0]),
        // It is not part of the text, so all ids go through the model again.
        (&[end + 1, 5], [2, 9]),
    ] {
        let [here, there] = devices().map(|device| {
            let mut text = Text::new(&device, &[end]);
            let first = text.extended(&PROMPT, ENDLESS);
            assert_eq!((&first.ids[..], first.stop), (&all[..4], Stop::End));
            text.ends.clear();
            let second = text.extended(prompt, 6);
            (second.ids, second.prefilled)
        });
        assert_eq!(here.0, there.0);
        assert_eq!([here.1, there.1], prefilled);
    }
}

#[test]
fn an_interrupted_text_goes_on() {
    let [here, there] = devices().map(|device| {
        let mut text = Text::new(&device, &[]);
        let first = pollster::block_on(text.extend(&PROMPT, ENDLESS, 3));
        assert_eq!((first.ids.len(), first.stop), (3, Stop::Interrupted));
        let second = text.extended(&[4], 6);
        // The last id of an interrupted text is in the cache only if its pass ran ahead.
        assert_eq!(second.prefilled, if device.is_cpu() { 2 } else { 1 });
        (first.ids, second.ids)
    });
    assert_eq!(here, there);
}

#[test]
fn a_future_is_dropped_while_an_id_is_read() {
    let mut text = Text::new(&Device::new_webgpu(0).unwrap(), &[]);
    let mut context = Context::from_waker(Waker::noop());
    let _ = pin!(text.extend(&PROMPT, 2, ENDLESS))
        .as_mut()
        .poll(&mut context);
    let mut whole = text.sequence.ids.clone();
    whole.push(4);
    let expected = Text::new(&Device::Cpu, &[]).extended(&whole, 6).ids;
    assert_eq!(text.extended(&[4], 6).ids, expected);
}
