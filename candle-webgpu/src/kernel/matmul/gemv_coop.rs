//! GEMV of up to 32 rows in f16 with cooperative matrices: more rows than a thread can accumulate while the matrix is read once.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemm_coop::{self, FEATURES};
use crate::kernel::matmul::gemv_projections::{
    is_projections, matrices, store, Params, PLACE, PUT_OF,
};
use crate::kernel::matmul::store::put;
use crate::kernel::switch;
use crate::recorder::gpu::Gpu;
use crate::shader::{Access, Kernel, Specialization, Text};

/// Added bindings: the matrices and results of fused projections, or an epilogue's operands.
pub static GEMV_COOP: Kernel = Kernel {
    workgroup: SUBGROUPS * LANES,
    shared: |spec| tile(spec).shared(),
    features: FEATURES.union(wgpu::Features::SUBGROUP_BARRIER),
    slots,
    ..kernel!("matmul", "gemv_coop", Params::LAYOUT; read_bound_rw a, read_bound_rw b, write y)
};

const SUBGROUPS: u32 = 8;
const LANES: u32 = 32;
/// Elements along k of a subgroup's part of a round.
const STEP: u32 = 64;
/// Those in workgroup memory at a time, and a padded line of them.
const HALF: u32 = STEP / 2;
const LINE: u32 = HALF + 8;
/// Accumulators that are added up at a time.
const AT_A_TIME: u32 = 2;
/// Rows, columns and depth of a cooperative matrix.
pub(crate) const SIDE: u32 = 16;

/// The fewest rows for which the kernel is faster than `gemv_k`, which reads the matrix once for four rows.
pub(crate) const MIN_ROWS: u32 = 5;

/// The part of y that a workgroup owns.
pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    pub rows: u32,
    pub cols: u32,
    /// The fewest workgroups for which the tile is faster than a narrower one.
    pub least: u32,
}

/// By rows, the widest first. On an NVIDIA H200, two workgroups of the first fit a multiprocessor (see `gemm_coop`), and one of the others.
#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "16x16", rows: 16, cols: 16, least: 0 },
    Tile { name: "32x32", rows: 32, cols: 32, least: 128 },
    Tile { name: "32x16", rows: 32, cols: 16, least: 0 },
];

impl Tile {
    /// Bytes of workgroup memory.
    pub(crate) const fn shared(&self) -> u32 {
        SUBGROUPS * (self.rows + self.cols) * LINE * 2 + AT_A_TIME * SIDE * SIDE * 4
    }
}

fn tile(spec: &Specialization) -> &'static Tile {
    let found = TILES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&TILES[TILES.len() - 1])
}

/// The tile for m rows and n columns of k elements within `limit` bytes of workgroup memory, if there is one.
pub(crate) fn tile_for([m, n, k]: [u32; 3], limit: u32) -> Option<&'static Tile> {
    let divides = |t: &Tile| k.is_multiple_of(STEP) && n.is_multiple_of(t.cols);
    let mut tiles = TILES
        .iter()
        .filter(|t| m <= t.rows && divides(t) && n / t.cols >= t.least && t.shared() <= limit);
    (m >= MIN_ROWS).then(|| tiles.next()).flatten()
}

/// The specialization for a tile and the dtype of y.
pub(crate) fn spec(tile: &Tile, out: DType) -> Specialization {
    let raw = (DType::F16, Access::Raw);
    Specialization::new(&GEMV_COOP, tile.name, &[raw, raw, (out, Access::Put)])
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    text.constants(&[("ROWS", tile.rows), ("COLS", tile.cols)]);
    let projections = is_projections(spec);
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for (which, (b, y)) in matrices(spec).into_iter().enumerate() {
        let at = 2 + 2 * which;
        if which > 0 {
            // Without an alias: `C` is a role of cooperative matrices.
            text.line(format!(
                "@group(0) @binding({at}) var<storage, read_write> {b}: array<vec4<u32>>;"
            ));
            let result = spec.bindings().nth(at);
            result.into_iter().for_each(|y| text.binding(at + 1, y));
        }
        if projections {
            put(spec, at, text)?;
        }
        let line = "(place.start + line_of(lane, i) * place.stride + k) / 8u + lane % 8u";
        loads.push(format!(
            "for (var i = 0u; i < COLS / 4u; i++) {{ b_held[i] = {b}[{line}]; }}"
        ));
        stores.push(store(y));
    }
    if projections {
        loads = switch("place.which", loads, "{}");
        stores = switch("which", stores, "{}");
        text.part(PLACE);
    } else {
        text.line(
            "fn place(group: u32) -> Place { return Place(0u, group, p.n, p.b_offset, p.b_n); }",
        );
        epilogue::y_put(spec, 4, "epilogue", text)?;
    }
    text.unrolled("load_b(lane: u32, place: Place, k: u32)", loads);
    text.unrolled(PUT_OF, stores);
    text.part(epilogue::PARAMS_PROJECTIONS);
    Ok(())
}

/// Whether the kernel can use this kind of cooperative matrix: it assumes 16 x 16 matrices and subgroups of 32, and workgroup memory for
/// the narrowest tile.
pub(crate) fn suits(device: &Gpu, kind: &gemm_coop::Tile) -> bool {
    let fits = TILES[0].shared() <= device.limits.max_compute_workgroup_storage_size;
    device.subgroup == Some((LANES, LANES)) && kind.side == SIDE && fits
}

pub fn catalogue() -> Vec<Specialization> {
    let dtypes = [DType::F16, DType::F32];
    let each = |tile| dtypes.map(|out| spec(tile, out));
    TILES.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_workgroup_memory() {
        let name = |m, limit| tile_for([m, 4096, 2048], limit).map(|t| t.name);
        assert_eq!(name(32, 48 << 10), Some("32x32"));
        assert_eq!(name(32, 32 << 10), Some("32x16"));
        assert_eq!(name(8, 32 << 10), Some("16x16"));
        assert_eq!(name(8, 16 << 10), None);
    }
}
