//! `--parallel pipeline`: each rank has consecutive layers. Rank 0 starts several sequences; hidden states go from rank to rank, and the last
//! rank returns tokens to rank 0. While a rank's sender reads a result back and sends it, its main thread receives, uploads and records the
//! next one.

use crate::args::Args;
use crate::items::Item;
use crate::results::{Results, Row};
use crate::sequence::{is_of_prompt, Sequence};
use crate::stage::Loaded;
use crate::stats::{Meter, Transfer};
use crate::wire;
use crate::world::World;
use anyhow::{bail, ensure, Context, Result};
use candle_core::{DType, Tensor};
use candle_examples::layers::Cache;
use std::collections::VecDeque;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Instant;

const FRAME: mpi::Tag = 4;
const HIDDEN: mpi::Tag = 5;
const TOKEN: mpi::Tag = 6;
const LOGITS: mpi::Tag = 7;

/// What a message belongs to. Each rank checks that it continues the sequence of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Frame {
    /// The KV cache of the sequence.
    slot: usize,
    index: usize,
    key: u64,
    /// Of the first token; 0 begins a sequence.
    position: usize,
    /// 0 ends the run.
    tokens: usize,
}

impl Frame {
    const WORDS: usize = 5;
    const END: Self = Self {
        slot: 0,
        index: 0,
        key: 0,
        position: 0,
        tokens: 0,
    };

    fn words(&self) -> [u64; Self::WORDS] {
        let Self {
            slot,
            index,
            position,
            tokens,
            key,
        } = *self;
        [
            slot as u64,
            index as u64,
            key,
            position as u64,
            tokens as u64,
        ]
    }

    /// Reads a frame, and words after it.
    fn read(bytes: &[u8], more: usize) -> Result<(Self, Vec<u64>)> {
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |n, byte| n << 8 | u64::from(*byte))
            })
            .collect();
        ensure!(
            bytes.len() == 8 * (Self::WORDS + more),
            "a message of {} bytes is no frame",
            bytes.len()
        );
        let frame = Self {
            slot: words[0] as usize,
            index: words[1] as usize,
            key: words[2],
            position: words[3] as usize,
            tokens: words[4] as usize,
        };
        Ok((frame, words[Self::WORDS..].to_vec()))
    }
}

/// The sequence of a slot, as a rank saw it last.
#[derive(Clone, Default)]
struct Slot {
    index: usize,
    key: u64,
    next: usize,
}

impl Slot {
    /// Takes the next tokens of the slot's sequence, or begins another one.
    fn take(&mut self, frame: &Frame) -> Result<()> {
        if frame.position == 0 {
            (self.index, self.key) = (frame.index, frame.key);
        } else if (self.index, self.key, self.next) != (frame.index, frame.key, frame.position) {
            bail!(
                "a message of sequence {} at position {} came for slot {}, which has sequence {} at position {}",
                frame.index, frame.position, frame.slot, self.index, self.next
            );
        }
        self.next = frame.position + frame.tokens;
        Ok(())
    }
}

/// What the main thread hands to the sender.
enum Out {
    Hidden(Frame, Tensor),
    Logits(Frame, Tensor),
    End,
}

/// One rank's part of the pipeline.
struct Part<'a> {
    world: &'a World,
    loaded: &'a Loaded,
    transfer: &'a Transfer,
    /// The dtype of hidden states in messages.
    wire: DType,
    logits: bool,
    slots: Vec<Slot>,
    caches: Vec<Cache>,
}

impl Part<'_> {
    /// Maps hidden states (1, tokens, hidden) to the next rank's, or to logits.
    fn forward(&mut self, frame: Frame, x: Tensor) -> Result<Out> {
        let slots = self.slots.len();
        let slot = self.slots.get_mut(frame.slot);
        slot.with_context(|| format!("slot {} of {slots}", frame.slot))?
            .take(&frame)?;
        let cache = &mut self.caches[frame.slot];
        let x = self
            .loaded
            .stage
            .forward(x, frame.position, cache, &mut Ok)?;
        Ok(match &self.loaded.head {
            Some(head) => Out::Logits(frame, head.logits(&x)?),
            None => Out::Hidden(frame, x.to_dtype(self.wire)?),
        })
    }

    /// Receives hidden states, and passes results on, until the end.
    fn relay(&mut self, out: &Sender<Out>) -> Result<()> {
        let from = Some(self.world.rank - 1);
        let (mut header, mut staging) = (Vec::new(), Vec::new());
        loop {
            let since = Instant::now();
            self.world
                .receive(from, FRAME, &mut header, "waiting for hidden states");
            let (frame, _) = Frame::read(&header, 0)?;
            if frame == Frame::END {
                return Ok(out.send(Out::End)?);
            }
            self.world
                .receive(from, HIDDEN, &mut staging, "receiving hidden states");
            self.transfer.waited(since);
            let dims = [1, frame.tokens, self.loaded.hidden];
            let dtypes = (self.wire, self.loaded.dtype);
            let x = wire::tensor(&staging, dtypes, &dims, self.loaded.stage.device())?;
            out.send(self.forward(frame, x)?)?;
        }
    }

    /// Starts sequences, and continues each when its token is back.
    fn lead(&mut self, job: &mut Job, out: &Sender<Out>) -> Result<()> {
        let last = Some(self.world.size - 1);
        let mut active: Vec<Option<Sequence>> = self.slots.iter().map(|_| None).collect();
        let (mut token, mut logits) = (Vec::new(), Vec::new());
        loop {
            for (slot, free) in active.iter_mut().enumerate().filter(|(_, s)| s.is_none()) {
                if let Some(sequence) = job.next(&self.loaded.limits)? {
                    self.submit(slot, &sequence, out)?;
                    *free = Some(sequence);
                }
            }
            if active.iter().all(Option::is_none) {
                return Ok(out.send(Out::End)?);
            }
            let since = Instant::now();
            self.world
                .receive(last, TOKEN, &mut token, "waiting for a token");
            self.transfer.waited(since);
            let (frame, words) = Frame::read(&token, 1)?;
            let of_slot = active.get_mut(frame.slot);
            let of_slot = of_slot.with_context(|| format!("a token for slot {}", frame.slot))?;
            let fits = |sequence: &Sequence| {
                (frame.index, frame.key) == (sequence.item.index, sequence.item.key)
                    && frame.position == sequence.position()
            };
            let Some(mut sequence) = of_slot.take().filter(fits) else {
                bail!("a token of sequence {} came for another one", frame.index);
            };
            let begins = sequence.begins();
            if self.logits && begins {
                self.world
                    .receive(last, LOGITS, &mut logits, "receiving logits");
                sequence.logits = Some(wire::floats(&logits));
            }
            job.meter.token(begins);
            match sequence.push(words[0] as u32, &self.loaded.limits) {
                Some(stop) => {
                    let rank = self.world.size - 1;
                    job.finish(sequence.row(stop, rank, &self.loaded.limits)?)?;
                }
                None => {
                    self.submit(frame.slot, &sequence, out)?;
                    active[frame.slot] = Some(sequence);
                }
            }
        }
    }

    /// Runs the pending tokens of a sequence through rank 0's layers.
    fn submit(&mut self, slot: usize, sequence: &Sequence, out: &Sender<Out>) -> Result<()> {
        let frame = Frame {
            slot,
            index: sequence.item.index,
            key: sequence.item.key,
            position: sequence.position(),
            tokens: sequence.pending().len(),
        };
        let embed = self.loaded.embed.as_ref();
        let embed = embed.context("rank 0 has no embedding")?;
        let ids = Tensor::new(sequence.pending(), self.loaded.stage.device())?;
        let x = embed.rows(&ids)?;
        Ok(out.send(self.forward(frame, x)?)?)
    }

    /// Reads results back and sends them, until the end. Runs beside the main thread.
    fn send(&self, results: Receiver<Out>) -> Result<()> {
        let next = self.world.rank + 1;
        for out in results {
            match out {
                Out::Hidden(frame, x) => {
                    let since = Instant::now();
                    wire::with_bytes(&x, |bytes| {
                        self.transfer.read_back(since);
                        let since = Instant::now();
                        self.world.send(next, FRAME, &frame.words());
                        self.world.send(next, HIDDEN, bytes);
                        self.transfer.sent(since, bytes.len());
                    })?;
                }
                Out::Logits(frame, logits) => {
                    let since = Instant::now();
                    let id = logits.argmax(0)?.to_scalar::<u32>()?;
                    self.transfer.read_back(since);
                    let since = Instant::now();
                    let mut words = frame.words().to_vec();
                    words.push(u64::from(id));
                    self.world.send(0, TOKEN, &words);
                    self.transfer.sent(since, 8 * words.len());
                    if self.logits && frame.position == 0 {
                        wire::with_bytes(&logits, |bytes| self.world.send(0, LOGITS, bytes))?;
                    }
                }
                Out::End => {
                    if next < self.world.size {
                        self.world.send(next, FRAME, &Frame::END.words());
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Rank 0's queue of items, and where results go.
pub struct Job<'a> {
    pub queue: VecDeque<Item>,
    pub results: &'a mut Results,
    pub meter: &'a mut Meter,
}

impl Job<'_> {
    /// The next sequence. Items that cannot start get their error as result.
    pub fn next(&mut self, limits: &crate::sequence::Limits) -> Result<Option<Sequence>> {
        while let Some(item) = self.queue.pop_front() {
            match Sequence::start(item.clone(), limits) {
                Err(error) if is_of_prompt(&error) => self.finish(Row {
                    error: Some(error.to_string()),
                    ..Row::new(&item, 0)
                })?,
                sequence => return Ok(Some(sequence?)),
            }
        }
        Ok(None)
    }

    pub fn finish(&mut self, row: Row) -> Result<()> {
        self.results.add(row)?;
        self.meter.finished(1, 0);
        Ok(())
    }
}

/// Runs this mode on one rank; rank 0 has the job.
pub fn run(
    world: &World,
    args: &Args,
    loaded: &Loaded,
    (slots, wire): (usize, DType),
    job: Option<&mut Job>,
) -> Result<Transfer> {
    let transfer = Transfer::default();
    let part = || Part {
        world,
        loaded,
        transfer: &transfer,
        wire,
        logits: args.logits,
        slots: vec![Slot::default(); slots],
        caches: (0..slots).map(|_| loaded.stage.cache()).collect(),
    };
    let (out, results) = channel();
    std::thread::scope(|scope| {
        let (sender, mut main) = (part(), part());
        let sending = scope.spawn(move || {
            if let Err(error) = sender.send(results) {
                crate::fail(world, &error);
            }
        });
        match job {
            Some(job) => main.lead(job, &out)?,
            None => main.relay(&out)?,
        }
        drop(out);
        let joined = sending.join();
        joined.map_err(|_| anyhow::anyhow!("the thread that sends results panicked"))
    })?;
    Ok(transfer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_only_its_own_sequence() -> Result<()> {
        let mut slot = Slot::default();
        let frame = Frame {
            slot: 0,
            index: 3,
            key: 7,
            position: 0,
            tokens: 5,
        };
        slot.take(&frame)?;
        let next = Frame {
            position: 5,
            tokens: 1,
            ..frame
        };
        assert!(slot.clone().take(&Frame { key: 8, ..next }).is_err());
        assert!(slot.clone().take(&Frame { index: 4, ..next }).is_err());
        assert!(slot
            .clone()
            .take(&Frame {
                position: 6,
                ..next
            })
            .is_err());
        slot.take(&next)?;
        let bytes: Vec<u8> = next.words().iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(Frame::read(&bytes, 0)?, (next, Vec::new()));
        assert!(Frame::read(&bytes, 1).is_err());
        Ok(())
    }
}
