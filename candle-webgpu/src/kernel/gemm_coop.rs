//! gemm_coop: products of f16 matrices with cooperative matrices, which are tensor cores where the adapter has them.

use half::f16;

use crate::device::Device;
use crate::elem::Elem;
use crate::error::Result;
use crate::kernel::epilogue::y_put_by;
use crate::kernel::matmul_plan::{Plan, Problem};
use crate::layout::View;
use crate::link::{held, read, write, Access, Kernel, Spec, Text};

/// What the kernel cannot do without.
pub(crate) const FEATURES: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SUBGROUP);

macro_rules! kernel {
    ($name:literal, $bindings:expr) => {
        Kernel {
            name: $name,
            source: include_str!("../../wgsl/kernel/gemm_coop.wgsl"),
            bindings: $bindings,
            workgroup: 128,
            shared: |spec| tile(spec).shared(),
            features: FEATURES,
            slots,
        }
    };
}

pub static GEMM_COOP: Kernel = kernel!("gemm_coop", &[held("a"), held("b"), write("y")]);
/// Lines of a and b are divided by what `worth` holds (`kernel/scaled.rs`).
pub static GEMM_COOP_SCALED: Kernel = kernel!(
    "gemm_coop_scaled",
    &[held("a"), held("b"), write("y"), read("worth")]
);

/// Rows and columns of a piece: M, N and K of a cooperative matrix.
const PIECE: u32 = 16;

/// Steps along k that a workgroup fetches at a time.
pub(crate) const ROUND: u32 = 64;

/// A tile of y: what the four subgroups of a workgroup compute.
#[derive(Debug)]
pub(crate) struct Tile {
    /// The `op` of the specialisation where the octets of both operands start at 16 bytes, and where only their quads do at 8; and
    /// that of a convolution whose windows move by more than one place.
    pub names: [&'static str; 3],
    pub m: u32,
    pub n: u32,
    /// Steps along k that a workgroup holds at a time: a round, or half of one.
    pub k: u32,
    /// Rows and columns of a subgroup.
    subgroup: (u32, u32),
    /// As many tiles keep a large adapter busy.
    pub least: u64,
}

/// From the largest to the smallest. An NVIDIA H200 (Vulkan, driver 580) keeps two workgroups of at most 24 KiB of workgroup
/// memory on a multiprocessor, and one of more: the large tile must stay below.
pub(crate) const TILES: &[Tile] = &[
    Tile {
        names: ["128x128", "128x128.quads", "128x128.steps"],
        m: 128,
        n: 128,
        k: 32,
        subgroup: (64, 64),
        least: 128,
    },
    Tile {
        names: ["64x64", "64x64.quads", "64x64.steps"],
        m: 64,
        n: 64,
        k: 64,
        subgroup: (32, 32),
        least: 0,
    },
];

impl Tile {
    /// Bytes of workgroup memory: both operands, each with its lines padded by 8 elements, and a piece of y for each subgroup.
    pub fn shared(&self) -> u32 {
        let of = |size: u32| 2 * (size * (self.k + 8)).max(self.k * (size + 8));
        of(self.m) + of(self.n) + 4 * PIECE * PIECE * 4
    }
}

pub(crate) fn tile(spec: &Spec) -> &'static Tile {
    TILES
        .iter()
        .find(|t| t.names.contains(&spec.op))
        .unwrap_or(&TILES[TILES.len() - 1])
}

/// The specialisation for a tile, whether both operands are read by octets, the directions of the runs of `a` and `b`, and the
/// dtype of y, which is made of whole quads with `Put`.
pub(crate) fn spec(
    tile: &Tile,
    octets: bool,
    along_k: [bool; 2],
    whole_k: bool,
    y: (Elem, Access),
    scaled: bool,
) -> Spec {
    let raw = (Elem::F16, Access::Raw);
    let name = tile.names[usize::from(!octets)];
    let spec = if scaled {
        let worth = (Elem::F32, Access::Raw);
        Spec::new(&GEMM_COOP_SCALED, name, &[raw, raw, y, worth])
    } else {
        Spec::new(&GEMM_COOP, name, &[raw, raw, y])
    };
    spec.with("A_ALONG_K", along_k[0].into())
        .with("B_ALONG_K", along_k[1].into())
        .with("WHOLE_K", whole_k.into())
}

/// f16 has no bitcast in naga 30; NVIDIA's compiler drops the way there and back.
pub(crate) const BY_OCTETS: &str = "alias Unit = vec4<u32>;
alias Octet = vec4<u32>;
const UNIT = 8u;
fn a_octet(at: u32) -> Octet { return a[at]; }
fn b_octet(at: u32) -> Octet { return b[at]; }
fn quad(of8: Octet, high: bool) -> vec4<f16> {
    let words = select(of8.xy, of8.zw, high);
    return vec4<f16>(vec2<f16>(unpack2x16float(words.x)), vec2<f16>(unpack2x16float(words.y)));
}
fn within(of8: Octet, low: bool, high: bool) -> Octet { return select(Octet(), of8, vec4<bool>(low, low, high, high)); }";

/// The second quad of the last octet may lie past the end.
const BY_QUADS: &str = "alias Unit = vec4<f16>;
struct Octet { low: vec4<f16>, high: vec4<f16> }
const UNIT = 4u;
fn a_octet(at: u32) -> Octet { return Octet(a[at], a[min(at + 1u, arrayLength(&a) - 1u)]); }
fn b_octet(at: u32) -> Octet { return Octet(b[at], b[min(at + 1u, arrayLength(&b) - 1u)]); }
fn quad(of8: Octet, high: bool) -> vec4<f16> { return select(of8.low, of8.high, high); }
fn within(of8: Octet, low: bool, high: bool) -> Octet {
    return Octet(select(vec4<f16>(), of8.low, low), select(vec4<f16>(), of8.high, high));
}";

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    text.file(include_str!("../../wgsl/lib/batch.wgsl"));
    text.file(include_str!("../../wgsl/lib/gemm_coop_dense.wgsl"));
    let tile = tile(spec);
    tile_slots(tile, text);
    text.line("alias BUnit = Unit;");
    text.line(if spec.op == tile.names[0] {
        BY_OCTETS
    } else {
        BY_QUADS
    });
    text.line(if spec.kernel.name == GEMM_COOP_SCALED.name {
        "@group(0) @binding(4) var<storage, read> worth: array<f32>;
fn scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {
    let by = p.m + n;
    return v * worth[m] * vec4<f32>(worth[by], worth[by + 1u], worth[by + 2u], worth[by + 3u]);
}"
    } else {
        "fn scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> { return v; }"
    });
    y_put_by(spec, 4, "p.more", text)
}

/// The sizes of a tile, and what is written out for them.
pub(crate) fn tile_slots(tile: &Tile, text: &mut Text) {
    let (wm, wn) = tile.subgroup;
    for (name, value) in [
        ("BM", tile.m),
        ("BN", tile.n),
        ("BK", tile.k),
        ("WM", wm),
        ("WN", wn),
    ] {
        text.line(format!("const {name} = {value}u;"));
    }
    let starts = |size: u32| (0..size).step_by(PIECE as usize);
    let sum = |m: u32, n: u32| format!("sums[{}]", m / PIECE * (wn / PIECE) + n / PIECE);
    text.line("fn multiply(row: u32, col: u32) {");
    for k in starts(tile.k) {
        for m in starts(wm) {
            text.line(format!("    let a_{k}_{m} = left(row + {m}u, {k}u);"));
        }
        for n in starts(wn) {
            text.line(format!("    let b_{k}_{n} = right({k}u, col + {n}u);"));
            for m in starts(wm) {
                let sum = sum(m, n);
                text.line(format!(
                    "    {sum} = coopMultiplyAdd(a_{k}_{m}, b_{k}_{n}, {sum});"
                ));
            }
        }
    }
    text.line("}\nfn keep(at: Piece) {");
    for m in starts(wm) {
        for n in starts(wn) {
            text.line(format!("    keep_piece({}, at, {m}u, {n}u);", sum(m, n)));
        }
    }
    text.line("}");
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    let runs = [[true, true], [true, false], [false, true], [false, false]];
    for (tile, octets) in TILES.iter().flat_map(|t| [(t, true), (t, false)]) {
        for (along_k, whole_k) in runs.iter().flat_map(|r| [(*r, true), (*r, false)]) {
            // f32 is what the parts of a product cut along k have.
            for access in [Access::Put, Access::Set] {
                for elem in [Elem::F16, Elem::F32] {
                    let y = (elem, access);
                    all.push(spec(tile, octets, along_k, whole_k, y, false));
                }
                for elem in [Elem::F16, Elem::Bf16, Elem::F32] {
                    let y = (elem, access);
                    all.push(spec(tile, octets, along_k, whole_k, y, true));
                }
            }
        }
    }
    all
}

/// Whether the adapter can run the kernel: pieces of 16 x 16 with sums in f32, and subgroups of 32 and nothing else, since a
/// workgroup is laid out for four.
pub(crate) fn suits(adapter: &wgpu::Adapter, subgroup: Option<(u32, u32)>) -> bool {
    use wgpu::CooperativeScalarType::{F16, F32};
    let mut listed = adapter.cooperative_matrix_properties().into_iter();
    subgroup == Some((32, 32))
        && listed.any(|c| {
            [c.m_size, c.n_size, c.k_size] == [PIECE; 3] && c.ab_type == F16 && c.cr_type == F32
        })
}

/// Multiplies small multiples of 2^-15, subnormal ones among them, whose products are exact: an experimental feature is trusted once it has given the right numbers,
/// with each matrix along k and across, by octets and by quads.
pub(crate) fn exact(device: &Device) -> Result<bool> {
    const SIDE: usize = 96;
    let number = |i: usize| f16::from_f32(((i * 7 % 15) as f32 - 7.) / 32768.);
    let values: Vec<f16> = (0..SIDE * SIDE).map(number).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let value = device.upload(&bytes)?;
    let at = |i: usize, strides: [usize; 2]| {
        let (row, col) = (i / SIDE, i % SIDE);
        values[row * strides[0] + col * strides[1]].to_f32()
    };
    let ways = [([SIDE, 1], true), ([1, SIDE], true), ([SIDE, 1], false)];
    for (strides, octets) in ways {
        let view = View {
            value: &value,
            elem: Elem::F16,
            dims: &[SIDE, SIDE],
            strides: &strides,
            offset: 0,
        };
        let problem = Problem::new(view, view, [1, SIDE, SIDE, SIDE], Elem::F32)?;
        let along_k = [strides[1] == 1, strides[0] == 1];
        let tile = &TILES[TILES.len() - 1];
        let y = (Elem::F32, Access::Put);
        let spec = spec(tile, octets, along_k, false, y, false);
        let rows = SIDE.div_ceil(tile.m as usize) as u32;
        let plan = Plan {
            rows,
            ..Plan::new(spec, rows * rows)
        };
        let y = device.output(plan.spec.op, SIDE * SIDE, Elem::F32)?;
        let windows = [(&value).into(), (&value).into(), (&y).into()];
        let (params, grid) = (problem.params(&plan, 0), problem.grid(&plan));
        device.record(plan.spec, &windows, &params, grid)?;
        let got = device.read(&y, 0, y.bytes())?;
        let right = got.chunks_exact(4).enumerate().all(|(i, bytes)| {
            let terms = (0..SIDE)
                .map(|k| at(i / SIDE * SIDE + k, strides) * at(k * SIDE + i % SIDE, strides));
            bytemuck::pod_read_unaligned::<f32>(bytes) == terms.sum::<f32>()
        });
        if !right {
            return Ok(false);
        }
    }
    Ok(true)
}
