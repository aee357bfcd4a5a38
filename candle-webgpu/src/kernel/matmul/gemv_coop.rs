//! GEMV of up to 32 rows in f16 with cooperative matrices: more rows than a thread can accumulate while the matrix is read once.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemm_coop::{self, FEATURES};
use crate::kernel::matmul::gemv::ahead;
use crate::kernel::matmul::gemv_projections::{is_projections, matrices, Params, PLACE_COLUMNS};
use crate::kernel::matmul::projection_bias;
use crate::kernel::switch;
use crate::recorder::gpu::Gpu;
use crate::shader::{Access, Kernel, Specialization, Text};

/// Added bindings: the matrices and results of fused projections, or an epilogue's operands.
pub static GEMV_COOP: Kernel = Kernel {
    workgroup: SUBGROUPS * LANES,
    shared: |spec| tile(spec).shared(),
    features: FEATURES,
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
    /// Accumulators that are added up at a time.
    at_a_time: u32,
}

/// By rows, the widest first. On an NVIDIA H200, two workgroups of the first fit a multiprocessor (see `gemm_coop`), and one of the others.
#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "16x16", rows: 16, cols: 16, least: 0, at_a_time: 2 },
    Tile { name: "32x32", rows: 32, cols: 32, least: 128, at_a_time: 8 },
    Tile { name: "32x16", rows: 32, cols: 16, least: 0, at_a_time: 8 },
];

/// Half of the columns belong to each of a pair of matrices. With 32 rows, the pair has the widest tile.
#[rustfmt::skip]
const PAIR: Tile = Tile { name: "16x32", rows: 16, cols: 32, least: 0, at_a_time: 8 };

impl Tile {
    /// Bytes of workgroup memory.
    pub(crate) const fn shared(&self) -> u32 {
        SUBGROUPS * (self.rows + self.cols) * LINE * 2 + self.at_a_time * SIDE * SIDE * 4
    }
}

fn tile(spec: &Specialization) -> &'static Tile {
    let mut all = TILES.iter().chain([&PAIR]);
    all.find(|t| t.name == spec.op).unwrap_or(&PAIR)
}

/// The tile for a pair of matrices with the rows of a specialization's tile, and its columns of y.
pub(crate) fn pair_tile(spec: &Specialization) -> (&'static Tile, u32) {
    let rows = tile(spec).rows;
    let mut tiles = [&PAIR].into_iter().chain(TILES);
    let tile = tiles.find(|t| t.rows == rows).unwrap_or(&PAIR);
    (tile, tile.cols / 2)
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
    let (tile, pair) = (tile(spec), epilogue::is_pair(spec));
    text.constants(&[
        ("ROWS", tile.rows),
        ("COLS", tile.cols),
        ("OWN", if pair { tile.cols / 2 } else { tile.cols }),
        ("AT_A_TIME", tile.at_a_time),
    ]);
    let projections = is_projections(spec);
    // Without an alias: `C` is a role of cooperative matrices.
    const LINES: &str = "vec4<u32>";
    let load = |b: &str, lines: [&str; 2], start: &str| {
        let [from, to] = lines;
        let line = format!("(line_of(lane, i) - {from} * 4u) * place.stride");
        format!("for (var i = {from}; i < {to}; i++) {{ b_held[i] = {b}[({start} + {line} + k) / 8u + lane % 8u]; }}")
    };
    let (mut loads, mut stores, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (which, (b, y)) in matrices(spec).into_iter().enumerate() {
        if which > 0 {
            text.binding_of(spec, b, LINES);
            text.binding_of(spec, y, &y.to_uppercase());
        }
        if projections {
            projection_bias::put(spec, which, text)?;
        }
        loads.push(load(b, ["0u", "OWN / 4u"], "place.start"));
        words.push(format!("return {b}_word_ahead(place.start);"));
        ahead(b, 8, text);
        stores.push(format!("{y}_put(at, 4u, v);"));
    }
    if projections {
        loads = switch("place.which", loads, "{}");
        stores = switch("which", stores, "{}");
        words = switch("place.which", words, "{ return 0u; }");
        text.part(PLACE_COLUMNS);
    } else {
        text.line(
            "fn place(group: u32) -> Place { return Place(0u, group, p.n, p.b_offset, p.b_n); }",
        );
        epilogue::y_put(spec, 4, "epilogue", text)?;
    }
    if pair {
        text.binding_of(spec, "c", LINES);
        let lines = ["OWN / 4u", "COLS / 4u"];
        let start = "place.start + p.epilogue.step";
        loads.push(load("c", lines, start));
        words = vec![format!(
            "return b_word_ahead(place.start) ^ c_word_ahead({start});"
        )];
        ahead("c", 8, text);
        stores = vec!["y_put(at, 4u, v, w);".into()];
    }
    text.unrolled("load_b(lane: u32, place: Place, k: u32)", loads);
    text.unrolled("word_ahead(place: Place) -> u32", words);
    let head = "put_of(which: u32, at: u32, v: vec4<f32>, w: vec4<f32>)";
    text.unrolled(head, stores);
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
        assert_eq!(name(32, 40 << 10), Some("32x16"));
        assert_eq!(name(32, 32 << 10), None);
        assert_eq!(name(8, 32 << 10), Some("16x16"));
        assert_eq!(name(8, 16 << 10), None);
    }
}
