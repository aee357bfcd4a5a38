//! The attention kernels and their specialisations.

use crate::dtype::{Compute, DType};
use crate::error::Result;
use crate::kernel::attention::flash_coop;
use crate::kernel::attention::flash_coop::{FLASH_COOP, FLASH_COOP_FILL};
use crate::kernel::matmul::gemv::SUB;
use crate::kernel::matmul::store::FLOATS;
use crate::recorder::gpu::Gpu;
use crate::shader::{read, write, Access, Binding, Kernel, Specialization, Text};

const BINDINGS: &[Binding] = &[read("q"), read("k"), read("v"), read("mask"), write("y")];
/// With what a mask puts in the place of scores.
const WITH_FILL: &[Binding] = &[
    read("q"),
    read("k"),
    read("v"),
    read("mask"),
    write("y"),
    read("fill"),
];

macro_rules! flash {
    ($bindings:expr) => {
        Kernel {
            name: "flash",
            source: wgsl!("kernel/attention/flash.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: 128,
            shared: |spec| {
                let rows = 16 * tile(spec).rows;
                ((rows + 32) * 5 + rows * 8) * 16
            },
            features: wgpu::Features::empty(),
            slots: |spec, text| {
                text.line(format!("const TM = {}u;", tile(spec).rows));
                text.line(format!("const TQ = {}u;", tile(spec).quads));
                slots(spec, text)
            },
        }
    };
}

macro_rules! flash_decode {
    ($bindings:expr) => {
        Kernel {
            name: "flash_decode",
            source: wgsl!("kernel/attention/flash_decode.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: 2 * DECODE_KEYS,
            shared: |spec| {
                let rows = block(spec).rows;
                let quads = spec.overrides.iter().find(|(name, _)| *name == "QUADS");
                let query = quads.map_or(MAX_COLUMNS as u32 / 4, |(_, quads)| *quads) * rows * 16;
                query + (rows.max(4) * 2 * DECODE_KEYS + DECODE_KEYS * (rows + 2) + 2 * rows) * 4
            },
            features: wgpu::Features::empty(),
            slots: |spec, text| {
                text.line(format!("const ROWS = {}u;", block(spec).rows));
                slots(spec, text)
            },
        }
    };
}

macro_rules! flash_decode_sub {
    ($bindings:expr) => {
        Kernel {
            name: "flash_decode_sub",
            source: wgsl!("kernel/attention/flash_decode_sub.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: THREAD_GROUP_KEYS,
            shared: |spec| THREAD_GROUP_KEYS * (16 * block(spec).quads + 8),
            features: SUB,
            slots: |spec, text| {
                text.line(format!("const ROWS = {}u;", block(spec).rows));
                text.line(format!("const PER = {}u;", block(spec).quads));
                text.line(
                    "fn of_far(v: f32, far: u32) -> f32 { return subgroupShuffleXor(v, far); }",
                );
                text.line(
                    "fn of_lane(v: f32, lane: u32) -> f32 { return subgroupShuffle(v, lane); }",
                );
                slots(spec, text)
            },
        }
    };
}

pub static FLASH: Kernel = flash!(BINDINGS);
pub static FLASH_FILL: Kernel = flash!(WITH_FILL);
pub static FLASH_DECODE: Kernel = flash_decode!(BINDINGS);
pub static FLASH_DECODE_FILL: Kernel = flash_decode!(WITH_FILL);
pub static FLASH_DECODE_SUB: Kernel = flash_decode_sub!(BINDINGS);
pub static FLASH_DECODE_SUB_FILL: Kernel = flash_decode_sub!(WITH_FILL);

pub static FLASH_MERGE: Kernel = Kernel {
    name: "flash_merge",
    source: wgsl!("kernel/attention/flash_merge.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), write("y")],
    workgroup: 64,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |_, _| Ok(()),
};

/// The most columns of q, k and v.
pub(crate) const MAX_COLUMNS: usize = 256;
/// Keys that a workgroup of [`FLASH_DECODE`] sees at a time.
pub(crate) const DECODE_KEYS: u32 = 128;
/// The same of [`FLASH_DECODE_SUB`], a thread for each.
pub(crate) const THREAD_GROUP_KEYS: u32 = 256;
/// The fewest and the most threads of one of its thread_groups, in which all columns are.
const THREAD_GROUP: [u32; 2] = [8, 32];

/// Register tile of a thread of [`FLASH`].
pub(crate) struct Tile {
    pub name: &'static str,
    /// Rows of a thread; a workgroup has 16 times as many.
    pub rows: u32,
    /// Quads of columns of a thread; a workgroup has 32 columns for each.
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

fn tile(spec: &Specialization) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.name == spec.op)
        .unwrap_or(&TILES[0])
}

/// What a workgroup of [`FLASH_DECODE`] or [`FLASH_DECODE_SUB`] owns.
pub(crate) struct Block {
    pub name: &'static str,
    pub rows: u32,
    /// Quads of columns of a thread of a thread_group.
    pub quads: u32,
}

#[rustfmt::skip]
pub(crate) const BLOCKS: &[Block] = &[
    Block { name: "1", rows: 1, quads: 1 },
    Block { name: "2", rows: 2, quads: 1 },
    Block { name: "4", rows: 4, quads: 1 },
];

/// Those of rows that are wider than a thread_group.
#[rustfmt::skip]
pub(crate) const WIDE_BLOCKS: &[Block] = &[
    Block { name: "1x2", rows: 1, quads: 2 },
    Block { name: "2x2", rows: 2, quads: 2 },
    Block { name: "4x2", rows: 4, quads: 2 },
];

fn block(spec: &Specialization) -> &'static Block {
    let mut all = BLOCKS.iter().chain(WIDE_BLOCKS);
    all.find(|b| b.name == spec.op).unwrap_or(&BLOCKS[0])
}

/// Threads of a thread_group of [`FLASH_DECODE_SUB`], and how it owns rows of so many columns, if it can.
pub(crate) fn thread_group(device: &Gpu, columns: u32) -> Option<(u32, &'static [Block])> {
    let (least, _) = device
        .subgroup()
        .filter(|_| !device.denies(&FLASH_DECODE_SUB))?;
    let [fewest, most] = THREAD_GROUP;
    let thread_group = least.min(most);
    let blocks = [BLOCKS, WIDE_BLOCKS].into_iter();
    let mut fit = blocks.filter(|blocks| columns <= 4 * thread_group * blocks[0].quads);
    fit.next()
        .filter(|_| least >= fewest)
        .map(|blocks| (thread_group, blocks))
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
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
    scores(spec, text);
    Ok(())
}

/// How products become scores, and how a row is finished.
pub(crate) fn scores(spec: &Specialization, text: &mut Text) {
    let masked = spec.overrides.iter().find(|(name, _)| *name == "MASKED");
    let fill = "vec4<f32>(fill_get(p.fill_offset))";
    let four = match spec.operands[3].1 {
        Access::Quads => "mask_get4(at.x / 4u)".to_string(),
        _ => {
            let four = match spec.dtype(3) {
                DType::U8 => "vec4<u32>",
                _ => "vec4<f32>",
            };
            format!("{four}(mask_get(at.x), mask_get(at.y), mask_get(at.z), mask_get(at.w))")
        }
    };
    let seen = match masked.map(|(_, how)| *how) {
        Some(ADD) => format!("s + {four}"),
        Some(HIDE) => format!("select(s, {fill}, {four} != vec4<u32>())"),
        Some(KEEP) => format!("select({fill}, s, {four} != vec4<u32>())"),
        _ => "s".to_string(),
    };
    if let Some(fill) = spec.bindings().nth(BINDINGS.len()) {
        let access = if fill.write { "read_write" } else { "read" };
        text.line(format!(
            "@group(0) @binding(6) var<storage, {access}> fill: array<FILL>;"
        ));
    }
    text.line(format!(
        "fn masked(s: vec4<f32>, at: vec4<u32>) -> vec4<f32> {{ return {seen}; }}"
    ));
    text.ops(Compute::F32);
    text.file(wgsl!("kernel/attention/attend.wgsl"));
}

/// Values of `override MASKED`: no mask, one that is added, one whose marks are filled, one whose marks are kept.
const ADD: u32 = 1;
const HIDE: u32 = 2;
const KEEP: u32 = 3;

/// What a mask does to scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    None,
    Add(DType),
    /// A u8 mask puts a value of a dtype in the place of the scores that it marks, or of the others.
    Fill {
        fill: DType,
        marked: bool,
    },
}

/// What a specialisation depends on beside its kernel.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub dtype: DType,
    /// q, k and v have rows that start at whole quads.
    pub whole: bool,
    pub mask: Mask,
    /// So has the mask.
    pub whole_mask: bool,
    /// y gets the sums of splits.
    pub parts: bool,
}

impl Form {
    fn spec(self, kernels: [&'static Kernel; 2], op: &'static str, x: Access) -> Specialization {
        let x = (self.dtype, x);
        let y = if self.parts { DType::F32 } else { self.dtype };
        let (mask, how) = match self.mask {
            Mask::None => (self.dtype, 0),
            Mask::Add(dtype) => (dtype, ADD),
            Mask::Fill { marked: true, .. } => (DType::U8, HIDE),
            Mask::Fill { .. } => (DType::U8, KEEP),
        };
        let reading = match self.whole_mask && self.mask != Mask::None {
            true => Access::Quads,
            false => Access::Words,
        };
        let operands = [x, x, x, (mask, reading), (y, Access::Put)];
        let kernel = kernels[usize::from(how >= HIDE)];
        let mut spec = Specialization::new(kernel, op, &operands)
            .with("MASKED", how)
            .with("PARTS", self.parts.into());
        if let Mask::Fill { fill, .. } = self.mask {
            spec.operands.push((fill, Access::Words));
        }
        spec
    }

    /// How the kernels without cooperative matrices read q, k and v.
    fn reading(self) -> Access {
        match self.whole {
            true => Access::Quads,
            false => Access::Words,
        }
    }

    pub fn flash(self, tile: &Tile) -> Specialization {
        self.spec([&FLASH, &FLASH_FILL], tile.name, self.reading())
    }

    pub fn coop(self, tile: &flash_coop::Shape) -> Specialization {
        self.spec([&FLASH_COOP, &FLASH_COOP_FILL], tile.name, Access::Raw)
    }

    pub fn decode(self, block: &Block, columns: u32) -> Specialization {
        let quads = if columns > 128 { 64 } else { 32 };
        let kernels = [&FLASH_DECODE, &FLASH_DECODE_FILL];
        self.spec(kernels, block.name, self.reading())
            .with("QUADS", quads)
    }

    /// With subgroups; a thread reads the mask of its key.
    pub fn thread_groups(self, block: &Block, thread_group: u32) -> Specialization {
        let kernels = [&FLASH_DECODE_SUB, &FLASH_DECODE_SUB_FILL];
        let form = Form {
            whole_mask: false,
            ..self
        };
        form.spec(kernels, block.name, self.reading())
            .with("THREAD_GROUP", thread_group)
    }
}

pub(crate) fn merge(dtype: DType) -> Specialization {
    let operands = [(DType::F32, Access::Quads), (dtype, Access::Put)];
    Specialization::new(&FLASH_MERGE, "", &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        all.push(merge(dtype));
        let fill = |marked| Mask::Fill {
            fill: dtype,
            marked,
        };
        let mut masks = vec![Mask::None, Mask::Add(dtype), fill(true), fill(false)];
        if dtype != DType::F32 {
            masks.push(Mask::Add(DType::F32));
            masks.extend([true, false].map(|marked| Mask::Fill {
                fill: DType::F32,
                marked,
            }));
        }
        for (i, mask) in (0..8).flat_map(|i| masks.iter().map(move |mask| (i, *mask))) {
            let [whole, parts, whole_mask] = [i & 1, i & 2, i & 4].map(|bit| bit != 0);
            // How a mask is read does not depend on how rows are.
            if !whole && (whole_mask || ![Mask::None, Mask::Add(dtype)].contains(&mask)) {
                continue;
            }
            if whole_mask && mask == Mask::None {
                continue;
            }
            let form = Form {
                dtype,
                whole,
                mask,
                whole_mask,
                parts,
            };
            all.extend(TILES.iter().map(|tile| form.flash(tile)));
            if dtype == DType::F16 && whole {
                all.extend(flash_coop::SHAPES.iter().map(|tile| form.coop(tile)));
            }
            for columns in [128, 256] {
                all.extend(BLOCKS.iter().map(|block| form.decode(block, columns)));
            }
            if !whole_mask {
                let blocks = BLOCKS.iter().chain(WIDE_BLOCKS);
                all.extend(blocks.flat_map(|b| {
                    THREAD_GROUP.map(|thread_group| form.thread_groups(b, thread_group))
                }));
            }
        }
    }
    all
}
