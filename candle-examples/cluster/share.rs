//! Which part of a model each rank holds.

use anyhow::{ensure, Result};
use candle_examples::layers::Share;
use candle_transformers::models::llama::Config;
use std::ops::Range;

/// Part `rank` of `0..total` in `ranks` parts that differ by at most one `unit`.
pub fn even(total: usize, unit: usize, (rank, ranks): (usize, usize)) -> Range<usize> {
    let units = total.div_ceil(unit);
    let at = |rank: usize| (units * rank / ranks * unit).min(total);
    at(rank)..at(rank + 1)
}

/// What decides how many layers a rank takes.
#[derive(Clone, Copy)]
pub struct Room {
    /// Device memory in bytes, if known.
    pub memory: Option<u64>,
    /// The layers that take as much memory and time as the head, if the rank has it. The embedding takes no time.
    pub head: f64,
}

/// The layers of each rank: as asked, else in proportion to memory with the head counted, or equal. Each rank has at least one.
pub fn layers(total: usize, rooms: &[Room], asked: &[usize]) -> Result<Vec<Range<usize>>> {
    let ranks = rooms.len();
    ensure!(
        ranks <= total,
        "{total} layers leave none for one of {ranks} ranks"
    );
    let counts = match asked {
        [] => by_room(total, rooms),
        _ => asked.to_vec(),
    };
    let (given, sum) = (counts.len(), counts.iter().sum::<usize>());
    ensure!(
        given == ranks,
        "--layers has {given} numbers for {ranks} ranks"
    );
    ensure!(
        sum == total,
        "--layers adds up to {sum}, the model has {total}"
    );
    ensure!(
        !counts.contains(&0),
        "--layers leaves none for one of {ranks} ranks"
    );
    let mut start = 0;
    let range = |count: usize| {
        start += count;
        start - count..start
    };
    Ok(counts.into_iter().map(range).collect())
}

fn by_room(total: usize, rooms: &[Room]) -> Vec<usize> {
    let memory: Option<Vec<u64>> = rooms.iter().map(|room| room.memory).collect();
    let memory = memory.unwrap_or_else(|| vec![1; rooms.len()]);
    let all: f64 = memory.iter().map(|bytes| *bytes as f64).sum();
    let work = total as f64 + rooms.iter().map(|room| room.head).sum::<f64>();
    let own = memory.iter().zip(rooms);
    let exact: Vec<f64> = own
        .map(|(memory, room)| *memory as f64 / all.max(1.) * work - room.head)
        .collect();
    let mut counts: Vec<usize> = exact.iter().map(|n| (*n as usize).max(1)).collect();
    // The remainder goes where most of a layer was cut off, and an excess goes from where there is most.
    while counts.iter().sum::<usize>() < total {
        let cut = |at: &usize| exact[*at] - counts[*at] as f64;
        let at = (0..counts.len())
            .rev()
            .max_by(|a, b| cut(a).total_cmp(&cut(b)));
        counts[at.unwrap_or(0)] += 1;
    }
    while counts.iter().sum::<usize>() > total {
        let at = (0..counts.len()).max_by_key(|at| counts[*at]);
        counts[at.unwrap_or(0)] -= 1;
    }
    counts
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

/// The part of every layer that a rank holds. `block`: columns are cut between blocks of this many.
///
/// Key-value heads are split with their query heads if there are enough of them; else query heads are split, and ranks repeat the key-value
/// heads that they share.
pub fn tensor(config: &Config, block: usize, (rank, ranks): (usize, usize)) -> Result<Share> {
    let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
    let (group, head_dim) = (heads / kv_heads, config.hidden_size / heads);
    // Query heads whose columns are whole blocks.
    let mut unit = lcm(head_dim, block) / head_dim;
    if kv_heads / (lcm(unit, group) / group) >= ranks {
        unit = lcm(unit, group);
    }
    for (what, units) in [
        ("heads", heads.div_ceil(unit)),
        ("the MLP", config.intermediate_size.div_ceil(block)),
        ("the vocabulary", config.vocab_size),
    ] {
        ensure!(
            units >= ranks,
            "{what} divides into {units} parts at most, for {ranks} ranks"
        );
    }
    let own = even(heads, unit, (rank, ranks));
    Ok(Share {
        layers: 0..config.num_hidden_layers,
        kv_heads: own.start / group..(own.end - 1) / group + 1,
        heads: own,
        inner: even(config.intermediate_size, block, (rank, ranks)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn layers_follow_memory() -> Result<()> {
        let counts = |memory: &[u64], head: f64| -> Result<Vec<usize>> {
            let last = memory.len() - 1;
            let room = |(rank, gib): (usize, &u64)| Room {
                memory: Some(gib * GIB),
                head: if rank == last { head } else { 0. },
            };
            let rooms: Vec<_> = memory.iter().enumerate().map(room).collect();
            Ok(layers(32, &rooms, &[])?.iter().map(Range::len).collect())
        };
        assert_eq!(counts(&[24, 24], 0.)?, [16, 16]);
        assert_eq!(counts(&[24, 8], 0.)?, [24, 8]);
        assert_eq!(counts(&[24, 24], 2.4)?, [17, 15]);
        assert_eq!(counts(&[24, 24], 99.)?, [31, 1]);
        assert_eq!(counts(&[10, 10, 10], 1.)?, [11, 11, 10]);
        let unknown = [Room {
            memory: None,
            head: 0.,
        }; 3];
        assert_eq!(layers(7, &unknown, &[])?, [0..3, 3..5, 5..7]);
        assert_eq!(layers(7, &unknown, &[1, 1, 5])?, [0..1, 1..2, 2..7]);
        for bad in [&[7][..], &[3, 3, 3], &[0, 3, 4]] {
            assert!(layers(7, &unknown, bad).is_err(), "{bad:?}");
        }
        assert!(layers(2, &unknown, &[]).is_err());
        Ok(())
    }

    fn config(heads: usize, kv_heads: usize, head_dim: usize) -> Config {
        Config {
            hidden_size: heads * head_dim,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            ..Config::config_7b_v1(false)
        }
    }

    #[test]
    fn shares_cover_every_head_once() -> Result<()> {
        for (heads, kv_heads, block) in [(4, 2, 1), (8, 2, 1), (32, 8, 256), (6, 6, 1), (64, 8, 32)]
        {
            for ranks in 1..=4 {
                let config = config(heads, kv_heads, 128);
                let mut next = (0, 0);
                for rank in 0..ranks {
                    let share = tensor(&config, block, (rank, ranks))?;
                    assert_eq!((share.heads.start, share.inner.start), next);
                    next = (share.heads.end, share.inner.end);
                    assert!(!share.heads.is_empty() && !share.inner.is_empty());
                    assert_eq!(share.heads.start * 128 % block, 0);
                    let group = heads / kv_heads;
                    let reads = |head: usize| share.kv_heads.contains(&(head / group));
                    assert!(share.heads.clone().all(reads));
                    if kv_heads >= ranks && block == 1 {
                        assert_eq!(share.heads.len(), share.kv_heads.len() * group);
                    }
                }
                assert_eq!(next, (heads, config.intermediate_size));
            }
        }
        assert!(tensor(&config(2, 1, 128), 1, (0, 3)).is_err());
        assert!(tensor(&config(4, 4, 64), 256, (0, 2)).is_err());
        Ok(())
    }
}
