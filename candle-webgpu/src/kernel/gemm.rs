//! gemm: products of matrices through tiles in workgroup memory.

use crate::elem::Elem;
use crate::error::Result;
use crate::kernel::edge::{y_put, FLOATS};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::quant::QUANTS;

pub static GEMM: Kernel = Kernel {
    name: "gemm",
    source: include_str!("../../wgsl/kernel/gemm.wgsl"),
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: 256,
    shared,
    features: wgpu::Features::empty(),
    slots,
};

/// A tile of y: what a workgroup computes.
#[derive(Debug)]
pub(crate) struct Tile {
    /// The `op` of the specialisation.
    pub name: &'static str,
    /// Rows of a thread; a workgroup has 16 times as many.
    rows: u32,
    /// Quads of columns of a thread; a workgroup has 64 columns for each.
    quads: u32,
}

/// From the largest to the smallest.
pub(crate) const TILES: &[Tile] = &[
    Tile {
        name: "128x128",
        rows: 8,
        quads: 2,
    },
    Tile {
        name: "64x64",
        rows: 4,
        quads: 1,
    },
    Tile {
        name: "32x64",
        rows: 2,
        quads: 1,
    },
];

impl Tile {
    pub fn m(&self) -> u32 {
        16 * self.rows
    }

    pub fn n(&self) -> u32 {
        64 * self.quads
    }

    /// Steps along k that a workgroup holds at a time: a unit of a quantized b. The large tile of a 16-bit dtype is a third faster
    /// with 8 than with 16 on an NVIDIA H200, the others are not.
    fn depth(&self, elem: Elem, b: Access) -> u32 {
        if matches!(b, Access::Quant(_)) {
            32
        } else if self.quads == 2 && elem.size() == 2 {
            8
        } else {
            16
        }
    }

    /// Bytes of workgroup memory with rows padded by `pad` elements.
    pub fn shared(&self, elem: Elem, b: Access, pad: u32) -> u32 {
        self.depth(elem, b) * (self.m() + self.n() + 2 * pad) * 4
    }
}

fn tile(spec: &Spec) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.name == spec.op)
        .unwrap_or(&TILES[TILES.len() - 1])
}

fn shared(spec: &Spec) -> u32 {
    let pad = spec.overrides.iter().find(|(name, _)| *name == "PAD");
    let b = spec.operands[1].1;
    tile(spec).shared(spec.elem(0), b, pad.map_or(0, |(_, pad)| *pad))
}

/// How a kernel reads one of the two matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `Quads`, `Words` or, for b, `Quant`.
    pub access: Access,
    pub along_k: bool,
}

/// The specialisation for a tile, a way to read each matrix, and the dtype of y, which is made of whole
/// quads with `Put`.
pub(crate) fn spec(
    elem: Elem,
    tile: &Tile,
    [a, b]: [Reading; 2],
    y: (Elem, Access),
    limit: u32,
) -> Spec {
    let pad = if tile.shared(elem, b.access, 4) <= limit {
        4
    } else {
        0
    };
    let spec = Spec::new(&GEMM, tile.name, &[(elem, a.access), (elem, b.access), y])
        .with("A_ALONG_K", a.along_k.into())
        .with("PAD", pad);
    match b.access {
        Access::Quant(_) => spec,
        _ => spec.with("B_ALONG_K", b.along_k.into()),
    }
}

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    text.line(format!("const TM = {}u;", tile.rows));
    text.line(format!("const TQ = {}u;", tile.quads));
    let b = spec.operands[1].1;
    text.line(format!("const BK = {}u;", tile.depth(spec.elem(0), b)));
    text.file(match b {
        Access::Quant(_) => include_str!("../../wgsl/lib/gemm_b_units.wgsl"),
        _ => include_str!("../../wgsl/lib/gemm_b_quads.wgsl"),
    });
    // The name, its arguments, and the sizes and strides along k and along the other dim.
    for (i, n, args, o) in [
        (0, "a", "m: u32, k: u32", "m"),
        (1, "b", "k: u32, n: u32", "n"),
    ] {
        let at = format!("base + {o} * p.{n}_{o} + k * p.{n}_k");
        if matches!(spec.operands[i].1, Access::Quant(_)) {
            continue;
        }
        if spec.operands[i].1 == Access::Quads {
            text.line(format!(
                "fn {n}_four({args}, base: u32) -> vec4<f32> {{ return {n}_get4(({at}) / 4u); }}"
            ));
            continue;
        }
        let along = format!("{}_ALONG_K == 1u", n.to_uppercase());
        text.line(format!(
            "fn {n}_four({args}, base: u32) -> vec4<f32> {{
    let at = {at};
    let step = select(p.{n}_{o}, p.{n}_k, {along});
    let left = select(p.{o} - {o}, p.k - k, {along});
    var v = vec4<f32>({n}_get(at), 0.0, 0.0, 0.0);
    if left > 1u {{ v.y = {n}_get(at + step); }}
    if left > 2u {{ v.z = {n}_get(at + 2u * step); }}
    if left > 3u {{ v.w = {n}_get(at + 3u * step); }}
    return v;
}}"
        ));
    }
    y_put(spec, 2, text)
}

pub fn catalogue() -> Vec<Spec> {
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
    for elem in FLOATS {
        // f32 is what the parts of a product cut along k have.
        let ys = if elem == Elem::F32 {
            &[Elem::F32][..]
        } else {
            &[elem, Elem::F32]
        };
        for tile in TILES {
            for a in &readings {
                for b in &rights {
                    for &y in ys {
                        for access in [Access::Put, Access::Set] {
                            all.push(spec(elem, tile, [*a, *b], (y, access), u32::MAX));
                        }
                    }
                }
            }
        }
    }
    all
}
