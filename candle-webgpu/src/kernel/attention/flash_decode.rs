//! flash_decode: attention of few queries, as in decoding: with subgroups (`flash_decode_sub`) and without.

use crate::kernel::attention::flash::row_slots;
use crate::kernel::attention::plan::{Params, MAX_HEAD_DIM};
use crate::kernel::matmul::gemv::SUB;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Grid;
use crate::shader::{Kernel, Specialization, Text};

pub static FLASH_DECODE: Kernel = Kernel {
    workgroup: 2 * DECODE_KEYS,
    shared: |spec| {
        let rows = block(spec).rows;
        let query = spec.value("QUADS").unwrap_or(MAX_HEAD_DIM as u32 / 4) * rows * 16;
        query + (rows.max(4) * 2 * DECODE_KEYS + DECODE_KEYS * (rows + 2) + 2 * rows) * 4
    },
    slots: |spec, text| {
        text.line(format!("const ROWS = {}u;", block(spec).rows));
        row_slots(spec, text)
    },
    ..kernel!("attention", "flash_decode", Params::LAYOUT; read q, read k, read v, read mask, write y)
};

/// The same with subgroup shuffles.
pub static FLASH_DECODE_SUB: Kernel = Kernel {
    workgroup: SUBGROUP_KEYS,
    shared: |spec| block(spec).shared(),
    features: SUB,
    #[rustfmt::skip]
    slots: |spec, text| {
        block_slots(spec, text);
        plain_slots(text);
        for n in ["key", "value"] {
            text.line(format!("fn keep_{n}(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {{}}"));
        }
        for (n, of) in [("key", "k"), ("value", "v")] {
            text.line(format!("fn {n}_quad(start: u32, step: u32, key: u32, quad: u32, newest: vec4<f32>) -> vec4<f32> {{ return {of}_quad(start + min(key, p.keys - 1u) * step, quad); }}"));
        }
        text.line("const KEEPS = false;");
        row_slots(spec, text)
    },
    ..kernel!("attention", "flash_decode_sub", Params::LAYOUT; read q, read k, read v, read mask, write y)
};

/// The grid of [`FLASH_DECODE_SUB`]: a workgroup for each split, row tile and attention matrix, and at least `further` ones. In three dims,
/// since divisions take long.
pub(crate) fn grid(params: &Params, further: u64) -> Grid {
    let of_matrix = u64::from(params.splits) * u64::from(params.row_tiles);
    let layers = further.div_ceil(of_matrix.max(1)) + u64::from(params.matrices);
    let layers = layers.try_into().unwrap_or(u32::MAX);
    Grid::Xyz([params.splits, params.row_tiles, layers])
}

/// Keys and values, which other kernels may write: binding 2 and 3.
pub(super) fn cache_bindings(spec: &Specialization, text: &mut Text) {
    for (at, binding) in (1..).zip(spec.bindings()).skip(1).take(2) {
        text.binding(at, binding);
    }
}

/// No newest key and value beside k and v, and no caches to write.
pub(super) fn plain_slots(text: &mut Text) {
    text.line("fn stage_newest(matrix: u32, thread: u32) {}");
    for n in ["key", "value"] {
        text.line(format!(
            "fn newest_{n}(quad: u32) -> vec4<f32> {{ return vec4<f32>(); }}"
        ));
    }
    text.line("fn write_caches(group: u32, thread: u32) {}");
}

/// What [`FLASH_DECODE_SUB`] has by block, its shuffles, and its keys and values, which other kernels may write.
pub(super) fn block_slots(spec: &Specialization, text: &mut Text) {
    let block = block(spec);
    text.constants(&[("ROWS", block.rows), ("COLUMN_QUADS", block.quads)]);
    cache_bindings(spec, text);
    text.line("fn shuffle_xor(v: f32, far: u32) -> f32 { return subgroupShuffleXor(v, far); }");
    text.line("fn shuffle(v: f32, lane: u32) -> f32 { return subgroupShuffle(v, lane); }");
}

/// Keys that a workgroup of [`FLASH_DECODE`] sees at a time, two threads for each.
pub(crate) const DECODE_KEYS: u32 = 128;
/// Keys that a workgroup of [`FLASH_DECODE_SUB`] sees at a time, one thread for each.
pub(crate) const SUBGROUP_KEYS: u32 = 256;
/// The fewest and the most threads of a thread group of [`FLASH_DECODE_SUB`], which holds a whole row of y.
pub(crate) const THREAD_GROUP: [u32; 2] = [8, 32];

/// The most quads of a row of q or v.
pub(super) const ROW_QUADS: u32 = MAX_HEAD_DIM as u32 / 4;

/// What a workgroup owns.
pub(crate) struct Block {
    /// The `op` of the specialization.
    pub name: &'static str,
    pub rows: u32,
    /// Quads of columns of v of a thread of a thread group.
    pub quads: u32,
}

impl Block {
    /// Bytes of workgroup memory of [`FLASH_DECODE_SUB`]: the queries, all threads' parts of y, and of each thread group a maximum and a
    /// sum of weights.
    pub(super) const fn shared(&self) -> u32 {
        let groups = SUBGROUP_KEYS / THREAD_GROUP[0];
        self.rows * (16 * (self.quads * SUBGROUP_KEYS + ROW_QUADS) + 8 * groups)
    }
}

#[rustfmt::skip]
pub(crate) const BLOCKS: &[Block] = &[
    Block { name: "1", rows: 1, quads: 1 },
    Block { name: "2", rows: 2, quads: 1 },
    Block { name: "4", rows: 4, quads: 1 },
];

/// For rows of y with more quads than a thread group has threads.
#[rustfmt::skip]
pub(crate) const WIDE_BLOCKS: &[Block] = &[
    Block { name: "1x2", rows: 1, quads: 2 },
    Block { name: "2x2", rows: 2, quads: 2 },
];

pub(super) fn block(spec: &Specialization) -> &'static Block {
    let mut all = BLOCKS.iter().chain(WIDE_BLOCKS);
    all.find(|b| b.name == spec.op).unwrap_or(&BLOCKS[0])
}

/// The threads of a thread group of [`FLASH_DECODE_SUB`] and the blocks that hold rows of `v_dim` columns and fit workgroup memory, where
/// the adapter's subgroups allow it.
pub(crate) fn thread_group(device: &Gpu, v_dim: u32) -> Option<(u32, &'static [Block])> {
    let (least, _) = device.subgroup?;
    let [fewest, most] = THREAD_GROUP;
    let threads = least.min(most);
    let fits = |blocks: &&[Block]| v_dim <= 4 * threads * blocks[0].quads;
    let blocks = [BLOCKS, WIDE_BLOCKS].into_iter().find(fits)?;
    let limit = device.limits.max_compute_workgroup_storage_size;
    let blocks = &blocks[..blocks.partition_point(|block| block.shared() <= limit)];
    (least >= fewest && !device.denies(&FLASH_DECODE_SUB)).then_some((threads, blocks))
}
