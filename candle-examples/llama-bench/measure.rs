//! The two measured loops.

use candle_core::{Device, Tensor, D};
use candle_examples::device::{counters, on_gpu, profiled, Counters, Profile};
use candle_examples::gguf::Forward;
use candle_examples::random::ids;
use clap::ValueEnum;
use futures_util::future::join;
use std::time::{Duration, Instant};

pub struct Bench {
    pub model: Forward,
    pub device: Device,
    pub vocab: usize,
    pub sample: Sample,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sample {
    /// argmax on the device; reads back one u32
    Device,
    /// the same, one pass ahead: the next pass takes the token on the device and is recorded before its id is known
    Ahead,
    /// argmax on the host; reads back all logits
    Host,
}

/// One measured run.
pub struct Run {
    pub time: Duration,
    /// Its slowest step.
    pub slowest: Duration,
    /// The device's counters before and after the run, if it has any.
    pub counters: Option<(Counters, Counters)>,
}

/// The longest prompt of one pass for one sequence: models::llama stores all attention scores, which would exceed a buffer.
const PASS: usize = 4096;

/// A measured pass: of `batch` sequences, the prefill of `prompt` tokens each, or if `tokens` is not 0, the greedy loop over as many tokens
/// after that prompt.
#[derive(Clone, Copy)]
pub struct Pass {
    pub batch: usize,
    pub prompt: usize,
    pub tokens: usize,
}

impl Pass {
    /// Forward passes.
    pub fn steps(&self) -> usize {
        self.tokens.max(1)
    }
}

impl Bench {
    /// Runs a pass, until the ids of the next tokens are on the host. The prompt of a decode is not timed.
    pub fn run(&mut self, pass: Pass) -> anyhow::Result<Run> {
        let ids = self.ready(pass)?;
        self.device.synchronize()?;
        let before = counters(&self.device);
        let start = Instant::now();
        let mut slowest = Duration::ZERO;
        let mut step = start;
        self.go(ids, pass, || {
            let now = Instant::now();
            slowest = slowest.max(now - step);
            step = now;
        })?;
        Ok(Run {
            time: start.elapsed(),
            slowest,
            counters: before.zip(counters(&self.device)),
        })
    }

    /// The times to the first and the second token after a prompt.
    pub fn first_tokens(&mut self, prompt: usize) -> anyhow::Result<(Duration, Duration)> {
        let start = Instant::now();
        let first = self.step(&ids(prompt, self.vocab), 1, 0)?;
        let to_first = start.elapsed();
        self.step(&first, 1, prompt)?;
        Ok((to_first, start.elapsed() - to_first))
    }

    /// Times the kernels of a pass.
    pub fn profile(&mut self, pass: Pass) -> anyhow::Result<Profile> {
        let (device, ids) = (self.device.clone(), self.ready(pass)?);
        profiled(&device, || self.go(ids, pass, || ()))
    }

    /// GPU time and total time of a pass.
    pub fn busy(&mut self, pass: Pass) -> anyhow::Result<(Duration, Duration)> {
        let (device, ids) = (self.device.clone(), self.ready(pass)?);
        device.synchronize()?;
        let mut time = Duration::ZERO;
        let gpu = on_gpu(&device, || {
            let start = Instant::now();
            self.go(ids, pass, || ())?;
            time = start.elapsed();
            anyhow::Ok(())
        })?;
        Ok((gpu, time))
    }

    /// The input of the first step: the tokens after the prompt, or the prompt if no tokens are decoded.
    pub fn ready(&mut self, pass: Pass) -> anyhow::Result<Vec<u32>> {
        match pass.tokens {
            0 => Ok(ids(pass.prompt, self.vocab).repeat(pass.batch)),
            _ => self.fill(pass),
        }
    }

    fn positions(&self, pass: Pass) -> std::ops::Range<usize> {
        match pass.tokens {
            0 => 0..1,
            tokens => pass.prompt..pass.prompt + tokens,
        }
    }

    /// Calls `read` whenever the ids of the next tokens are on the host.
    fn go(&mut self, mut ids: Vec<u32>, pass: Pass, mut read: impl FnMut()) -> anyhow::Result<()> {
        if self.sample == Sample::Ahead {
            return pollster::block_on(self.go_ahead(&ids, pass, read));
        }
        for position in self.positions(pass) {
            ids = self.step(&ids, pass.batch, position)?;
            read();
        }
        Ok(())
    }

    /// [`go`](Self::go), one pass ahead of the ids.
    async fn go_ahead(
        &mut self,
        ids: &[u32],
        pass: Pass,
        mut read: impl FnMut(),
    ) -> anyhow::Result<()> {
        let mut positions = self.positions(pass);
        let mut logits = match positions.next() {
            Some(at) => Some(self.logits(ids, pass.batch, at)?),
            None => None,
        };
        while let Some(last) = logits.take() {
            let next = last.argmax(D::Minus1)?;
            drop(last);
            let following = async {
                match positions.next() {
                    Some(at) => (self.model)(&next.unsqueeze(1)?, at).map(Some),
                    None => Ok(None),
                }
            };
            let (ids, following) = join(next.to_vec1_async::<u32>(), following).await;
            ids?;
            read();
            logits = following?;
        }
        Ok(())
    }

    /// Fills the KV cache with the prompt; what exceeds one pass runs token by token.
    fn fill(&mut self, pass: Pass) -> anyhow::Result<Vec<u32>> {
        let ids = ids(pass.prompt, self.vocab);
        let longest = (PASS * PASS / pass.batch).isqrt();
        let (first, rest) = ids.split_at(pass.prompt.min(longest));
        let mut next = self.step(&first.repeat(pass.batch), pass.batch, 0)?;
        for (id, position) in rest.iter().zip(longest..) {
            next = self.step(&vec![*id; pass.batch], pass.batch, position)?;
        }
        Ok(next)
    }

    /// A forward pass over the ids of `batch` sequences: the logits of the last id of each.
    pub fn logits(&mut self, ids: &[u32], batch: usize, at: usize) -> anyhow::Result<Tensor> {
        let input = Tensor::new(ids, &self.device)?.reshape((batch, ()))?;
        Ok((self.model)(&input, at)?)
    }

    /// A forward pass, and the likeliest next token of each sequence.
    fn step(&mut self, ids: &[u32], batch: usize, position: usize) -> anyhow::Result<Vec<u32>> {
        let logits = self.logits(ids, batch, position)?;
        if self.sample != Sample::Host {
            return Ok(logits.argmax(D::Minus1)?.to_vec1()?);
        }
        let best = |row: Vec<f32>| {
            let best = (0u32..).zip(row).max_by(|a, b| a.1.total_cmp(&b.1));
            best.map_or(0, |(id, _)| id)
        };
        Ok(logits.to_vec2()?.into_iter().map(best).collect())
    }
}
