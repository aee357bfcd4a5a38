//! flash_decode_coop: attention of few queries in f16 with cooperative matrices. It reads k and v once for up to 16 rows, where a workgroup of
//! `flash_decode_sub` has at most four.

use crate::dtype::DType;
use crate::kernel::attention::flash::row_slots;
use crate::kernel::attention::flash_decode::{cache_bindings, plain_slots};
use crate::kernel::attention::plan::Params;
use crate::kernel::attention::rope_flash_decode::{rope_slots, ROPE_FLASH_DECODE_IN_PLACE};
use crate::kernel::matmul::gemm_coop::FEATURES;
use crate::recorder::gpu::Gpu;
use crate::shader::{Kernel, Specialization, Text};

pub static FLASH_DECODE_COOP: Kernel = Kernel {
    workgroup: SUBGROUPS * LANES,
    shared: |spec| tile(spec).shared(),
    features: FEATURES,
    slots: |spec, text| {
        coop_slots(spec, text);
        plain_slots(text);
        text.line("fn old_keys() -> u32 { return p.keys; }");
        row_slots(spec, text)
    },
    ..kernel!("attention", "flash_decode_coop", Params::LAYOUT; read q, read k, read v, read mask, write y)
};

/// `rope_flash_decode` with cooperative matrices.
pub static ROPE_FLASH_DECODE_COOP: Kernel = Kernel {
    name: "rope_flash_decode_coop",
    // The newest key and value, in f32.
    shared: |spec| tile(spec).shared() + 2 * 4 * tile(spec).head_dim,
    slots: |spec, text| {
        coop_slots(spec, text);
        rope_slots(spec, text)
    },
    ..FLASH_DECODE_COOP
};

/// `rope_flash_decode_in_place` with cooperative matrices.
pub static ROPE_FLASH_DECODE_COOP_IN_PLACE: Kernel = Kernel {
    name: "rope_flash_decode_coop_in_place",
    bindings: ROPE_FLASH_DECODE_IN_PLACE.bindings,
    ..ROPE_FLASH_DECODE_COOP
};

const SUBGROUPS: u32 = 4;
const LANES: u32 = 32;
/// Rows of a workgroup, and keys that a subgroup sees at a time.
pub(crate) const ROWS: u32 = 16;
/// Keys that a workgroup sees at a time.
pub(crate) const KEYS: u32 = SUBGROUPS * ROWS;
/// With fewer rows, most of a cooperative matrix would be empty.
const MIN_ROWS: u32 = 4;
/// The fewest attention matrices, and the fewest keys of all of them, for which the kernel is faster than `flash_decode_sub`: its rounds of keys
/// take long, and few matrices need many splits to fill an adapter.
const MIN_MATRICES: u64 = 16;
const MIN_KEYS: u64 = 16_384;

pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    /// The largest last dim of q, k and v.
    pub head_dim: u32,
    /// Workgroups that an NVIDIA H200 executes at a time.
    pub groups: u64,
}

#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "16x64",  head_dim: 64,  groups: 264 },
    Tile { name: "16x128", head_dim: 128, groups: 132 },
];

impl Tile {
    /// Bytes of workgroup memory: keys or values, scores, weights, and a number for each row of a subgroup.
    fn shared(&self) -> u32 {
        let scores = SUBGROUPS * ROWS * (ROWS + 8 + 1) * 4;
        KEYS * (self.head_dim + 8) * 2 + scores + ROWS * (KEYS + 8) * 2
    }
}

fn tile(spec: &Specialization) -> &'static Tile {
    let found = TILES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&TILES[TILES.len() - 1])
}

/// The smallest tile for q, k and v, where the kernel is faster than others.
pub(crate) fn tile_for(device: &Gpu, dtype: DType, params: &Params) -> Option<&'static Tile> {
    let limit = device.limits.max_compute_workgroup_storage_size;
    fitting(dtype, params, limit).filter(|_| !device.denies(&FLASH_DECODE_COOP))
}

/// The tile, if it takes at most `limit` bytes of workgroup memory. The kernel has no soft cap.
fn fitting(dtype: DType, params: &Params, limit: u32) -> Option<&'static Tile> {
    let (matrices, keys) = (u64::from(params.matrices), u64::from(params.keys));
    let able = dtype == DType::F16 && params.softcap == 1.0;
    let many = matrices >= MIN_MATRICES && matrices * keys >= MIN_KEYS;
    let pays = many && params.rows >= MIN_ROWS;
    let head_dim = params.head_dim.max(params.v_dim);
    let suits = |t: &&Tile| t.head_dim >= head_dim && t.shared() <= limit;
    TILES.iter().find(suits).filter(|_| able && pays)
}

/// What the kernel has by tile, and how it stages.
fn coop_slots(spec: &Specialization, text: &mut Text) {
    text.constants(&[("D", tile(spec).head_dim), ("SUBGROUPS", SUBGROUPS)]);
    cache_bindings(spec, text);
    text.part(wgsl!("kernel/attention/flash_decode_coop_stage.wgsl"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_of_many_heads_pay() {
        let of = |rows, matrices, keys, head_dim| Params {
            rows,
            matrices,
            keys,
            head_dim,
            v_dim: 64,
            ..Params::new()
        };
        let name = |params: &Params| fitting(DType::F16, params, 48 << 10).map(|t| t.name);
        // TinyLlama: 8 sequences, and one.
        assert_eq!(name(&of(8, 32, 512, 64)), Some("16x64"));
        assert_eq!(name(&of(8, 32, 511, 64)), None);
        assert_eq!(name(&of(8, 4, 8192, 64)), None);
        assert_eq!(name(&of(3, 32, 2048, 64)), None);
        assert_eq!(name(&of(4, 64, 2048, 128)), Some("16x128"));
        assert_eq!(name(&of(4, 64, 2048, 136)), None);
        let mut capped = of(8, 32, 512, 64);
        assert!(fitting(DType::F32, &capped, 48 << 10).is_none());
        assert!(fitting(DType::F16, &capped, 16 << 10).is_none());
        capped.softcap = 30.0;
        assert_eq!(name(&capped), None);
    }
}
