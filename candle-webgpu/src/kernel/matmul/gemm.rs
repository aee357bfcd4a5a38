//! GEMM with tiles in workgroup memory.

use crate::dtype::quant::QUANTS;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue::y_put;
use crate::kernel::matmul::store::FLOATS;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

pub static GEMM: Kernel = Kernel {
    name: "gemm",
    source: wgsl!("kernel/matmul/gemm.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: 256,
    shared,
    features: wgpu::Features::empty(),
    slots,
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
pub(crate) const TILES: &[Tile] = &[
    Tile {
        name: "128x128",
        threads: 256,
        across: 16,
        rows: 8,
        quads: 2,
        least: 256,
    },
    Tile {
        name: "128x64",
        threads: 128,
        across: 8,
        rows: 8,
        quads: 2,
        least: 128,
    },
    Tile {
        name: "32x64",
        threads: 256,
        across: 16,
        rows: 2,
        quads: 1,
        least: 0,
    },
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
    let pad = if tile.shared(b.access, 4) <= limit {
        4
    } else {
        0
    };
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
    let tile = tile(spec);
    text.line(format!("const THREADS = {}u;", tile.threads));
    text.line(format!("const ACROSS = {}u;", tile.across));
    text.line(format!("const TM = {}u;", tile.rows));
    text.line(format!("const TQ = {}u;", tile.quads));
    let b = spec.operands[1].1;
    let depth = Tile::depth(b);
    text.line(format!("const BK = {depth}u;"));
    unrolled(tile, depth, text);
    text.file(match b {
        Access::Quant(_) => wgsl!("kernel/matmul/gemm_b_units.wgsl"),
        _ => wgsl!("kernel/matmul/gemm_b_quads.wgsl"),
    });
    // The names of the function, the operand and its other dim.
    for (i, f, n, o) in [(0, "a_four", "a", "m"), (1, "b_read", "b", "n")] {
        let up = n.to_uppercase();
        match spec.operands[i].1 {
            Access::Quant(_) => {}
            Access::Quads => text.line(format!(
                "const {up}_UNIT = 4u;
fn {f}(start: u32, at: vec2<u32>) -> vec4<f32> {{ return {n}_get4(start); }}"
            )),
            _ => text.line(format!(
                "const {up}_UNIT = 1u;
fn {f}(start: u32, at: vec2<u32>) -> vec4<f32> {{
    let step = select(p.{n}_{o}, p.{n}_k, {up}_ALONG_K == 1u);
    let left = select(p.{o} - at.x, p.k - at.y, {up}_ALONG_K == 1u);
    var v = vec4<f32>({n}_get(start), 0.0, 0.0, 0.0);
    if left > 1u {{ v.y = {n}_get(start + step); }}
    if left > 2u {{ v.z = {n}_get(start + 2u * step); }}
    if left > 3u {{ v.w = {n}_get(start + 3u * step); }}
    return v;
}}"
            )),
        }
    }
    y_put(spec, 4, text)
}

/// The unrolled loops over the tiles in workgroup memory and over the accumulators: one line per vec4.
fn unrolled(tile: &Tile, depth: u32, text: &mut Text) {
    text.line("fn multiply(row: u32, col: u32) {");
    for k in 0..depth {
        for q in 0..tile.quads {
            text.line(format!(
                "    let b_{k}_{q} = b_four({k}u, col + {}u);",
                q * 4 * tile.across
            ));
        }
        for i in 0..tile.rows {
            text.line(format!(
                "    let a_{k}_{i} = a_tile[{k}u * (BM + PAD) + row + {i}u];"
            ));
            for q in 0..tile.quads {
                text.line(format!(
                    "    acc[{}] += a_{k}_{i} * b_{k}_{q};",
                    i * tile.quads + q
                ));
            }
        }
    }
    text.line("}\nfn keep(m: u32, n: u32, above: u32) {");
    for i in 0..tile.rows {
        for q in 0..tile.quads {
            let (acc, n) = (i * tile.quads + q, q * 4 * tile.across);
            text.line(format!(
                "    keep_four(m + {i}u, n + {n}u, above, acc[{acc}]);"
            ));
        }
    }
    text.line("}");
}

pub fn catalogue() -> Vec<Specialization> {
    let mut readings = Vec::new();
    for access in [Access::Quads, Access::Words] {
        for along_k in [true, false] {
            readings.push(Reading { access, along_k });
        }
    }
    let blocks = QUANTS.iter().map(|row| Reading {
        access: Access::Quant(row.quant),
        along_k: true,
    });
    let rights: Vec<Reading> = readings.iter().copied().chain(blocks).collect();
    let mut all = Vec::new();
    for dtype in FLOATS {
        // Split-K parts are f32.
        let ys = if dtype == DType::F32 {
            &[DType::F32][..]
        } else {
            &[dtype, DType::F32]
        };
        for tile in TILES {
            for a in &readings {
                for b in &rights {
                    for &y in ys {
                        for access in [Access::Put, Access::Set] {
                            for whole_k in [true, false] {
                                all.push(spec(
                                    dtype,
                                    tile,
                                    [*a, *b],
                                    whole_k,
                                    (y, access),
                                    u32::MAX,
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    all
}
