//! The kernels of convolutions and their specializations.

use crate::dtype::{Compute, DType, MATMUL, MATMUL_F32, NUMBERS};
use crate::error::Result;
use crate::kernel::conv::Params;
use crate::kernel::matmul::store::put;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static CONV_GEMM: Kernel = Kernel {
    workgroup: 256,
    shared: |spec| tile(spec).shared(spec.value("PAD").unwrap_or(0)),
    slots: gemm_slots,
    ..kernel!("conv", "conv_gemm", Params::LAYOUT; read w, read x, write y)
};

pub static CONV_DIRECT: Kernel = Kernel {
    slots: direct_slots,
    ..kernel!("conv", "conv_direct", Params::LAYOUT; read w, read x, write y)
};

/// The tile of y that a workgroup computes.
pub(crate) struct Tile {
    /// `op` of a convolution and of a transposed one.
    names: [&'static str; 2],
    /// Channels of a thread; a workgroup has 16 times as many.
    rows: u32,
    /// Quads of positions of a thread; a workgroup has 64 positions for each.
    quads: u32,
}

/// From the largest to the smallest.
#[rustfmt::skip]
pub(crate) const TILES: &[Tile] = &[
    Tile { names: ["conv_128x128", "conv_transpose_128x128"], rows: 8, quads: 2 },
    Tile { names: ["conv_64x64", "conv_transpose_64x64"], rows: 4, quads: 1 },
    Tile { names: ["conv_32x64", "conv_transpose_32x64"], rows: 2, quads: 1 },
];

/// Depth of a tile along k; `BK` in the shader.
pub(super) const BK: u32 = 16;

impl Tile {
    pub fn channels(&self) -> u32 {
        16 * self.rows
    }

    pub fn columns(&self) -> u32 {
        64 * self.quads
    }

    pub fn name(&self, transposed: bool) -> &'static str {
        self.names[usize::from(transposed)]
    }

    /// Bytes of workgroup memory, with rows of w padded by `pad` elements.
    pub fn shared(&self, pad: u32) -> u32 {
        BK * (self.channels() + pad + self.columns()) * 4
    }
}

fn tile(spec: &Specialization) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.names.contains(&spec.op))
        .unwrap_or(&TILES[TILES.len() - 1])
}

/// The GEMM kernel with a tile's name as `op`, w as `Quads` or `Words`, y as `Put` or `Set`.
pub(crate) fn gemm(
    op: &'static str,
    w: (DType, Access),
    y: (DType, Access),
    pad: u32,
) -> Specialization {
    let operands = [w, (w.0, Access::Words), y];
    Specialization::new(&CONV_GEMM, op, &operands).with("PAD", pad)
}

const CONV: &str = "conv";
const CONV_TRANSPOSE: &str = "conv_transpose";

pub(crate) fn direct(dtype: DType, transposed: bool) -> Specialization {
    let op = if transposed { CONV_TRANSPOSE } else { CONV };
    let operands = [Access::Words, Access::Words, Access::Put].map(|access| (dtype, access));
    Specialization::new(&CONV_DIRECT, op, &operands)
}

fn gemm_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    text.file(wgsl!("lib/tile_place.wgsl"));
    text.constants(&[("TM", tile.rows), ("TQ", tile.quads)]);
    if spec.op == tile.name(false) {
        text.line("fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> { return i * stride - padding; }");
        text.line("fn source(place: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> { return place + tap; }");
    } else {
        text.part(wgsl!("kernel/conv/conv_gemm_transposed.wgsl"));
    }
    if spec.operands[0].1 == Access::Quads {
        text.line("fn w_four(o: u32, k: u32) -> vec4<f32> { return w_get4((p.w_offset + o * p.w_strides.x + k) / 4u); }");
    } else {
        text.part(wgsl!("kernel/conv/conv_gemm_w_elements.wgsl"));
    }
    let accumulators = tile.rows * tile.quads;
    let store = (0..accumulators).map(|i| {
        let (row, column) = (i / tile.quads, i % tile.quads * 64);
        format!("store(o + {row}u, column + {column}u, sums[{i}]);")
    });
    let head = format!("finish(sums: array<vec4<f32>, {accumulators}>, o: u32, column: u32)");
    text.unrolled(&head, store);
    put(spec, 2, text)
}

fn direct_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    if spec.op == CONV {
        text.line("fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> { return i * p.stride + tap * p.dilation - p.padding; }");
    } else {
        text.part(wgsl!("kernel/conv/conv_direct_transposed.wgsl"));
    }
    let compute = spec.info(2).compute;
    if matches!(compute, Compute::I64 | Compute::F64) {
        text.ops(compute);
        text.line("fn more(sum: YV, a: YV, b: YV) -> YV { return badd(sum, bmul(a, b)); }");
    } else {
        text.line("fn more(sum: YV, a: YV, b: YV) -> YV { return sum + a * b; }");
    }
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all: Vec<Specialization> = MATMUL.iter().map(|e| direct(*e, false)).collect();
    all.extend(NUMBERS.iter().map(|e| direct(*e, true)));
    for dtype in MATMUL_F32 {
        // Split-K parts are f32.
        let partial = (dtype != DType::F32).then_some(DType::F32);
        for name in TILES.iter().flat_map(|t| t.names) {
            for w in [Access::Quads, Access::Words] {
                for y in [Access::Put, Access::Set] {
                    let ys = [dtype].into_iter().chain(partial);
                    all.extend(ys.map(|out| gemm(name, (dtype, w), (out, y), 4)));
                }
            }
        }
    }
    all
}
