//! flash_coop: attention of f16 with cooperative matrices, for many queries.

use crate::error::Result;
use crate::kernel::attention::flash::{score_slots, KEYS, KEY_TILES};
use crate::kernel::attention::plan::Params;
use crate::kernel::matmul::gemm_coop::{self, FEATURES};
use crate::recorder::gpu::Gpu;
use crate::shader::{Kernel, Specialization, Text};

pub(crate) static FLASH_COOP: Kernel = Kernel {
    workgroup: THREADS,
    shared: |spec| {
        let pitch = tile(spec).head_dim + 8;
        (ROWS * pitch + ROWS * (KEYS + 8)) * 2 + ROWS * (KEYS + 4) * 4 + 2 * KEY_TILES / 8
    },
    features: FEATURES,
    slots,
    ..kernel!(
        "attention", "flash_coop", Params::LAYOUT;
        read_bound_rw q, read_bound_rw k, read_bound_rw v, read_bound_rw mask, write y
    )
};

const THREADS: u32 = 128;
/// Rows of a workgroup, and keys that it sees at a time.
pub(crate) const ROWS: u32 = 64;
/// Rows, columns and depth of a cooperative matrix.
const SIDE: u32 = 16;

pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    /// The largest last dim of q, k and v.
    pub head_dim: u32,
}

#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "64x64", head_dim: 64 },
    Tile { name: "64x96", head_dim: 96 },
    Tile { name: "64x128", head_dim: 128 },
];

/// The smallest tile for a last dim, if there is one.
pub(crate) fn tile_for(head_dim: u32) -> Option<&'static Tile> {
    TILES.iter().find(|t| t.head_dim >= head_dim)
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

/// The kernel's loops over cooperative matrices and held quads, unrolled.
fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let head_dim = tile(spec).head_dim;
    text.line(format!("const D = {head_dim}u;"));
    let starts = |end: u32| (0..end).step_by(SIDE as usize);
    let pairs = || starts(head_dim).flat_map(|c| starts(KEYS).map(move |j| (c, j)));

    let load = |c: u32| {
        let from = format!("&tile[(row * PITCH + {c}u) / 4u]");
        format!(
            "q_tiles[{}] = coopLoadT<Left>({from}, PITCH / 4u);",
            c / SIDE
        )
    };
    text.unrolled("load_q(row: u32)", starts(head_dim).map(load));

    let first = starts(KEYS).map(|j| format!("var s_{j} = Acc();"));
    let multiply = pairs().map(|(c, j)| {
        let operands = format!("q_tiles[{}], key_tile({j}u, {c}u)", c / SIDE);
        format!("s_{j} = coopMultiplyAdd({operands}, s_{j});")
    });
    let last = starts(KEYS).map(|j| format!("store_tile(s_{j}, tile_at + {j}u);"));
    text.unrolled(
        "multiply_keys(tile_at: u32)",
        first.chain(multiply).chain(last),
    );

    let multiply = starts(KEYS).flat_map(|j| {
        let weights = [format!("let w_{j} = weight_tile(row, {j}u);")];
        weights.into_iter().chain(starts(head_dim).map(move |c| {
            let acc = format!("acc[{}]", c / SIDE);
            format!("{acc} = coopMultiplyAdd(w_{j}, value_tile({j}u, {c}u), {acc});")
        }))
    });
    text.unrolled("multiply_values(row: u32)", multiply);

    let case = |c: u32| {
        let [a, b] = [c / SIDE, c / SIDE + 1];
        format!("    case {c}u: {{ store_tile(acc[{a}], tile_at); store_tile(acc[{b}], tile_at + 16u); }}")
    };
    let cases = (0..head_dim).step_by(KEYS as usize).map(case);
    let switch = ["switch c {".to_string()].into_iter().chain(cases);
    let end = ["    default: {}", "}"].map(String::from);
    text.unrolled("store_acc(c: u32, tile_at: u32)", switch.chain(end));

    // A thread holds every `THREADS`th quad of a tile of keys and of one of values.
    let quads =
        || (0..KEYS * head_dim / 4 / THREADS).map(|i| (i, format!("thread + {}u", i * THREADS)));
    for (name, held, quad, start) in [
        ("keys", "k_held", "key_quad", ""),
        ("values", "v_held", "value_quad", "KEYS * PITCH / 4u + "),
    ] {
        let fetch = quads().map(|(i, at)| format!("{held}[{i}] = {quad}({at}, base, j0);"));
        let head = format!("fetch_{name}(thread: u32, base: u32, j0: u32)");
        text.unrolled(&head, fetch);
        let stage = quads().map(|(i, at)| format!("tile[{start}slot({at})] = {held}[{i}];"));
        text.unrolled(&format!("stage_{name}(thread: u32)"), stage);
    }
    score_slots(spec, text);
    Ok(())
}
