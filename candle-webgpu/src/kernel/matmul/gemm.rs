//! GEMM with tiles in workgroup memory.

use crate::dtype::quant::QUANTS;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue::{y_put, Params, PARAMS};
use crate::kernel::matmul::store::FLOATS;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static GEMM: Kernel = Kernel {
    workgroup: 256,
    shared,
    slots,
    ..kernel!("matmul", "gemm", Params::LAYOUT; read a, read b, write y)
};

/// The tile of y that a workgroup computes.
pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    threads: u32,
    /// Threads side by side along n.
    across: u32,
    /// Rows per thread.
    rows: u32,
    /// Quads of columns per thread.
    quads: u32,
    /// The fewest tiles, times split-K parts, that fill a large adapter.
    pub least: u64,
}

/// From the largest to the smallest.
#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { name: "128x128", threads: 256, across: 16, rows: 8, quads: 2, least: 256 },
    Tile { name: "128x64",  threads: 128, across: 8,  rows: 8, quads: 2, least: 128 },
    Tile { name: "32x64",   threads: 256, across: 16, rows: 2, quads: 1, least: 0 },
];

impl Tile {
    pub fn m(&self) -> u32 {
        self.threads / self.across * self.rows
    }

    pub fn n(&self) -> u32 {
        4 * self.across * self.quads
    }

    /// The depth of a tile along k; for a quantized b, one unit.
    pub fn depth(b: Access) -> u32 {
        match b {
            Access::Quant(_) => 32,
            _ => 16,
        }
    }

    /// Bytes of workgroup memory, with rows padded by `pad` elements.
    pub fn shared(&self, b: Access, pad: u32) -> u32 {
        Self::depth(b) * (self.m() + self.n() + 2 * pad) * 4
    }
}

/// The [`TILES`] to choose from. With wide subgroups ([`Gpu::wide_subgroups`](crate::recorder::gpu::Gpu::wide_subgroups)), all but the last run at one
/// wave a SIMD on a quantized b, and the last at four.
pub(crate) fn candidates(b: Access, wide: bool) -> &'static [Tile] {
    match b {
        Access::Quant(_) if wide => &TILES[TILES.len() - 1..],
        _ => TILES,
    }
}

fn tile(spec: &Specialization) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.name == spec.op)
        .unwrap_or(&TILES[TILES.len() - 1])
}

fn shared(spec: &Specialization) -> u32 {
    tile(spec).shared(spec.operands[1].1, spec.value("PAD").unwrap_or(0))
}

/// How a kernel reads one of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `Quads`, `Words` or, for b, `Quant`.
    pub access: Access,
    pub along_k: bool,
}

/// The specialization for a tile, the reading of each operand, whether k is a multiple of the tile's depth, and the dtype of y, whose
/// rows are whole quads with `Put`. `limit` is the adapter's workgroup memory in bytes.
pub(crate) fn spec(
    dtype: DType,
    tile: &Tile,
    [a, b]: [Reading; 2],
    whole_k: bool,
    y: (DType, Access),
    limit: u32,
) -> Specialization {
    let pad = 4 * u32::from(tile.shared(b.access, 4) <= limit);
    let operands = [(dtype, a.access), (dtype, b.access), y];
    let spec = Specialization::new(&GEMM, tile.name, &operands)
        .workgroup(tile.threads)
        .with("A_ALONG_K", a.along_k.into())
        .with("PAD", pad)
        .with("WHOLE_K", whole_k.into());
    match b.access {
        Access::Quant(_) => spec,
        _ => spec.with("B_ALONG_K", b.along_k.into()),
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    text.file(wgsl!("lib/tile_place.wgsl"));
    let tile = tile(spec);
    let b = spec.operands[1].1;
    let depth = Tile::depth(b);
    text.constants(&[
        ("THREADS", tile.threads),
        ("ACROSS", tile.across),
        ("TM", tile.rows),
        ("TQ", tile.quads),
        ("BK", depth),
    ]);
    unrolled(tile, depth, text);
    text.file(match b {
        Access::Quant(_) => wgsl!("kernel/matmul/gemm_b_units.wgsl"),
        _ => wgsl!("kernel/matmul/gemm_b_quads.wgsl"),
    });
    // The loads are written for a, whose other dim is m.
    let names = [("a_four", "b_read"), ("a_m", "b_n"), ("m", "n")];
    for (i, n, names) in [(0, "a", &[][..]), (1, "b", &names)] {
        let file = match spec.operands[i].1 {
            Access::Quant(_) => continue,
            Access::Quads => wgsl!("kernel/matmul/gemm_quads.wgsl"),
            _ => wgsl!("kernel/matmul/gemm_words.wgsl"),
        };
        text.part_for(file, ["a", n], names);
    }
    y_put(spec, 4, "epilogue", text)?;
    text.part(PARAMS);
    Ok(())
}

/// The unrolled loops over the tiles in workgroup memory and over the accumulators: one line per vec4.
fn unrolled(tile: &Tile, depth: u32, text: &mut Text) {
    let mut body = Vec::new();
    for k in 0..depth {
        for q in 0..tile.quads {
            let n = q * 4 * tile.across;
            body.push(format!("let b_{k}_{q} = b_four({k}u, col + {n}u);"));
        }
        for i in 0..tile.rows {
            body.push(format!(
                "let a_{k}_{i} = a_tile[{k}u * (BM + PAD) + row + {i}u];"
            ));
            for q in 0..tile.quads {
                let acc = i * tile.quads + q;
                body.push(format!("acc[{acc}] += a_{k}_{i} * b_{k}_{q};"));
            }
        }
    }
    text.unrolled("multiply(row: u32, col: u32)", body);
    let keep = (0..tile.rows * tile.quads).map(|acc| {
        let (i, n) = (acc / tile.quads, acc % tile.quads * 4 * tile.across);
        format!("keep_four(m + {i}u, n + {n}u, above, acc[{acc}]);")
    });
    text.unrolled("keep(m: u32, n: u32, above: u32)", keep);
}

pub fn catalogue() -> Vec<Specialization> {
    let reading = |access| [true, false].map(|along_k| Reading { access, along_k });
    let readings = [Access::Quads, Access::Words].map(reading).concat();
    let blocks = QUANTS.iter().map(|row| Reading {
        access: Access::Quant(row.quant),
        along_k: true,
    });
    let rights: Vec<Reading> = readings.iter().copied().chain(blocks).collect();
    let mut all = Vec::new();
    for dtype in FLOATS {
        // Split-K parts are f32.
        let partial = (dtype != DType::F32).then_some(DType::F32);
        let ys = [dtype].into_iter().chain(partial);
        let ys = ys.flat_map(|y| [(y, Access::Put), (y, Access::Set)]);
        for tile in TILES {
            for a in &readings {
                for b in &rights {
                    for y in ys.clone() {
                        let spec = |whole_k| spec(dtype, tile, [*a, *b], whole_k, y, u32::MAX);
                        all.extend([true, false].map(spec));
                    }
                }
            }
        }
    }
    all
}
