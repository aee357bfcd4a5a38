//! How the rows and keys of an attention are divided among workgroups.

use crate::dtype::DType;
use crate::kernel::attention::flash::{self, Tile, KEYS};
use crate::kernel::attention::flash_coop;
use crate::kernel::attention::flash_decode::{
    thread_group, Block, BLOCKS, DECODE_KEYS, SUBGROUP_KEYS,
};
use crate::kernel::attention::flash_decode_coop;
use crate::kernel::attention::plan::Params;
use crate::recorder::gpu::Gpu;

/// The most queries, and the most rows, for which `flash_decode` is used: with more it would read k and v too often.
const DECODE_QUERIES: u32 = 8;
const DECODE_ROWS: u32 = 32;

/// A workgroup of `flash_decode` takes several rows, so that k and v are read less often, if this many workgroups are left. Since many keys
/// are split, a workgroup counts once for each `DECODE_SHARED_KEYS`.
const DECODE_SHARED: u64 = 512;
const DECODE_SHARED_KEYS: u32 = 512;

pub(crate) enum Strategy {
    Coop(&'static flash_coop::Tile),
    Flash(&'static Tile),
    Decode(&'static Block),
    /// A block, and the threads of its thread groups.
    DecodeSubgroups(&'static Block, u32),
    DecodeCoop(&'static flash_decode_coop::Tile),
}

/// How the keys of a row tile may be split.
struct Limits {
    /// Keys of a split are a multiple of this: what a workgroup sees at a time.
    step: u32,
    /// The fewest keys worth a workgroup of their own.
    least: u32,
    /// The most keys of a split: llvmpipe stops after 65,535 rounds of all loops (see [`ROUNDS`](crate::kernel::ROUNDS)).
    most: u32,
    /// Workgroups that fill an adapter: keys are split until there are so many.
    groups: u64,
    /// Up to so many keys are not split: the second kernel costs as much as some hundred keys.
    whole: u32,
}

const FLASH: Limits = Limits {
    step: KEYS,
    least: 256,
    most: 16_384,
    groups: 256,
    whole: 0,
};

const DECODE: Limits = Limits {
    step: DECODE_KEYS,
    least: DECODE_KEYS,
    most: 4096,
    groups: 512,
    whole: 3 * DECODE_KEYS,
};

const DECODE_SUBGROUPS: Limits = Limits {
    step: SUBGROUP_KEYS,
    least: SUBGROUP_KEYS,
    groups: 256,
    whole: 2 * SUBGROUP_KEYS,
    ..DECODE
};

/// With one row a workgroup, more of them are faster on an NVIDIA H200; with two rows, slower (docs/kernels/attention.md).
const DECODE_ONE_ROW: Limits = Limits {
    groups: 384,
    ..DECODE_SUBGROUPS
};

const DECODE_COOP: Limits = Limits {
    step: flash_decode_coop::KEYS,
    least: 2 * flash_decode_coop::KEYS,
    whole: 4 * flash_decode_coop::KEYS,
    ..DECODE
};

pub(crate) struct Partition {
    pub strategy: Strategy,
    /// Rows of a workgroup.
    pub rows: u32,
    /// Row tiles do not cross units of so many rows.
    pub unit_rows: u32,
    /// Of all units.
    pub row_tiles: u32,
    pub splits: u32,
    pub split_keys: u32,
}

/// `coop` is the dtype if cooperative matrices may be used.
pub(crate) fn partition(device: &Gpu, coop: Option<DType>, params: &Params) -> Partition {
    let (strategy, tile_rows) = strategy(device, coop, params);
    let limits = match strategy {
        Strategy::Decode(_) => DECODE,
        Strategy::DecodeSubgroups(Block { rows: 1, .. }, _) => DECODE_ONE_ROW,
        Strategy::DecodeSubgroups(..) => DECODE_SUBGROUPS,
        Strategy::DecodeCoop(tile) => Limits {
            groups: tile.groups,
            ..DECODE_COOP
        },
        _ => FLASH,
    };
    let (matrices, rows, keys) = (u64::from(params.matrices), params.rows, params.keys);
    let unit_rows = unit_rows(params, &strategy, tile_rows);
    let row_tiles = (rows / unit_rows.max(1)) * unit_rows.div_ceil(tile_rows);
    let groups = matrices * u64::from(row_tiles);
    let useful = (device.scaled(limits.groups) / groups.max(1)) as u32;
    // The partial results of all splits must fit in one binding.
    let bytes = matrices * u64::from(rows) * u64::from(params.v_dim + 4) * 4;
    let room = (device.binding_limit() / bytes.max(1)).min(u32::MAX.into()) as u32;
    let splits = if keys <= limits.whole {
        1
    } else {
        useful.min(keys.next_multiple_of(limits.step) / limits.least)
    };
    let splits = splits.min(room).max(keys.div_ceil(limits.most));
    let split_keys = keys.div_ceil(splits.max(1)).next_multiple_of(limits.step);
    Partition {
        strategy,
        rows: tile_rows,
        unit_rows,
        row_tiles,
        splits: keys.div_ceil(split_keys),
        split_keys,
    }
}

/// The queries of one head, so that the tiles of all heads that see most keys can start first, and the heads share a block mask. Or the
/// queries of all heads, where those of one would leave more than a fifth of their tiles empty.
fn unit_rows(params: &Params, strategy: &Strategy, tile_rows: u32) -> u32 {
    let decodes = matches!(
        strategy,
        Strategy::Decode(_) | Strategy::DecodeSubgroups(..) | Strategy::DecodeCoop(_)
    );
    let fills = params.queries.is_multiple_of(tile_rows) || params.queries > 4 * tile_rows;
    match fills && !decodes {
        true => params.queries,
        false => params.rows,
    }
}

/// The kernel with its tile, and the rows of a workgroup.
fn strategy(device: &Gpu, coop: Option<DType>, params: &Params) -> (Strategy, u32) {
    let rows = params.rows;
    if params.queries <= DECODE_QUERIES && rows <= DECODE_ROWS {
        let in_grid = params.matrices <= device.limits.max_compute_workgroups_per_dimension;
        let tile = coop.and_then(|dtype| flash_decode_coop::tile_for(device, dtype, params));
        if let Some(tile) = tile.filter(|_| in_grid) {
            return (Strategy::DecodeCoop(tile), flash_decode_coop::ROWS);
        }
        let thread_group = thread_group(device, params.v_dim).filter(|_| in_grid);
        let splits = u64::from((params.keys / DECODE_SHARED_KEYS).max(1));
        let groups = |b: &&Block| u64::from(params.matrices) * u64::from(rows.div_ceil(b.rows));
        // More rows than there are would be computed for nothing.
        let suits = |b: &&Block| b.rows < 2 * rows && groups(b) * splits >= DECODE_SHARED;
        let blocks = thread_group.map_or(BLOCKS, |(_, blocks)| blocks);
        let block = blocks.iter().rev().find(suits).unwrap_or(&blocks[0]);
        let strategy = match thread_group {
            Some((threads, _)) => Strategy::DecodeSubgroups(block, threads),
            None => Strategy::Decode(block),
        };
        return (strategy, block.rows);
    }
    if let Some(tile) = coop.and_then(|dtype| flash_coop::tile_for(device, dtype, params)) {
        return (Strategy::Coop(tile), flash_coop::ROWS);
    }
    let tile = flash::tile_for(params.v_dim, rows, device.wide_subgroups());
    (Strategy::Flash(tile), 16 * tile.rows)
}
