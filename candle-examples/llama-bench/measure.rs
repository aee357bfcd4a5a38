//! The two measured loops.

use candle_core::{Device, Tensor, D};
use candle_examples::device::{counters, on_gpu, profiled, Counters, Profile};
use candle_examples::gguf::Forward;
use std::time::{Duration, Instant};

pub struct Bench {
    pub model: Forward,
    pub device: Device,
    pub vocab: usize,
    pub on_host: bool,
}

/// One measured run.
pub struct Run {
    pub time: Duration,
    /// Its slowest step.
    pub slowest: Duration,
    /// The device's counters before and after the run, if it has any.
    pub counters: Option<(Counters, Counters)>,
}

/// The longest prompt of one pass: models::llama stores all attention scores, which would exceed a buffer.
const PASS: usize = 4096;

impl Bench {
    /// One forward pass over `tokens` tokens, until the id of the next token is on the host.
    pub fn prefill(&mut self, tokens: usize) -> anyhow::Result<Run> {
        let ids = self.prompt(tokens);
        self.device.synchronize()?;
        let before = counters(&self.device);
        let start = Instant::now();
        self.step(&ids, 0)?;
        let time = start.elapsed();
        Ok(Run {
            time,
            slowest: time,
            counters: before.zip(counters(&self.device)),
        })
    }

    /// The times to the first and the second token after a prompt.
    pub fn first_tokens(&mut self, prompt: usize) -> anyhow::Result<(Duration, Duration)> {
        let start = Instant::now();
        let first = self.step(&self.prompt(prompt), 0)?;
        let to_first = start.elapsed();
        self.step(&[first], prompt)?;
        Ok((to_first, start.elapsed() - to_first))
    }

    /// A greedy loop over `tokens` tokens. The prompt before it is not timed.
    pub fn decode(&mut self, context: usize, tokens: usize) -> anyhow::Result<Run> {
        let mut next = self.fill(context)?;
        self.device.synchronize()?;
        let before = counters(&self.device);
        let start = Instant::now();
        let mut slowest = Duration::ZERO;
        for position in context..context + tokens {
            let step = Instant::now();
            next = self.step(&[next], position)?;
            slowest = slowest.max(step.elapsed());
        }
        Ok(Run {
            time: start.elapsed(),
            slowest,
            counters: before.zip(counters(&self.device)),
        })
    }

    /// Times the kernels of decoding `tokens` tokens after a prompt, or of the prompt if `tokens` is 0.
    pub fn profile(&mut self, prompt: usize, tokens: usize) -> anyhow::Result<Profile> {
        let (device, ids) = (self.device.clone(), self.ready(prompt, tokens)?);
        profiled(&device, || self.go(ids, prompt, tokens))
    }

    /// GPU time and total time of the same work.
    pub fn busy(&mut self, prompt: usize, tokens: usize) -> anyhow::Result<(Duration, Duration)> {
        let (device, ids) = (self.device.clone(), self.ready(prompt, tokens)?);
        device.synchronize()?;
        let mut time = Duration::ZERO;
        let gpu = on_gpu(&device, || {
            let start = Instant::now();
            self.go(ids, prompt, tokens)?;
            time = start.elapsed();
            anyhow::Ok(())
        })?;
        Ok((gpu, time))
    }

    /// The input of the first step: the token after the prompt, or the prompt if no tokens are decoded.
    fn ready(&mut self, prompt: usize, tokens: usize) -> anyhow::Result<Vec<u32>> {
        match tokens {
            0 => Ok(self.prompt(prompt)),
            _ => Ok(vec![self.fill(prompt)?]),
        }
    }

    fn go(&mut self, mut ids: Vec<u32>, prompt: usize, tokens: usize) -> anyhow::Result<()> {
        let start = if tokens == 0 { 0 } else { prompt };
        for position in start..start + tokens.max(1) {
            ids = vec![self.step(&ids, position)?];
        }
        Ok(())
    }

    /// Fills the KV cache with a prompt; what exceeds one pass runs token by token.
    fn fill(&mut self, tokens: usize) -> anyhow::Result<u32> {
        let ids = self.prompt(tokens);
        let (first, rest) = ids.split_at(tokens.min(PASS));
        let mut next = self.step(first, 0)?;
        for (id, position) in rest.iter().zip(PASS..) {
            next = self.step(&[*id], position)?;
        }
        Ok(next)
    }

    /// A forward pass and its likeliest next token.
    fn step(&mut self, ids: &[u32], position: usize) -> anyhow::Result<u32> {
        let input = Tensor::new(ids, &self.device)?.unsqueeze(0)?;
        let logits = (self.model)(&input, position)?.squeeze(0)?;
        if !self.on_host {
            return Ok(logits.argmax(D::Minus1)?.to_scalar()?);
        }
        let logits: Vec<f32> = logits.to_vec1()?;
        let best = (0u32..).zip(&logits).max_by(|a, b| a.1.total_cmp(b.1));
        Ok(best.map_or(0, |(id, _)| id))
    }

    /// Ids spread over the vocabulary, the same in each run.
    fn prompt(&self, tokens: usize) -> Vec<u32> {
        (0..tokens)
            .map(|i| (i * 7919 % self.vocab) as u32)
            .collect()
    }
}
