//! The share of a split model that a rank loads.

use crate::args::{Args, Parallel};
use crate::model::Parts;
use crate::sequence::Limits;
use crate::share::{even, layers, tensor, Room};
use crate::source::Ticking;
use crate::world::World;
use anyhow::Result;
use candle_core::{DType, Device};
use candle_examples::layers::{Cut, Head, Projection, Share, Stage, Weights};
use candle_examples::memory::Needs;
use std::ops::Range;

/// The loaded share, and what the modes need to know of the model.
pub struct Loaded {
    pub stage: Stage,
    pub layers: Range<usize>,
    /// The part of the bytes that are read for a token; the embedding is only looked up.
    pub part: f64,
    /// None where the rank has no embedding.
    pub embed: Option<Projection>,
    /// None where the rank has no head.
    pub head: Option<Head>,
    /// The rows of embedding and head.
    pub vocab: Range<usize>,
    pub limits: Limits,
    pub hidden: usize,
    pub dtype: DType,
}

/// Sequences that are on their way at once.
pub fn in_flight(args: &Args, world: &World) -> usize {
    match args.parallel {
        Parallel::Pipeline => args.in_flight.unwrap_or(2 * world.size),
        Parallel::Data => world.size,
        Parallel::Tensor => 1,
    }
}

/// Loads the share of this rank. `memory`: device memory of each rank in bytes, if known.
pub fn load(
    mut parts: Parts,
    args: &Args,
    world: &World,
    memory: &[Option<u64>],
    device: &Device,
) -> Result<Loaded> {
    let config = parts.config.clone();
    let (rank, ranks) = (world.rank, world.size);
    let whole = 0..config.vocab_size;
    let (share, vocab, first, last) = match args.parallel {
        Parallel::Tensor => {
            let share = tensor(&config, parts.block, (rank, ranks))?;
            (share, even(config.vocab_size, 1, (rank, ranks)), true, true)
        }
        Parallel::Pipeline | Parallel::Data => {
            let (first, last) = (rank == 0, rank + 1 == ranks);
            let head = parts.bytes.head as f64 / parts.bytes.layer.max(1) as f64;
            let room = |(rank, memory): (usize, &Option<u64>)| Room {
                memory: *memory,
                head: if rank + 1 == ranks { head } else { 0. },
            };
            let rooms: Vec<Room> = memory.iter().enumerate().map(room).collect();
            let ranges = layers(config.num_hidden_layers, &rooms, &args.layers)?;
            (
                Share::layers(&config, ranges[rank].clone()),
                whole.clone(),
                first,
                last,
            )
        }
    };
    check(&parts, args, world, &share, (first, last), device)?;
    let rows = match vocab == whole {
        true => Cut::Whole,
        false => Cut::Rows(vocab.clone()),
    };
    let tick = || world.progress.tick("loading");
    let weights = &mut Ticking {
        weights: &mut *parts.weights,
        tick: &tick,
    };
    let dims = (config.vocab_size, config.hidden_size);
    let embed = match first {
        true => Some(weights.matrix("model.embed_tokens", dims, &rows)?),
        false => None,
    };
    let at = (parts.dtype, device);
    let stage = Stage::load(&config, parts.adjacent, &share, weights, at)?;
    let head = match last {
        true => Some(Head::load(&config, &rows, weights)?),
        false => None,
    };
    device.synchronize()?;
    let bytes = parts.bytes;
    let own = |layers: usize, head: bool| {
        let head = if head { bytes.head } else { 0 };
        (layers as u64 * bytes.layer + head) as f64
    };
    let heads = share.heads.len() as f64 / config.num_attention_heads as f64;
    let whole = own(config.num_hidden_layers, true);
    Ok(Loaded {
        stage,
        part: own(share.layers.len(), last) / whole * heads,
        layers: share.layers,
        embed,
        head,
        vocab,
        limits: Limits {
            tokenizer: parts.tokenizer,
            ends: parts.ends,
            context: config.max_position_embeddings,
            tokens: args.tokens,
        },
        hidden: config.hidden_size,
        dtype: parts.dtype,
    })
}

/// An error if the share does not fit on the device.
fn check(
    parts: &Parts,
    args: &Args,
    world: &World,
    share: &Share,
    (first, last): (bool, bool),
    device: &Device,
) -> Result<()> {
    let (config, bytes) = (&parts.config, parts.bytes);
    let heads = config.num_attention_heads;
    // Of each layer; embedding and head are split like the heads.
    let part = |bytes: u64| (bytes as f64 * share.heads.len() as f64 / heads as f64) as u64;
    let layers = share.layers.clone().map(|_| part(bytes.layer));
    let embedding = first.then(|| part(bytes.embedding));
    let head = last.then(|| part(bytes.head));
    let width = config.hidden_size / heads * parts.dtype.size_in_bytes();
    let cached = 2 * share.layers.len() * share.kv_heads.len() * width;
    let tokens = args.tokens.min(config.max_position_embeddings);
    let mut needs = Needs::of(layers.chain(embedding).chain(head), cached as u64);
    // The largest tensor is a matrix of a layer, or the embedding.
    needs.largest = embedding.max(head).unwrap_or(0);
    let tokens = tokens * in_flight(args, world);
    let name = args.shape.map_or(args.model(), |shape| shape.name);
    Ok(needs.check(name, tokens, device)?)
}
