//! `--parallel data`: each rank has the whole model. Rank 0 hands out items to ranks as they become free, itself included, and writes the
//! results.

use crate::args::{Args, Task};
use crate::items::Item;
use crate::local::Local;
use crate::results::{Results, Row};
use crate::stats::{collect, with_ranks, Meter, RankStats, Transfer};
use crate::world::World;
use anyhow::{ensure, Context, Result};
use candle_core::Device;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// A rank asks rank 0 for work with the results of its last one.
const ASK: mpi::Tag = 2;
/// Rank 0 answers with items; none ends the rank's work.
const WORK: mpi::Tag = 3;

#[derive(Serialize, Deserialize)]
struct Ask {
    rows: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Work {
    items: Vec<Item>,
}

/// Works on items until rank 0 has none. Returns how this rank waited.
pub fn work(world: &World, args: &Args, local: &mut Local, device: &Device) -> Result<Transfer> {
    let transfer = Transfer::default();
    let tick = || world.progress.tick("computing");
    let mut ask = Ask { rows: Vec::new() };
    loop {
        let since = Instant::now();
        let message = serde_json::to_vec(&ask)?;
        world.send(0, ASK, &message);
        transfer.sent(since, message.len());
        let since = Instant::now();
        let message = world.message(Some(0), WORK, "waiting for work");
        transfer.waited(since);
        let work: Work = serde_json::from_slice(&message.bytes)?;
        if work.items.is_empty() {
            return Ok(transfer);
        }
        tick();
        ask.rows = local.work(&work.items, world.rank, args.tokens, (device, &tick))?;
    }
}

/// Hands out the missing items and writes the results, on a thread of rank 0.
pub fn hand_out(world: &World, args: &Args, mut results: Results, meter: &mut Meter) -> Result<()> {
    let size = match args.task {
        Task::Generate => 1,
        Task::Embed => args.batch,
    };
    let mut queue = batches(&results, size);
    // What each rank works on.
    let mut out: HashMap<usize, Vec<Item>> = HashMap::new();
    let mut working = world.size;
    while working > 0 {
        let message = world.message(None, ASK, "handing out work");
        let ask: Ask = serde_json::from_slice(&message.bytes)?;
        let items = out.remove(&message.from).unwrap_or_default();
        check(&items, &ask.rows).with_context(|| world.name(message.from))?;
        let tokens = ask.rows.iter().flat_map(|row| &row.ids).map(Vec::len).sum();
        let mut count = 0;
        for row in ask.rows {
            // Of a batch that a crash had cut, some rows may be there.
            if !results.has(row.index) {
                results.add(row)?;
                count += 1;
            }
        }
        meter.finished(count, tokens);
        let items = queue.pop_front().unwrap_or_default();
        working -= usize::from(items.is_empty());
        let work = Work { items };
        world.send(message.from, WORK, &serde_json::to_vec(&work)?);
        out.insert(message.from, work.items);
    }
    results.finish()
}

/// The results of a rank must be those of what it was given.
fn check(items: &[Item], rows: &[Row]) -> Result<()> {
    let same = |(item, row): (&Item, &Row)| row.index == item.index && row.id == item.id;
    ensure!(
        items.len() == rows.len() && items.iter().zip(rows).all(same),
        "results of other items than it was given"
    );
    Ok(())
}

/// Batches of the whole input in which a row is missing. They are the same for any number of ranks and after a crash: the rounding of a batch
/// may depend on its texts.
fn batches(results: &Results, size: usize) -> VecDeque<Vec<Item>> {
    let all = results.items().chunks(size);
    let missing = all.filter(|batch| batch.iter().any(|item| !results.has(item.index)));
    missing.map(<[Item]>::to_vec).collect()
}

/// Runs this mode on one rank. `results` on rank 0 only.
pub fn run(
    world: &World,
    args: &Args,
    results: Option<Results>,
    local: &mut Local,
    (device, name): (&Device, &str),
) -> Result<Option<serde_json::Value>> {
    world.barrier("starting");
    let figures = |transfer: &Transfer| -> Result<Vec<RankStats>> {
        let own = transfer.stats(world, name.to_string(), ((0, 0), 1.));
        collect(world, &own)
    };
    let Some(results) = results else {
        let transfer = work(world, args, local, device)?;
        figures(&transfer)?;
        return Ok(None);
    };
    let mut meter = Meter::new(results.count(), results.items().len());
    let transfer = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let done = hand_out(world, args, results, &mut meter);
            // Rank 0's own work would wait for more.
            done.unwrap_or_else(|error| crate::fail(world, &error))
        });
        let transfer = work(world, args, local, device);
        let transfer = transfer.unwrap_or_else(|error| crate::fail(world, &error));
        thread.join().map(|()| transfer)
    });
    let transfer =
        transfer.map_err(|_| anyhow::anyhow!("the thread that hands out work panicked"))?;
    let line = meter.line(args, world.size);
    meter.clear();
    Ok(Some(with_ranks(line, &figures(&transfer)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_other_items_are_refused() {
        let item = |index: usize| Item {
            index,
            id: index.to_string(),
            prompt: String::new(),
            ids: None,
            key: 0,
        };
        let items = [item(1), item(2)];
        let rows = |ids: [usize; 2]| ids.map(|index| Row::new(&item(index), 0));
        assert!(check(&items, &rows([1, 2])).is_ok());
        assert!(check(&items, &rows([2, 1])).is_err());
        assert!(check(&items, &rows([1, 2])[..1]).is_err());
    }
}
