//! The kernels of convolutions and their specialisations.

use crate::dtype::{Compute, DType, MATMUL, MATMUL_F32, NUMBERS};
use crate::error::Result;
use crate::kernel::matmul::store::y_put;
use crate::kernel::WORKGROUP;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

pub static CONV_GEMM: Kernel = Kernel {
    name: "conv_gemm",
    source: wgsl!("kernel/conv/conv_gemm.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("w"), read("x"), write("y")],
    workgroup: 256,
    shared: |spec| {
        let pad = spec.overrides.iter().find(|(name, _)| *name == "PAD");
        tile(spec).shared(pad.map_or(0, |(_, pad)| *pad))
    },
    features: wgpu::Features::empty(),
    slots: gemm_slots,
};

pub static CONV_DIRECT: Kernel = Kernel {
    name: "conv_direct",
    source: wgsl!("kernel/conv/conv_direct.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("w"), read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: direct_slots,
};

/// A tile of y: what a workgroup computes.
pub(crate) struct Tile {
    /// The `op` of a convolution, and of a transposed one.
    names: [&'static str; 2],
    /// Channels of a thread; a workgroup has 16 times as many.
    rows: u32,
    /// Quads of positions of a thread; a workgroup has 64 positions for each.
    quads: u32,
}

/// From the largest to the smallest.
pub(crate) const TILES: &[Tile] = &[
    tile_of(["conv_128x128", "conv_transpose_128x128"], 8, 2),
    tile_of(["conv_64x64", "conv_transpose_64x64"], 4, 1),
    tile_of(["conv_32x64", "conv_transpose_32x64"], 2, 1),
];

const fn tile_of(names: [&'static str; 2], rows: u32, quads: u32) -> Tile {
    Tile { names, rows, quads }
}

/// Depth of a tile, as in the shader.
const BK: u32 = 16;

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

    /// Bytes of workgroup memory with the rows of w padded by `pad` elements.
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

/// A tile by name, the access of w (`Quads` or `Words`) and that of y (`Put` or `Set`).
pub(crate) fn gemm(
    dtype: DType,
    op: &'static str,
    [w, y]: [Access; 2],
    pad: u32,
) -> Specialization {
    let operands = [(dtype, w), (dtype, Access::Words), (dtype, y)];
    Specialization::new(&CONV_GEMM, op, &operands).with("PAD", pad)
}

const CONV: &str = "conv";
const CONV_TRANSPOSE: &str = "conv_transpose";

pub(crate) fn direct(dtype: DType, transposed: bool) -> Specialization {
    Specialization::new(
        &CONV_DIRECT,
        if transposed { CONV_TRANSPOSE } else { CONV },
        &[
            (dtype, Access::Words),
            (dtype, Access::Words),
            (dtype, Access::Put),
        ],
    )
}

fn gemm_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    text.line(format!("const TM = {}u;", tile.rows));
    text.line(format!("const TQ = {}u;", tile.quads));
    text.line(if spec.op == tile.name(false) {
        "fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> { return i * stride - padding; }
fn source(place: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> { return place + tap; }"
    } else {
        "fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> { return i + padding; }
fn source(place: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> {
    let at = place - tap;
    let hit = (at < vec4<u32>(0x80000000u)) & (at % stride == vec4<u32>(0u));
    return select(vec4<u32>(0xffffffffu), at / stride, hit);
}"
    });
    text.line(if spec.operands[0].1 == Access::Quads {
        "fn w_four(o: u32, k: u32) -> vec4<f32> { return w_get4((p.w_offset + o * p.w_strides.x + k) / 4u); }"
    } else {
        "fn w_at(o: u32, tap: vec3<u32>) -> f32 {
    let at = vec4<u32>(o, tap) * p.w_strides;
    return w_get(p.w_offset + at.x + at.y + at.z + at.w);
}
fn tap_next(tap: vec3<u32>) -> vec3<u32> {
    if tap.z + 1u < p.taps.y { return vec3<u32>(tap.xy, tap.z + 1u); }
    if tap.y + 1u < p.taps.x { return vec3<u32>(tap.x, tap.y + 1u, 0u); }
    return vec3<u32>(tap.x + 1u, 0u, 0u);
}
fn w_four(o: u32, k: u32) -> vec4<f32> {
    var tap = tap_of(k);
    var v = vec4<f32>(w_at(o, tap), 0.0, 0.0, 0.0);
    tap = tap_next(tap);
    if k + 1u < p.k { v.y = w_at(o, tap); }
    tap = tap_next(tap);
    if k + 2u < p.k { v.z = w_at(o, tap); }
    tap = tap_next(tap);
    if k + 3u < p.k { v.w = w_at(o, tap); }
    return v;
}"
    });
    let mut finish = format!(
        "fn finish(sums: array<vec4<f32>, {}>, o: u32, column: u32) {{\n",
        tile.rows * tile.quads
    );
    for i in 0..tile.rows * tile.quads {
        let (row, quad) = (i / tile.quads, i % tile.quads);
        finish += &format!(
            "    store(o + {row}u, column + {}u, sums[{i}]);\n",
            64 * quad
        );
    }
    text.line(finish + "}");
    y_put(spec, 2, text)
}

fn direct_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.line(if spec.op == CONV {
        "fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> { return i * p.stride + tap * p.dilation - p.padding; }"
    } else {
        "fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> {
    let at = i + p.padding - tap * p.dilation;
    let hit = (at < vec2<u32>(0x80000000u)) & (at % p.stride == vec2<u32>(0u));
    return select(vec2<u32>(0xffffffffu), at / p.stride, hit);
}"
    });
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
        for name in TILES.iter().flat_map(|t| t.names) {
            for w in [Access::Quads, Access::Words] {
                for y in [Access::Put, Access::Set] {
                    all.push(gemm(dtype, name, [w, y], 4));
                }
            }
        }
    }
    all
}
