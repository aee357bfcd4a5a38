//! flash: attention of many queries, tiled in registers; and the slots that all attention kernels share.

use crate::dtype::{Compute, DType};
use crate::error::Result;
use crate::kernel::attention::plan::{Params, ADD, HIDE, KEEP};
use crate::shader::{function, renamed, Access, Kernel, Specialization, Text};

/// Keys that a workgroup sees at a time, here and in `flash_coop`, where elements of two parts leave room for half as many.
pub(crate) const KEYS: u32 = 32;

pub static FLASH: Kernel = Kernel {
    workgroup: 128,
    shared: |spec| {
        let rows = 16 * tile(spec).rows;
        ((rows + 32) * 5 + rows * 8) * 16
    },
    slots: |spec, text| {
        text.file(wgsl!("lib/tile_place.wgsl"));
        text.line(format!("const TM = {}u;", tile(spec).rows));
        text.line(format!("const TQ = {}u;", tile(spec).quads));
        text.file(wgsl!("kernel/attention/row_tile.wgsl"));
        row_slots(spec, text)
    },
    ..kernel!("attention", "flash", Params::LAYOUT; read q, read k, read v, read mask, write y)
};

/// Register tile of a thread.
pub(crate) struct Tile {
    /// The `op` of the specialization: rows and columns of a workgroup.
    pub name: &'static str,
    /// Rows of a thread; a workgroup has 16 times as many.
    pub rows: u32,
    /// Quads of columns of v of a thread; a workgroup has 32 columns for each.
    pub quads: u32,
}

#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "32x64",  rows: 2, quads: 2 },
    Tile { name: "32x128", rows: 2, quads: 4 },
    Tile { name: "32x256", rows: 2, quads: 8 },
    Tile { name: "64x64",  rows: 4, quads: 2 },
    Tile { name: "64x128", rows: 4, quads: 4 },
];

/// The tile for rows of `v_dim` columns. With `wide` subgroups ([`Gpu::wide_subgroups`](crate::recorder::gpu::Gpu::wide_subgroups)), tiles of
/// 64 rows run at one or two waves a SIMD, and those of 32 at two or three.
pub(super) fn tile_for(v_dim: u32, rows: u32, wide: bool) -> &'static Tile {
    let fits = |t: &&Tile| t.quads * 32 >= v_dim && (rows > 32 && !wide || t.rows == 2);
    let tiles = TILES.iter().filter(fits);
    let tile = tiles.min_by_key(|t| (t.quads, std::cmp::Reverse(t.rows)));
    tile.unwrap_or(&TILES[0])
}

fn tile(spec: &Specialization) -> &'static Tile {
    let found = TILES.iter().find(|t| t.name == spec.op);
    found.unwrap_or(&TILES[0])
}

/// `q_four`, `k_four` and `v_four`, which read four elements of a row, and [`score_slots`].
pub(super) fn row_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    four_slots(spec, text, &[("q", "x"), ("k", "y"), ("v", "z")]);
    score_slots(spec, text);
    text.file(wgsl!("kernel/attention/rows.wgsl"));
    Ok(())
}

/// `{n}_four` of operands, and `{n}_quad`, for which rows start in units of `{n}_start`. Each operand has its own component of
/// `p.inner_strides`.
pub(super) fn four_slots(spec: &Specialization, text: &mut Text, operands: &[(&str, &str)]) {
    let strided = function(wgsl!("kernel/attention/strided_four.wgsl"), "q_four");
    for (n, stride) in operands {
        let [four, get] = ["four", "get"].map(|what| format!("{n}_{what}"));
        if spec.operands[0].1 == Access::Quads {
            text.line(format!(
                "fn {four}(base: u32, c: u32) -> vec4<f32> {{ return {get}4((base + c) / 4u); }}"
            ));
            text.line(format!(
                "fn {n}_start(at: u32) -> u32 {{ return at / 4u; }}"
            ));
            text.line(format!(
                "fn {n}_quad(start: u32, quad: u32) -> vec4<f32> {{ return {get}4(start + quad); }}"
            ));
        } else {
            let names = [("q_four", &*four), ("q_get", &*get), ("x", *stride)];
            text.line(renamed(strided, &names));
            text.line(format!("fn {n}_start(at: u32) -> u32 {{ return at; }}"));
            text.line(format!(
                "fn {n}_quad(start: u32, quad: u32) -> vec4<f32> {{ return {four}(start, quad * 4u); }}"
            ));
        }
    }
}

/// How matmuls become scores, what the mask does to tiles of keys, how a row of y is finished, and the parameters.
pub(super) fn score_slots(spec: &Specialization, text: &mut Text) {
    let fill = "vec4<f32>(fill_get(p.fill_offset))";
    let four = mask_four(spec);
    let (seen, always_visible) = match spec.value("MASKED") {
        Some(ADD) => (format!("s + {four}"), "0u"),
        Some(HIDE) => (format!("select(s, {fill}, {four} != vec4<u32>())"), FILLED),
        Some(KEEP) => (format!("select({fill}, s, {four} != vec4<u32>())"), FILLED),
        _ => ("s".to_string(), "0u"),
    };
    text.bindings(spec, spec.kernel.bindings.len());
    text.line(format!(
        "fn masked(s: vec4<f32>, at: vec4<u32>) -> vec4<f32> {{ return {seen}; }}"
    ));
    text.line("alias BLOCK_MASK = u32;");
    if spec.binds("block_mask") {
        text.line(format!(
            "fn always_visible() -> u32 {{ return {always_visible}; }}"
        ));
        text.part(wgsl!("kernel/attention/block_bits.wgsl"));
    } else {
        text.line("fn block_bits(own: ptr<function, RowTile>, j: u32) -> u32 { return 1u; }");
    }
    text.part(wgsl!("kernel/attention/params.wgsl"));
    text.ops(Compute::F32);
    text.file(wgsl!("kernel/attention/scores.wgsl"));
}

/// What is filled is visible unless it is filled with -inf: bit 0 of all blocks of a word.
const FILLED: &str = "select(0u, 0x55555555u, fill_get(p.fill_offset) != p.neg_inf)";

/// The mask of four keys, which lie at `at`.
pub(super) fn mask_four(spec: &Specialization) -> String {
    let (dtype, access) = spec.operands[spec.place("mask").unwrap_or(3)];
    if access == Access::Quads {
        return "mask_get4(at.x / 4u)".to_string();
    }
    let lanes = if dtype == DType::U8 { "u32" } else { "f32" };
    format!("vec4<{lanes}>(mask_get(at.x), mask_get(at.y), mask_get(at.z), mask_get(at.w))")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_subgroups_take_tiles_of_few_rows() {
        let name = |v_dim, rows, wide| tile_for(v_dim, rows, wide).name;
        for (v_dim, usual, wide) in [
            (64, "64x64", "32x64"),
            (128, "64x128", "32x128"),
            (256, "32x256", "32x256"),
        ] {
            assert_eq!(name(v_dim, 512, false), usual);
            assert_eq!(name(v_dim, 512, true), wide);
            assert_eq!(name(v_dim, 32, false), wide);
        }
    }
}
