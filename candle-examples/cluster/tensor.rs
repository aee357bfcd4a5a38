//! `--parallel tensor`: each rank has a part of the heads, of the MLP and of the vocabulary. All ranks work on the same token. After attention and
//! after the MLP, partial sums are gathered and added in the order of ranks, so that all ranks get the same bits.

use crate::args::Args;
use crate::items::Item;
use crate::pipeline::Job;
use crate::sequence::Sequence;
use crate::stage::Loaded;
use crate::stats::Transfer;
use crate::wire;
use crate::world::World;
use anyhow::{ensure, Context, Result};
use candle_core::{DType, Tensor};
use candle_examples::layers::Cache;
use std::time::Instant;

struct Part<'a> {
    world: &'a World,
    loaded: &'a Loaded,
    transfer: Transfer,
    wire: DType,
    cache: Cache,
    /// The gathered partial sums; kept, so that they are not allocated each time.
    staging: Vec<u8>,
}

impl Part<'_> {
    /// The logits of this rank's rows of the vocabulary, after the pending ids of a sequence.
    fn forward(&mut self, sequence: &Sequence) -> Result<Tensor> {
        let Self {
            world,
            loaded,
            transfer,
            wire,
            cache,
            staging,
        } = self;
        let mut reduce = |partial: Tensor| {
            let summed = all_reduce(world, loaded, transfer, *wire, staging, &partial);
            summed.map_err(candle_examples::Error::from)
        };
        let embedded = embed(loaded, sequence.pending())?;
        let x = reduce(embedded)?;
        let position = sequence.position();
        let x = loaded.stage.forward(x, position, cache, &mut reduce)?;
        let head = loaded.head.as_ref().context("a rank has no head")?;
        Ok(head.logits(&x)?)
    }

    /// The likeliest token over all ranks' rows of the vocabulary; the lowest of equals. All ranks must be at the same token.
    fn likeliest(&self, sequence: &Sequence, logits: &Tensor) -> Result<u32> {
        let since = Instant::now();
        let best = logits.argmax_keepdim(0)?.to_dtype(DType::F32)?;
        let both = Tensor::cat(&[&logits.max_keepdim(0)?, &best], 0)?;
        let both = both.to_vec1::<f32>()?;
        self.transfer.read_back(since);
        let since = Instant::now();
        let mut mine = sequence.item.key.to_le_bytes().to_vec();
        mine.extend((sequence.ids.len() as u64).to_le_bytes());
        mine.extend(both[0].to_le_bytes());
        mine.extend((self.loaded.vocab.start as u32 + both[1] as u32).to_le_bytes());
        let mut all = vec![0; mine.len() * self.world.size];
        self.world.all_gather(&mine, &mut all, "comparing tokens");
        self.transfer.sent(since, mine.len());
        let mut likeliest: Option<(f32, u32)> = None;
        for (rank, theirs) in all.chunks_exact(mine.len()).enumerate() {
            ensure!(
                theirs[..16] == mine[..16],
                "{} is at another sequence or token",
                self.world.name(rank)
            );
            let word = |at: usize| [theirs[at], theirs[at + 1], theirs[at + 2], theirs[at + 3]];
            let (value, id) = (f32::from_le_bytes(word(16)), u32::from_le_bytes(word(20)));
            if likeliest.is_none_or(|(best, _)| value > best) {
                likeliest = Some((value, id));
            }
        }
        Ok(likeliest.context("no ranks")?.1)
    }

    /// Generates the text of an item. The same on all ranks.
    fn generate(
        &mut self,
        mut sequence: Sequence,
        args: &Args,
        mut token: impl FnMut(bool),
    ) -> Result<(Sequence, candle_examples::generate::Stop)> {
        loop {
            let logits = self.forward(&sequence)?;
            let begins = sequence.begins();
            if args.logits && begins {
                let mine = wire::with_bytes(&logits, <[u8]>::to_vec)?;
                let all = self.world.exchange(&mine, "collecting logits").concat();
                sequence.logits = Some(wire::floats(&all));
            }
            let next = self.likeliest(&sequence, &logits)?;
            token(begins);
            if let Some(stop) = sequence.push(next, &self.loaded.limits) {
                return Ok((sequence, stop));
            }
        }
    }
}

/// The embeddings (1, tokens, hidden) of ids in this rank's rows of the vocabulary, and zeros for others.
fn embed(loaded: &Loaded, ids: &[u32]) -> Result<Tensor> {
    let embed = loaded.embed.as_ref().context("a rank has no embedding")?;
    let device = loaded.stage.device();
    let vocab = &loaded.vocab;
    let own = |id: &u32| vocab.contains(&(*id as usize));
    let rows = ids.iter().map(|id| match own(id) {
        true => id - vocab.start as u32,
        false => 0,
    });
    let rows = Tensor::new(rows.collect::<Vec<u32>>(), device)?;
    let mask: Vec<f32> = ids.iter().map(|id| f32::from(u8::from(own(id)))).collect();
    let mask = Tensor::new(mask, device)?.reshape((1, ids.len(), 1))?;
    let x = embed.rows(&rows)?;
    let mask = mask.to_dtype(x.dtype())?;
    Ok(x.broadcast_mul(&mask)?)
}

/// The sum over all ranks of `partial` (1, tokens, hidden).
fn all_reduce(
    world: &World,
    loaded: &Loaded,
    transfer: &Transfer,
    wire: DType,
    staging: &mut Vec<u8>,
    partial: &Tensor,
) -> candle_core::Result<Tensor> {
    if world.size == 1 {
        return Ok(partial.clone());
    }
    let (_, tokens, hidden) = partial.dims3()?;
    let since = Instant::now();
    wire::with_bytes(&partial.to_dtype(wire)?, |mine| {
        transfer.read_back(since);
        let since = Instant::now();
        staging.resize(mine.len() * world.size, 0);
        world.all_gather(mine, staging, "adding partial sums");
        transfer.sent(since, mine.len() * (world.size - 1));
    })?;
    let dims = [world.size, 1, tokens, hidden];
    let all = wire::tensor(staging, (wire, DType::F32), &dims, loaded.stage.device())?;
    all.sum(0)?.to_dtype(partial.dtype())
}

/// Runs this mode on one rank; rank 0 has the job.
pub fn run(
    world: &World,
    args: &Args,
    loaded: &Loaded,
    wire: DType,
    mut job: Option<&mut Job>,
) -> Result<Transfer> {
    let mut part = Part {
        world,
        loaded,
        transfer: Transfer::default(),
        wire,
        cache: loaded.stage.cache(),
        staging: Vec::new(),
    };
    loop {
        // Rank 0 tells all ranks the next sequence; nothing is the end.
        let mut message = Vec::new();
        if let Some(job) = &mut job {
            if let Some(sequence) = job.next(&loaded.limits)? {
                let mut item = sequence.item;
                item.ids = Some(sequence.ids);
                message = serde_json::to_vec(&item)?;
            }
        }
        let since = Instant::now();
        let all = world.exchange(&message, "waiting for a sequence");
        part.transfer.waited(since);
        if all[0].is_empty() {
            return Ok(part.transfer);
        }
        let item: Item = serde_json::from_slice(&all[0])?;
        let sequence = Sequence::start(item, &loaded.limits)?;
        let token = |begins| {
            if let Some(job) = &mut job {
                job.meter.token(begins);
            }
        };
        let (sequence, stop) = part.generate(sequence, args, token)?;
        if let Some(job) = &mut job {
            job.finish(sequence.row(stop, 0, &loaded.limits)?)?;
        }
    }
}
