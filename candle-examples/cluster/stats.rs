//! What a run did and how long it took, as progress on rank 0 and as one line of JSON.

use crate::args::Args;
use crate::world::World;
use anyhow::Result;
use candle_examples::progress;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How a rank spent its time with other ranks. Threads add to it.
#[derive(Default)]
pub struct Transfer {
    /// Microseconds.
    waited: AtomicU64,
    read_back: AtomicU64,
    sent: AtomicU64,
    bytes: AtomicU64,
    messages: AtomicU64,
}

/// [`Transfer`] of one rank, in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankStats {
    pub rank: usize,
    pub host: String,
    pub device: String,
    /// The layers of the rank, from and to.
    pub layers: (usize, usize),
    /// Its part of the bytes that are read for a token.
    pub share: f64,
    /// Waiting for messages.
    pub wait_s: f64,
    /// Reading activations back, which includes waiting for the device to compute them.
    pub readback_s: f64,
    /// Sending, or gathering of all ranks.
    pub send_s: f64,
    pub bytes: u64,
    pub messages: u64,
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
}

impl Transfer {
    pub fn waited(&self, since: Instant) {
        add(&self.waited, since.elapsed());
    }

    pub fn read_back(&self, since: Instant) {
        add(&self.read_back, since.elapsed());
    }

    pub fn sent(&self, since: Instant, bytes: usize) {
        add(&self.sent, since.elapsed());
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    pub fn stats(
        &self,
        world: &World,
        device: String,
        (layers, share): ((usize, usize), f64),
    ) -> RankStats {
        let seconds = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / 1e6;
        RankStats {
            rank: world.rank,
            host: world.hosts[world.rank].clone(),
            device,
            layers,
            share,
            wait_s: seconds(&self.waited),
            readback_s: seconds(&self.read_back),
            send_s: seconds(&self.sent),
            bytes: self.bytes.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
        }
    }
}

/// Counts finished items and tokens on rank 0, and shows them: as a bar in a terminal, else as a line now and then.
pub struct Meter {
    bar: ProgressBar,
    all: usize,
    done: usize,
    start: Instant,
    said: Instant,
    /// Generated tokens, first ones included.
    tokens: usize,
    first: usize,
    /// When the last first token came, and the tokens until then.
    prefilled: Option<(Instant, usize)>,
}

const INTERVAL: Duration = Duration::from_secs(5);

impl Meter {
    /// `done` of `all` items are there already.
    pub fn new(done: usize, all: usize) -> Self {
        let bar = progress::steps("", all as u64);
        bar.set_position(done as u64);
        Self {
            bar,
            all,
            done,
            start: Instant::now(),
            said: Instant::now(),
            tokens: 0,
            first: 0,
            prefilled: None,
        }
    }

    /// A token of a sequence came, its first one or another.
    pub fn token(&mut self, first: bool) {
        self.tokens += 1;
        if first {
            self.first += 1;
            self.prefilled = Some((Instant::now(), self.tokens));
        }
    }

    /// Items were finished with this many tokens that were not counted one by one.
    pub fn finished(&mut self, items: usize, tokens: usize) {
        self.done += items;
        self.tokens += tokens;
        self.bar.set_position(self.done as u64);
        if self.bar.is_hidden() && self.said.elapsed() > INTERVAL {
            let rate = self.tokens as f64 / self.start.elapsed().as_secs_f64();
            eprintln!("{} of {}, {rate:.1} tok/s", self.done, self.all);
            self.said = Instant::now();
        }
    }

    /// The line for `--bench`, without the ranks. `at_once`: the most sequences on their way together.
    pub fn line(&self, args: &Args, at_once: usize) -> serde_json::Value {
        let seconds = self.start.elapsed().as_secs_f64();
        // Prefill and decode mix unless all sequences start together.
        let decode = self.prefilled.filter(|_| self.first <= at_once);
        let decode = decode
            .map(|(since, before)| (self.tokens - before) as f64 / since.elapsed().as_secs_f64());
        json!({
            "parallel": args.parallel,
            "model": args.shape.map_or(args.model(), |shape| shape.name),
            "quant": args.quant.map(|quant| quant.name),
            "items": self.done,
            "items_s": self.done as f64 / seconds,
            "prompt_tokens": args.prompt_tokens,
            "at_once": at_once,
            "tokens": self.tokens,
            "seconds": seconds,
            "tok_s": self.tokens as f64 / seconds,
            "decode_tok_s": decode,
        })
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Adds the ranks to a line.
pub fn with_ranks(mut line: serde_json::Value, ranks: &[RankStats]) -> Result<serde_json::Value> {
    line["ranks"] = ranks.len().into();
    line["each"] = serde_json::to_value(ranks)?;
    Ok(line)
}

/// The stats of all ranks, on each.
pub fn collect(world: &World, own: &RankStats) -> Result<Vec<RankStats>> {
    let all = world.exchange(&serde_json::to_vec(own)?, "collecting figures");
    let parse = |bytes: &Vec<u8>| Ok(serde_json::from_slice(bytes)?);
    all.iter().map(parse).collect()
}
