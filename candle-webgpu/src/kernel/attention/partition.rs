//! How the work of attention is shared among workgroups.

use crate::kernel::attention::flash_coop;
use crate::kernel::attention::specialization::{
    Block, Tile, BLOCKS, DECODE_KEYS, THREAD_GROUP_KEYS, TILES,
};
use crate::kernel::attention::Params;

/// Keys that a workgroup of `flash` sees at a time.
const FLASH_KEYS: u32 = flash_coop::KEYS;

/// The most queries, and the most rows, for which `flash_decode` is used: beyond them it would read k and v more often.
const DECODE_QUERIES: u32 = 8;
const DECODE_ROWS: u32 = 32;

/// Workgroups that fill an adapter: keys are split until there are so many.
const FLASH_GROUPS: u32 = 256;
const DECODE_GROUPS: u32 = 512;
/// Workgroups of `flash_decode` for which rows are shared out rather than taken together by those that read the same keys.
const DECODE_SHARED: u64 = 128;
/// The fewest keys that are scale a workgroup of `flash` of their own.
const FLASH_LEAST: u32 = 256;
/// The most keys that `flash_decode` and `flash_decode_sub` do not split: a second kernel costs as much as some hundred keys.
const DECODE_WHOLE: u32 = 3 * DECODE_KEYS;
const THREAD_GROUP_WHOLE: u32 = 2 * THREAD_GROUP_KEYS;
/// The most keys of a split: llvmpipe leaves out what comes after 65,535 rounds of all loops (see `ROUNDS`).
const FLASH_MOST: u32 = flash_coop::TILES * flash_coop::KEYS;
const DECODE_MOST: u32 = 4096;

pub(crate) enum By {
    Coop(&'static flash_coop::Shape),
    Tile(&'static Tile),
    Block(&'static Block),
    /// A block, and the threads of its thread_groups.
    Teams(&'static Block, u32),
}

/// How the work is shared among workgroups.
pub(crate) struct Share {
    pub by: By,
    /// Rows of a workgroup.
    pub rows: u32,
    pub splits: u32,
    /// Keys of a split.
    pub span: u32,
}

/// Within what a binding shows, `limit` bytes; `coop` tells whether cooperative matrices can be used, `thread_group` how large thread_groups are.
pub(crate) fn share(
    limit: u64,
    coop: bool,
    thread_group: Option<(u32, &'static [Block])>,
    params: &Params,
) -> Share {
    let (batch, rows, columns) = (params.batch, params.rows, params.columns);
    let (queries, keys) = (params.queries, params.keys);
    let decode = queries <= DECODE_QUERIES && rows <= DECODE_ROWS;
    let (by, tile) = if decode {
        let groups = |b: &&Block| u64::from(batch) * u64::from(rows.div_ceil(b.rows));
        let full = |b: &&Block| groups(b) >= DECODE_SHARED;
        let blocks = thread_group.map_or(BLOCKS, |(_, blocks)| blocks);
        let block = blocks.iter().rev().find(full).unwrap_or(&blocks[0]);
        let by = thread_group.map_or(By::Block(block), |(thread_group, _)| {
            By::Teams(block, thread_group)
        });
        (by, block.rows)
    } else if let Some(tile) = coop_tile(params).filter(|_| coop) {
        (By::Coop(tile), flash_coop::ROWS)
    } else {
        let wide = |t: &&Tile| t.quads * 32 >= columns;
        let tiles = TILES.iter().filter(wide);
        // The larger tiles come last.
        let tile = tiles.filter(|t| rows > 32 || t.rows == 2);
        let tile = tile.min_by_key(|t| (t.quads, std::cmp::Reverse(t.rows)));
        let tile = tile.unwrap_or(&TILES[0]);
        (By::Tile(tile), 16 * tile.rows)
    };
    let (step, least, most, enough, whole) = match by {
        By::Block(_) => (
            DECODE_KEYS,
            DECODE_KEYS,
            DECODE_MOST,
            DECODE_GROUPS,
            DECODE_WHOLE,
        ),
        By::Teams(..) => (
            THREAD_GROUP_KEYS,
            THREAD_GROUP_KEYS,
            DECODE_MOST,
            DECODE_GROUPS,
            THREAD_GROUP_WHOLE,
        ),
        _ => (FLASH_KEYS, FLASH_LEAST, FLASH_MOST, FLASH_GROUPS, 0),
    };
    let groups = u64::from(batch) * u64::from(rows.div_ceil(tile));
    let useful = (u64::from(enough) / groups.max(1)) as u32;
    // Sums of splits beside each other fit in a binding.
    let bytes = u64::from(batch) * u64::from(rows) * u64::from(columns + 4) * 4;
    let room = (limit / bytes.max(1)).min(u32::MAX.into()) as u32;
    let splits = if keys <= whole {
        1
    } else {
        useful.min(keys / least)
    };
    let splits = splits.min(room).max(keys.div_ceil(most));
    let span = keys.div_ceil(splits.max(1)).next_multiple_of(step);
    Share {
        by,
        rows: tile,
        splits: keys.div_ceil(span),
        span,
    }
}

/// The least tile of flash_coop that has all columns.
fn coop_tile(params: &Params) -> Option<&'static flash_coop::Shape> {
    let columns = params.columns.max(params.d);
    flash_coop::SHAPES.iter().find(|t| t.columns >= columns)
}
