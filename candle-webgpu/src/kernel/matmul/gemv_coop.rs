//! GEMV of up to 32 rows in f16 with cooperative matrices: more rows than a thread can accumulate while the matrix is read once.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemm_coop::{self, FEATURES};
use crate::recorder::gpu::Gpu;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static GEMV_COOP: Kernel = Kernel {
    workgroup: SUBGROUPS * LANES,
    shared: |spec| {
        let tile = tile(spec);
        SUBGROUPS * (tile.rows + tile.cols) * LINE * 2 + AT_A_TIME * SIDE * SIDE * 4
    },
    features: FEATURES.union(wgpu::Features::SUBGROUP_BARRIER),
    slots,
    ..kernel!("matmul", "gemv_coop", epilogue::Params::LAYOUT; read_bound_rw a, read_bound_rw b, write y)
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

fn tile(spec: &Specialization) -> &'static Tile {
    let found = TILES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&TILES[TILES.len() - 1])
}

/// The tile for m rows and n columns of k elements, if there is one.
pub(crate) fn tile_for([m, n, k]: [u32; 3]) -> Option<&'static Tile> {
    let mut tiles = TILES.iter().filter(|t| {
        m <= t.rows && k.is_multiple_of(STEP) && n.is_multiple_of(t.cols) && n / t.cols >= t.least
    });
    (m >= MIN_ROWS).then(|| tiles.next()).flatten()
}

/// The specialization for a tile and the dtype of y.
pub(crate) fn spec(tile: &Tile, out: DType) -> Specialization {
    let raw = (DType::F16, Access::Raw);
    Specialization::new(&GEMV_COOP, tile.name, &[raw, raw, (out, Access::Put)])
}

/// The loops over cooperative matrices, unrolled: compilers keep those in registers only if no loop indexes them.
fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    text.constants(&[("ROWS", tile.rows), ("COLS", tile.cols)]);
    let starts = |size: u32| (0..size).step_by(SIDE as usize);
    let sum = |m: u32, n: u32| format!("sums[{}]", m / SIDE * (tile.cols / SIDE) + n / SIDE);
    let from = |tile: &str, line: u32, k: u32| {
        format!("&{tile}_tile[({tile}_at + {line}u * LINE + {k}u) / 4u], LINE / 4u")
    };
    let mut body = Vec::new();
    for k in starts(HALF) {
        for m in starts(tile.rows) {
            body.push(format!(
                "let a_{k}_{m} = coopLoadT<Left>({});",
                from("a", m, k)
            ));
        }
        for n in starts(tile.cols) {
            body.push(format!(
                "let b_{k}_{n} = coopLoad<Right>({});",
                from("b", n, k)
            ));
            for m in starts(tile.rows) {
                let sum = sum(m, n);
                body.push(format!(
                    "{sum} = coopMultiplyAdd(a_{k}_{m}, b_{k}_{n}, {sum});"
                ));
            }
        }
    }
    text.unrolled("multiply(a_at: u32, b_at: u32)", body);
    let pieces = starts(tile.rows).flat_map(|m| starts(tile.cols).map(move |n| (m, n)));
    let add_up = pieces.map(|(m, n)| format!("add_up({}, {m}u, n0 + {n}u, thread);", sum(m, n)));
    text.unrolled("finish(n0: u32, thread: u32)", add_up);
    epilogue::y_put(spec, 4, "epilogue", text)?;
    text.part(epilogue::PARAMS);
    Ok(())
}

/// Whether the kernel can use this kind of cooperative matrix: it assumes 16 x 16 matrices and subgroups of 32.
pub(crate) fn suits(device: &Gpu, kind: &gemm_coop::Tile) -> bool {
    device.subgroup == Some((LANES, LANES)) && kind.side == SIDE
}

pub fn catalogue() -> Vec<Specialization> {
    let dtypes = [DType::F16, DType::F32];
    let each = |tile| dtypes.map(|out| spec(tile, out));
    TILES.iter().flat_map(each).collect()
}
