//! The attention kernels and their specialisations.

use crate::elem::{Compute, Elem};
use crate::error::Result;
use crate::kernel::edge::FLOATS;
use crate::link::{read, write, Access, Binding, Kernel, Spec, Text};

const BINDINGS: &[Binding] = &[read("q"), read("k"), read("v"), read("mask"), write("y")];

pub static FLASH: Kernel = Kernel {
    name: "flash",
    source: include_str!("../../wgsl/kernel/flash.wgsl"),
    bindings: BINDINGS,
    workgroup: 128,
    shared: |spec| {
        let rows = 16 * tile(spec).rows;
        ((rows + 32) * 5 + rows * 8) * 16
    },
    features: wgpu::Features::empty(),
    slots,
};

pub static FLASH_DECODE: Kernel = Kernel {
    name: "flash_decode",
    source: include_str!("../../wgsl/kernel/flash_decode.wgsl"),
    bindings: BINDINGS,
    workgroup: 128,
    shared: |spec| {
        let rows = block(spec).rows;
        let quads = spec.overrides.iter().find(|(name, _)| *name == "QUADS");
        let query = quads.map_or(MAX_COLUMNS as u32 / 4, |(_, quads)| *quads) * rows * 16;
        query + (rows.max(4) * 128 + DECODE_KEYS * rows + 128 + 2 * rows) * 4
    },
    features: wgpu::Features::empty(),
    slots,
};

pub static FLASH_MERGE: Kernel = Kernel {
    name: "flash_merge",
    source: include_str!("../../wgsl/kernel/flash_merge.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: 64,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |_, _| Ok(()),
};

/// The most columns of q, k and v.
pub(super) const MAX_COLUMNS: usize = 256;
/// Keys that a workgroup of [`FLASH_DECODE`] sees at a time.
pub(super) const DECODE_KEYS: u32 = 64;

/// Register tile of a thread of [`FLASH`].
pub(super) struct Tile {
    pub name: &'static str,
    /// Rows of a thread; a workgroup has 16 times as many.
    pub rows: u32,
    /// Quads of columns of a thread; a workgroup has 32 columns for each.
    pub quads: u32,
}

#[rustfmt::skip]
pub(super) const TILES: &[Tile] = &[
    Tile { name: "32x64",  rows: 2, quads: 2 },
    Tile { name: "32x128", rows: 2, quads: 4 },
    Tile { name: "32x256", rows: 2, quads: 8 },
    Tile { name: "64x64",  rows: 4, quads: 2 },
    Tile { name: "64x128", rows: 4, quads: 4 },
];

fn tile(spec: &Spec) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.name == spec.op)
        .unwrap_or(&TILES[0])
}

/// Rows of a workgroup of [`FLASH_DECODE`].
pub(super) struct Block {
    pub name: &'static str,
    pub rows: u32,
}

#[rustfmt::skip]
pub(super) const BLOCKS: &[Block] = &[
    Block { name: "1", rows: 1 },
    Block { name: "2", rows: 2 },
    Block { name: "4", rows: 4 },
    Block { name: "8", rows: 8 },
];

fn block(spec: &Spec) -> &'static Block {
    BLOCKS
        .iter()
        .find(|b| b.name == spec.op)
        .unwrap_or(&BLOCKS[BLOCKS.len() - 1])
}

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    if std::ptr::eq(spec.kernel, &FLASH) {
        text.line(format!("const TM = {}u;", tile(spec).rows));
        text.line(format!("const TQ = {}u;", tile(spec).quads));
    } else {
        text.line(format!("const ROWS = {}u;", block(spec).rows));
    }
    for (n, step) in [("q", "x"), ("k", "y"), ("v", "z")] {
        text.line(if spec.operands[0].1 == Access::Quads {
            format!("fn {n}_four(base: u32, c: u32) -> vec4<f32> {{ return {n}_get4((base + c) / 4u); }}")
        } else {
            format!(
                "fn {n}_four(base: u32, c: u32) -> vec4<f32> {{
    let step = p.steps.{step};
    let at = base + c * step;
    return vec4<f32>({n}_get(at), {n}_get(at + step), {n}_get(at + 2u * step), {n}_get(at + 3u * step));
}}"
            )
        });
    }
    text.ops(Compute::F32);
    text.file(include_str!("../../wgsl/lib/attend.wgsl"));
    Ok(())
}

/// What a specialisation depends on beside its kernel.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub elem: Elem,
    /// q, k and v have rows that start at whole quads.
    pub whole: bool,
    pub masked: bool,
    /// y gets the sums of splits.
    pub parts: bool,
}

impl Form {
    fn spec(self, kernel: &'static Kernel, op: &'static str) -> Spec {
        let x = match self.whole {
            true => (self.elem, Access::Quads),
            false => (self.elem, Access::Words),
        };
        let y = if self.parts { Elem::F32 } else { self.elem };
        let mask = (self.elem, Access::Words);
        Spec::new(kernel, op, &[x, x, x, mask, (y, Access::Put)])
            .with("MASKED", self.masked.into())
            .with("PARTS", self.parts.into())
    }

    pub fn flash(self, tile: &Tile) -> Spec {
        self.spec(&FLASH, tile.name)
    }

    pub fn decode(self, block: &Block, columns: u32) -> Spec {
        let quads = if columns > 128 { 64 } else { 32 };
        self.spec(&FLASH_DECODE, block.name).with("QUADS", quads)
    }
}

pub(super) fn merge(elem: Elem) -> Spec {
    let operands = [(Elem::F32, Access::Quads), (elem, Access::Put)];
    Spec::new(&FLASH_MERGE, "", &operands)
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for elem in FLOATS {
        all.push(merge(elem));
        for i in 0..8 {
            let [whole, masked, parts] = [i & 1, i & 2, i & 4].map(|bit| bit != 0);
            let form = Form {
                elem,
                whole,
                masked,
                parts,
            };
            all.extend(TILES.iter().map(|tile| form.flash(tile)));
            for columns in [128, 256] {
                all.extend(BLOCKS.iter().map(|block| form.decode(block, columns)));
            }
        }
    }
    all
}
