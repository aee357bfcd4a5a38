//! block_mask: which row tiles and keys a mask hides or leaves unchanged, so that `flash` and `flash_coop` skip the first, and compute the
//! others without it. Models pass causal masks as tensors, and the same one to all their layers.

use crate::error::Result;
use crate::kernel::attention::flash::{mask_four, KEYS};
use crate::kernel::attention::plan::{Params, ADD, HIDE};
use crate::kernel::RAW;
use crate::recorder::op::Grid;
use crate::shader::{Kernel, Specialization, Text};

pub static BLOCK_MASK: Kernel = Kernel {
    workgroup: 256,
    shared: |_| 4,
    slots,
    ..kernel!("attention", "block_mask", Params::LAYOUT; read mask, write y)
};

/// Keys of a word: two bits for each [`KEYS`].
const BLOCK_KEYS: u32 = 16 * KEYS;

/// The dispatch that makes a block mask.
pub(crate) struct BlockMask {
    pub spec: Specialization,
    pub params: Params,
    pub grid: Grid,
    /// Its elements, in u32.
    pub words: usize,
}

impl BlockMask {
    /// The block mask for an attention with row tiles of `tile_rows`, in whose parameters it sets where the block mask of a row tile lies.
    pub fn new(spec: Specialization, attention: &mut Params) -> BlockMask {
        let units = (attention.rows / attention.unit_rows.max(1)).max(1);
        let tiles = attention.row_tiles / units;
        let words = attention.keys.div_ceil(BLOCK_KEYS);
        let [batch, head, group, query] = attention.mask_strides.map(|stride| stride != 0);
        let one_query = !query && (!group || attention.unit_rows == attention.queries);
        let own = |differ: bool, count: u32| if differ { count } else { 1 };
        let (matrices, units) = (own(batch || head, attention.matrices), own(group, units));
        let (tiles, unit_rows, queries) = match one_query {
            true => (1, 1, 1),
            false => (tiles, attention.unit_rows, attention.queries),
        };
        let strides = [words, words * tiles, words * tiles * units];
        let counts = [tiles, units, matrices];
        let [block_tile, block_unit, block_matrix] =
            [0, 1, 2].map(|i| if counts[i] == 1 { 0 } else { strides[i] });
        (attention.block_tile, attention.block_unit) = (block_tile, block_unit);
        attention.block_matrix = block_matrix;
        let [.., mask_offset] = attention.offsets;
        let [.., mask_stride] = attention.inner_strides;
        let params = Params {
            queries,
            keys: attention.keys,
            rows: units * unit_rows,
            unit_rows,
            kv_heads: attention.kv_heads,
            matrices,
            row_tiles: units * tiles,
            splits: words,
            split_keys: BLOCK_KEYS,
            offsets: [0, 0, 0, mask_offset],
            inner_strides: [0, 0, 0, mask_stride],
            mask_strides: attention.mask_strides,
            block_tile,
            block_unit,
            block_matrix,
            ..Params::new()
        };
        let groups = [matrices, units, tiles, words].map(u64::from);
        let groups = groups.iter().product::<u64>();
        BlockMask {
            spec,
            params,
            grid: Grid::Linear(groups),
            words: groups as usize,
        }
    }
}

/// The block mask for the masked attention of a specialization, with row tiles of `tile_rows`.
pub(crate) fn spec(attention: &Specialization, tile_rows: u32) -> Specialization {
    let op = match attention.value("MASKED") {
        Some(ADD) => "add",
        Some(HIDE) => "hide",
        _ => "keep",
    };
    let operands = [attention.operands[3], RAW];
    Specialization::new(&BLOCK_MASK, op, &operands).with("TILE_ROWS", tile_rows)
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let four = mask_four(spec);
    let [visible, changed] = match spec.op {
        "add" => ["four != vec4<f32>(p.neg_inf)", "four != vec4<f32>()"],
        "hide" => ["four == vec4<u32>()", "four != vec4<u32>()"],
        _ => ["four != vec4<u32>()", "four == vec4<u32>()"],
    };
    text.line("alias Y = u32;");
    text.line("fn mask_bits(at: vec4<u32>) -> u32 {");
    text.line(format!("    let four = {four};"));
    text.line(format!(
        "    return u32(any({visible})) | (u32(any({changed})) << 1u);"
    ));
    text.line("}");
    text.part(wgsl!("kernel/attention/params.wgsl"));
    text.file(wgsl!("kernel/attention/scores.wgsl"));
    text.file(wgsl!("kernel/attention/row_tile.wgsl"));
    text.file(wgsl!("kernel/attention/rows.wgsl"));
    Ok(())
}

/// The specializations for those of attention.
pub(crate) fn catalogue(attention: &[Specialization]) -> Vec<Specialization> {
    let mut all: Vec<Specialization> = Vec::new();
    for masked in attention.iter().filter(|spec| spec.binds("block_mask")) {
        for one in [32, 64].map(|rows| spec(masked, rows)) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}
