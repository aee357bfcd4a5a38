//! Greedy decoding without timestamps, 30 seconds of audio at a time.

use crate::audio::{self, RATE};
use crate::load::Loaded;
use candle_core::{Device, IndexOp, Tensor, D};
use candle_examples::tokenizer::Stream;
use candle_examples::{progress, Result};
use candle_transformers::models::whisper::CHUNK_LENGTH;
use std::time::{Duration, Instant};

pub struct Output {
    pub text: String,
    pub ids: Vec<u32>,
    pub encode: Duration,
    pub decode: Duration,
}

/// Transcribes `samples` and passes each new piece of text to `emit`.
pub fn transcribe(
    loaded: &mut Loaded,
    samples: &[f32],
    device: &Device,
    mut emit: impl FnMut(&str),
) -> Result<Output> {
    let mut output = Output {
        text: String::new(),
        ids: Vec::new(),
        encode: Duration::ZERO,
        decode: Duration::ZERO,
    };
    let masks = Masks::new(loaded, device)?;
    let chunks = samples.chunks(CHUNK_LENGTH * RATE);
    let count = chunks.len();
    for (i, chunk) in chunks.enumerate() {
        let spinner = progress::spinner(&format!("listening, part {} of {count}", i + 1));
        let start = Instant::now();
        let mel = audio::spectrum(chunk, &loaded.model.config, device)?;
        let features = loaded.model.encoder.forward(&mel, true)?;
        device.synchronize()?;
        output.encode += start.elapsed();
        spinner.finish_and_clear();

        let start = Instant::now();
        decode(loaded, &features, &masks, &mut output, &mut emit)?;
        output.decode += start.elapsed();
    }
    output.text = output.text.trim().to_string();
    Ok(output)
}

fn decode(
    loaded: &mut Loaded,
    features: &Tensor,
    masks: &Masks,
    output: &mut Output,
    emit: &mut impl FnMut(&str),
) -> Result<()> {
    let device = features.device();
    let mut ids = loaded.prompt.clone();
    let mut stream = Stream::new(&loaded.tokenizer, &ids);
    let mut show = |text: String, output: &mut Output| {
        // Each segment begins with a space, which separates segments; the first needs none.
        let text = if output.text.is_empty() {
            text.trim_start()
        } else {
            &text
        };
        output.text.push_str(text);
        emit(text);
    };
    // Each step runs the decoder on all tokens. Whisper limits the text to half of the decoder's context.
    let most = loaded.model.config.max_target_positions / 2;
    while ids.len() < most {
        let first = ids.len() == loaded.prompt.len();
        let input = Tensor::new(&ids[..], device)?.unsqueeze(0)?;
        let decoded = loaded.model.decoder.forward(&input, features, first)?;
        let last = decoded.narrow(1, ids.len() - 1, 1)?;
        let logits = loaded.model.decoder.final_linear(&last)?.i((0, 0))?;
        let mask = if first { &masks.first } else { &masks.rest };
        let id = (logits + mask)?.argmax(D::Minus1)?.to_scalar::<u32>()?;
        if id == loaded.end {
            break;
        }
        ids.push(id);
        output.ids.push(id);
        show(stream.push(id)?, output);
    }
    show(stream.finish()?, output);
    Ok(())
}

/// Added to the logits; minus infinity suppresses a token.
struct Masks {
    first: Tensor,
    rest: Tensor,
}

impl Masks {
    fn new(loaded: &Loaded, device: &Device) -> Result<Self> {
        let config = &loaded.model.config;
        let mut mask = vec![0f32; config.vocab_size];
        // The ids after end-of-text are special tokens and timestamps.
        mask.iter_mut().skip(loaded.end as usize + 1).for_each(hide);
        for &id in &config.suppress_tokens {
            mask.get_mut(id as usize).into_iter().for_each(hide);
        }
        let rest = Tensor::new(&mask[..], device)?;
        // The first token may be neither end-of-text nor a lone space.
        let blank = loaded.tokenizer.id("\u{120}");
        for id in blank.into_iter().chain([loaded.end]) {
            mask.get_mut(id as usize).into_iter().for_each(hide);
        }
        let first = Tensor::new(&mask[..], device)?;
        Ok(Self { first, rest })
    }
}

fn hide(logit: &mut f32) {
    *logit = f32::NEG_INFINITY;
}
