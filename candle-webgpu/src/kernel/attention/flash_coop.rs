//! flash_coop: attention of f16 with cooperative matrices, for many queries.

use crate::error::Result;
use crate::kernel::attention::specialization::scores;
use crate::kernel::matmul::gemm_coop::{Tile, FEATURES};
use crate::recorder::gpu::Gpu;
use crate::shader::{read_bound_rw, write, Kernel, Specialization, Text};

macro_rules! kernel {
    ($($more:expr),*) => {
        Kernel {
            name: "flash_coop",
            source: wgsl!("kernel/attention/flash_coop.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: &[read_bound_rw("q"), read_bound_rw("k"), read_bound_rw("v"), read_bound_rw("mask"), write("y"), $($more),*],
            workgroup: 128,
            shared: |spec| {
                let rows = shape(spec).columns + 8;
                (ROWS * rows + ROWS * (KEYS + 8)) * 2 + ROWS * (KEYS + 4) * 4 + 2 * TILES / 8
            },
            features: FEATURES,
            slots,
        }
    };
}

pub(crate) static FLASH_COOP: Kernel = kernel!();
/// With what a mask puts in the place of scores.
pub(crate) static FLASH_COOP_FILL: Kernel = kernel!(read_bound_rw("fill"));

/// Rows of a workgroup, and keys that it sees at a time.
pub(crate) const ROWS: u32 = 64;
pub(crate) const KEYS: u32 = 32;
/// The most tiles of keys of a split.
pub(crate) const TILES: u32 = 512;
/// Rows, columns and depth of a cooperative matrix.
const PIECE: usize = 16;

pub(crate) struct Shape {
    /// The `op` of the specialisation.
    pub name: &'static str,
    /// The most columns of q, k and v.
    pub columns: u32,
}

#[rustfmt::skip]
pub(crate) const SHAPES: &[Shape] = &[
    Shape { name: "64x64", columns: 64 },
    Shape { name: "64x96", columns: 96 },
    Shape { name: "64x128", columns: 128 },
];

/// Whether trusted matrices are of 16 x 16, and subgroups of 32 and nothing else, for which a workgroup is laid out.
pub(crate) fn suits(device: &Gpu) -> bool {
    let is_piece = |tile: &Tile| tile.side as usize == PIECE;
    let tiles = device.coop_tiles();
    device.subgroup() == Some((32, 32)) && tiles.is_some_and(|tiles| tiles.iter().all(is_piece))
}

fn shape(spec: &Specialization) -> &'static Shape {
    let found = SHAPES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&SHAPES[SHAPES.len() - 1])
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let columns = shape(spec).columns;
    text.line(format!("const D = {columns}u;"));
    let starts = |end: u32| (0..end).step_by(PIECE);
    let at = |c: u32| c as usize / PIECE;
    text.line("fn take_rows(row: u32) {");
    for c in starts(columns) {
        let from = format!("&tile[(row * PITCH + {c}u) / 4u]");
        text.line(format!(
            "    lefts[{}] = coopLoadT<Left>({from}, PITCH / 4u);",
            at(c)
        ));
    }
    text.line("}\nfn multiply(mine: u32) {");
    for j in starts(KEYS) {
        text.line(format!("    var s_{j} = Sum();"));
    }
    for c in starts(columns) {
        for j in starts(KEYS) {
            text.line(format!(
                "    s_{j} = coopMultiplyAdd(lefts[{}], key_piece({j}u, {c}u), s_{j});",
                at(c)
            ));
        }
    }
    for j in starts(KEYS) {
        text.line(format!("    keep_piece(s_{j}, mine + {j}u);"));
    }
    text.line("}\nfn add_up(row: u32) {");
    for j in starts(KEYS) {
        text.line(format!("    let w_{j} = weight_piece(row, {j}u);"));
        for c in starts(columns) {
            let sum = format!("sums[{}]", at(c));
            text.line(format!(
                "    {sum} = coopMultiplyAdd(w_{j}, value_piece({j}u, {c}u), {sum});"
            ));
        }
    }
    text.line("}\nfn show(c: u32, mine: u32) {\n    switch c {");
    for c in (0..columns).step_by(KEYS as usize) {
        text.line(format!(
            "        case {c}u: {{ keep_piece(sums[{}], mine); keep_piece(sums[{}], mine + 16u); }}",
            at(c),
            at(c) + 1
        ));
    }
    text.line("        default: {}\n    }\n}");
    let holds = || 0..KEYS * columns / 4 / 128;
    let at = |i: u32| format!("thread + {}u", i * 128);
    for (name, hold, from) in [
        ("keys", "k_hold", "key_quad"),
        ("values", "v_hold", "value_quad"),
    ] {
        text.line(format!(
            "fn fetch_{name}(thread: u32, base: u32, j0: u32) {{"
        ));
        for i in holds() {
            text.line(format!("    {hold}[{i}] = {from}({}, base, j0);", at(i)));
        }
        let below = if name == "keys" {
            ""
        } else {
            "KEYS * PITCH / 4u + "
        };
        text.line(format!("}}\nfn stage_{name}(thread: u32) {{"));
        for i in holds() {
            text.line(format!("    tile[{below}slot({})] = {hold}[{i}];", at(i)));
        }
        text.line("}");
    }
    scores(spec, text);
    Ok(())
}
