//! flash_coop: attention with cooperative matrices of f16, for many queries.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::attention::flash::{score_slots, KEYS};
use crate::kernel::attention::plan::Params;
use crate::kernel::matmul::gemm_coop::{self, FEATURES};
use crate::recorder::gpu::Gpu;
use crate::shader::{Kernel, Specialization, Text};

pub(crate) static FLASH_COOP: Kernel = Kernel {
    workgroup: THREADS,
    shared: |spec| tile(spec).shared(spec.dtype(0)),
    features: FEATURES,
    slots,
    ..kernel!(
        "attention", "flash_coop", Params::LAYOUT;
        read_bound_rw q, read_bound_rw k, read_bound_rw v, read_bound_rw mask, write y
    )
};

const THREADS: u32 = 128;
/// Rows of a workgroup.
pub(crate) const ROWS: u32 = 64;
/// Rows, columns and depth of a cooperative matrix.
const SIDE: u32 = 16;

pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    /// The largest last dim of q, k and v.
    pub head_dim: u32,
    /// Numbers of f16 whose sum is an element: two for f32 that may not be rounded.
    parts: u32,
}

impl Tile {
    /// Bytes of workgroup memory.
    fn shared(&self, dtype: DType) -> u32 {
        let (pitch, keys) = (self.head_dim + 8, KEYS / self.parts);
        let scales = if dtype == DType::F16 { 0 } else { 3 * KEYS * 4 };
        (ROWS * pitch + ROWS * (keys + 8) * self.parts) * 2 + ROWS * (keys + 8) * 4 + scales
    }

    /// Whether it takes operands of this dtype: others than f16 are scaled by rows, which a subgroup stages as a whole.
    pub fn takes(&self, dtype: DType) -> bool {
        let scaled = dtype != DType::F16;
        (!scaled || self.head_dim.is_power_of_two()) && (self.parts == 1 || dtype == DType::F32)
    }
}

#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "64x64", head_dim: 64, parts: 1 },
    Tile { name: "64x96", head_dim: 96, parts: 1 },
    Tile { name: "64x128", head_dim: 128, parts: 1 },
    Tile { name: "64x64.split", head_dim: 64, parts: 2 },
    Tile { name: "64x128.split", head_dim: 128, parts: 2 },
];

/// The smallest tile for q, k and v of a dtype, if there is one.
pub(crate) fn tile_for(device: &Gpu, dtype: DType, params: &Params) -> Option<&'static Tile> {
    let limit = device.limits.max_compute_workgroup_storage_size;
    let splits = dtype == DType::F32 && !device.gemm_reduced_precision_f32();
    let parts = if splits { 2 } else { 1 };
    fitting(dtype, parts, params.head_dim.max(params.v_dim), limit)
}

/// The smallest tile for a last dim, if it takes at most `limit` bytes of workgroup memory.
fn fitting(dtype: DType, parts: u32, head_dim: u32, limit: u32) -> Option<&'static Tile> {
    let suits = |t: &&Tile| t.head_dim >= head_dim && t.parts == parts && t.takes(dtype);
    let tile = TILES.iter().find(suits);
    tile.filter(|t| t.shared(dtype) <= limit)
}

/// Whether 16 x 16 matrices passed their self-test and every subgroup has 32 lanes, which the kernel assumes.
pub(crate) fn is_supported(device: &Gpu) -> bool {
    let fits = |tile: &gemm_coop::Tile| tile.side == SIDE;
    let tiles = device.coop_tiles();
    device.subgroup == Some((32, 32)) && tiles.is_some_and(|tiles| tiles.iter().all(fits))
}

fn tile(spec: &Specialization) -> &'static Tile {
    let found = TILES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&TILES[TILES.len() - 1])
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    let dtype = spec.dtype(0);
    // As measured for 64 and 128 columns: a step ahead gains nothing with 128, and less than its second place for scales costs.
    let ahead = dtype == DType::F16 && tile.head_dim < 128;
    let hold = ahead || tile.parts == 2;
    text.constants(&[
        ("D", tile.head_dim),
        ("PARTS", tile.parts),
        ("AHEAD", ahead.into()),
        ("HOLD", hold.into()),
    ]);
    score_slots(spec, text);
    text.file(wgsl!("kernel/attention/row_tile.wgsl"));
    text.file(wgsl!("kernel/attention/rows.wgsl"));
    text.part(wgsl!("kernel/attention/flash_coop_stage.wgsl"));
    if tile.parts == 2 {
        text.part(wgsl!("kernel/attention/flash_coop_split.wgsl"));
    } else {
        text.part(wgsl!("kernel/attention/flash_coop_round.wgsl"));
    }
    if dtype == DType::F16 {
        text.part(wgsl!("kernel/attention/flash_coop_plain.wgsl"));
        return Ok(());
    }
    text.file(dtype.info().source);
    text.part(match dtype {
        DType::Bf16 => wgsl!("kernel/attention/flash_coop_bf16.wgsl"),
        _ => wgsl!("kernel/attention/flash_coop_f32.wgsl"),
    });
    text.part(wgsl!("kernel/attention/flash_coop_scaled.wgsl"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_workgroup_memory() {
        let name = |head_dim, limit| fitting(DType::F16, 1, head_dim, limit).map(|t| t.name);
        assert_eq!(name(64, 48 << 10), Some("64x64"));
        assert_eq!(name(80, 32 << 10), Some("64x96"));
        assert_eq!(name(128, 32 << 10), Some("64x128"));
        assert_eq!(name(64, 16 << 10), None);
        assert_eq!(name(136, 48 << 10), None);
        let name =
            |parts, head_dim, limit| fitting(DType::F32, parts, head_dim, limit).map(|t| t.name);
        assert_eq!(name(1, 80, 48 << 10), Some("64x128"));
        assert_eq!(name(1, 80, 32 << 10), None); // 384 bytes of scales too many
        assert_eq!(name(2, 80, 32 << 10), Some("64x128.split"));
        assert_eq!(name(2, 64, 32 << 10), Some("64x64.split"));
    }
}
