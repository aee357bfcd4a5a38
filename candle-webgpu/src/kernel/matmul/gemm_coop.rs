//! GEMM in f16 with cooperative matrices: tensor cores, if the adapter has them.

use std::ops::RangeInclusive;

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue::{is_pair, suits, y_put, Params};
use crate::kernel::matmul::store::FLOATS;
use crate::recorder::gpu::Gpu;
use crate::shader::{function, read, renamed, Access, Kernel, Specialization, Text};

/// The features that the kernel requires.
pub(crate) const FEATURES: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::SUBGROUP_BARRIER);

/// Added bindings: `a_scales` and `b_scales`, the scales of the lines of scaled operands (`scaled.rs`); the operands of an
/// epilogue, or the second matrix of a pair; `parts` (`split_k.rs`).
pub static GEMM_COOP: Kernel = Kernel {
    workgroup: THREADS,
    shared: |spec| tile(spec).shared(),
    features: FEATURES,
    slots,
    ..kernel!("matmul", "gemm_coop", Params::LAYOUT; read_bound_rw a, read_bound_rw b, write y)
};

/// Invocations of a workgroup.
pub(crate) const THREADS: u32 = 128;

/// Elements along k that a workgroup fetches at a time.
pub(crate) const ROUND: u32 = 64;

/// Elements between the lines of a tile in workgroup memory, which put the rows of a matrix on different banks.
const PAD: u32 = 8;

/// The tile of y that a workgroup computes.
#[derive(Debug)]
pub(crate) struct Tile {
    /// The `op` of the specialization if the octets of both operands are aligned to 16 bytes; if only their quads are, to 8 bytes; and
    /// for a convolution with a stride above 1.
    pub names: [&'static str; 3],
    pub m: u32,
    pub n: u32,
    /// The rows of the matmuls that it is for.
    pub rows: RangeInclusive<u32>,
    /// The fewest tiles that fill a large adapter.
    pub least: u64,
    /// The fewest split-K parts of tiles that are faster than smaller tiles.
    pub parts: u64,
    /// M, N and K of a cooperative matrix.
    pub side: u32,
    /// Invocations of a subgroup.
    pub lanes: u32,
}

macro_rules! tile {
    ($side:literal, $lanes:literal, $more:literal, $m:literal x $n:literal, $rows:expr, $least:literal, $parts:literal) => {
        Tile {
            names: [
                concat!($m, "x", $n, $more),
                concat!($m, "x", $n, ".quads", $more),
                concat!($m, "x", $n, ".steps", $more),
            ],
            m: $m,
            n: $n,
            rows: $rows,
            least: $least,
            parts: $parts,
            side: $side,
            lanes: $lanes,
        }
    };
}

/// One row per kind of cooperative matrix, from the largest to the smallest tile: NVIDIA; AMD with subgroups of 64; Apple; llvmpipe
/// (Mesa 26.2 and later, 256-bit vectors). The first row that the adapter lists and that passes the self-test is used. Tiles of 128
/// columns take 46 and 37 KiB of workgroup memory, of which Apple's and llvmpipe's workgroups have 32 KiB. AMD's compiler spills up to 700 of
/// the large tile's registers (docs/compilers.md).
#[rustfmt::skip]
pub(crate) static TILES: [&[Tile]; 4] = [
    &[
        tile!(16, 32, "", 128 x 128, 65..=u32::MAX, 128, 96),
        tile!(16, 32, "", 64 x 128, 1..=64, 192, 192),
        tile!(16, 32, "", 64 x 64, 1..=u32::MAX, 0, 0),
    ],
    &[tile!(16, 64, ".16x64", 64 x 64, 1..=u32::MAX, 0, 0)],
    &[tile!(8, 32, ".8x32", 64 x 64, 1..=u32::MAX, 0, 0)],
    &[tile!(8, 8, ".8x8", 64 x 64, 1..=u32::MAX, 0, 0)],
];

impl Tile {
    /// Bytes of workgroup memory: both operands, and a strip of y per subgroup, all with padded lines.
    pub fn shared(&self) -> u32 {
        let of = |size: u32| 2 * (size * (ROUND + PAD)).max(ROUND * (size + PAD));
        let strips = THREADS / self.lanes * self.side * (self.strip() + PAD) * 4;
        of(self.m) + of(self.n) + strips
    }

    /// Whether convolutions use it: those of up to 64 rows were not measured with 64 x 128.
    pub fn convolves(&self) -> bool {
        self.m == self.n
    }

    /// Columns of y that a subgroup stores at a time.
    fn strip(&self) -> u32 {
        self.subgroup().1.min(32)
    }

    /// Whether the adapter lists f16 matrices of this size with f32 accumulators, and subgroups of this size.
    pub fn suits(&self, listed: &[wgpu::CooperativeMatrixProperties], lanes: (u32, u32)) -> bool {
        use wgpu::CooperativeScalarType::{F16, F32};
        let mut listed = listed.iter();
        (lanes.0..=lanes.1).contains(&self.lanes)
            && listed.any(|c| {
                let sides = [c.m_size, c.n_size, c.k_size] == [self.side; 3];
                sides && c.ab_type == F16 && c.cr_type == F32
            })
    }

    /// Its columns of y: half of them for a pair of matrices.
    pub fn own(&self, pair: bool) -> u32 {
        if pair {
            self.n / 2
        } else {
            self.n
        }
    }

    /// Units of 32 elements of a quantized matrix's column that are loaded at a time: at least a round. Small tiles have the registers
    /// for two rounds of blocks of less than 8 bits an element, which hides more of the latency.
    fn units(&self, quant: Quant) -> u32 {
        let info = quant.info();
        let small = self.n < 128 && info.bytes < info.block_len;
        (if small { 2 } else { 1 } * ROUND / 32).max(info.span)
    }

    /// Elements of b along k that are loaded at a time: such units, or a round.
    pub fn depth(&self, b: Access) -> u32 {
        match b {
            Access::Quant(quant) => 32 * self.units(quant),
            _ => ROUND,
        }
    }

    /// Rows and columns per subgroup.
    fn subgroup(&self) -> (u32, u32) {
        let subgroups = THREADS / self.lanes;
        let down = 1 << (subgroups.ilog2() / 2);
        (self.m / down, self.n / (subgroups / down))
    }
}

/// Every tile.
pub(crate) fn all_tiles() -> impl Iterator<Item = &'static Tile> {
    TILES.iter().copied().flatten()
}

pub(crate) fn tile(spec: &Specialization) -> &'static Tile {
    all_tiles()
        .find(|t| t.names.contains(&spec.op))
        .unwrap_or(&TILES[0][1])
}

/// The specialization for a tile, whether both operands are read by octets, whether `a` and `b` are contiguous along k, whether k is
/// a multiple of [`Tile::depth`], the dtype of y, whose rows are whole quads with `Put`, and whether lines are scaled; `b` is f16, or what
/// the kernel converts: quantized, or bf16 or f32 in octets along k.
pub(crate) fn spec(
    tile: &Tile,
    octets: bool,
    along_k: [bool; 2],
    whole_k: bool,
    y: (DType, Access),
    scaled: bool,
    b: (DType, Access),
) -> Specialization {
    let name = tile.names[usize::from(!octets)];
    let spec = Specialization::new(&GEMM_COOP, name, &[F16, b, y])
        .with("A_ALONG_K", along_k[0].into())
        .with("B_ALONG_K", along_k[1].into())
        .with("WHOLE_K", whole_k.into());
    if scaled {
        ["a_scales", "b_scales"]
            .into_iter()
            .fold(spec, |spec, name| {
                spec.bind(read(name), DType::F32, Access::Raw)
            })
    } else {
        spec
    }
}

/// An operand of f16.
pub(crate) const F16: (DType, Access) = (DType::F16, Access::Raw);

/// The parts of a dense b.
pub(crate) const B_OCTETS: &str = wgsl!("kernel/matmul/gemm_coop_b_octets.wgsl");

/// A workgroup for each tile.
pub(crate) const WHOLE_K: &str = wgsl!("kernel/matmul/gemm_coop_whole_k.wgsl");

/// Reads operands by octets.
pub(crate) const OCTETS: &str = wgsl!("kernel/matmul/gemm_coop_octets.wgsl");

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    text.file(wgsl!("kernel/matmul/gemm_coop_dense.wgsl"));
    let tile = tile(spec);
    tile_slots(tile, tile.own(is_pair(spec)), text);
    if spec.binds("parts") {
        text.binding_of(spec, "parts", "vec4<f32>");
        text.part(wgsl!("kernel/matmul/gemm_coop_split_k.wgsl"));
    } else {
        text.part(WHOLE_K);
    }
    let reads = match spec.op == tile.names[0] {
        true => OCTETS,
        false => wgsl!("kernel/matmul/gemm_coop_quads.wgsl"),
    };
    let b = spec.operands[1];
    if b != F16 {
        text.line("alias BLoad = vec4<u32>;");
        if let Access::Quant(quant) = b.1 {
            let (info, units) = (quant.info(), tile.units(quant));
            text.constants(&[
                ("TURNS", units * 32 / ROUND),
                ("SPANS", units / info.span),
                ("F16_SCALES", info.f16_scales().into()),
            ]);
            text.part(wgsl!("kernel/matmul/gemm_coop_b_units.wgsl"));
        } else {
            text.file(b.0.info().source);
            let lines = match b.0 {
                DType::Bf16 => wgsl!("kernel/matmul/gemm_coop_lines_bf16.wgsl"),
                _ => wgsl!("kernel/matmul/gemm_coop_lines_f32.wgsl"),
            };
            text.part(lines);
            text.part(wgsl!("kernel/matmul/gemm_coop_b_lines.wgsl"));
            if is_pair(spec) {
                read_second(spec, ["wide_at", "c_wide_at"], lines, text);
                text.part(wgsl!("kernel/matmul/gemm_coop_pair_lines.wgsl"));
            } else {
                text.line("fn wide_of(i: u32, at: u32) -> Wide { return wide_at(at); }");
                text.line("fn scale_of(i: u32, n: u32) -> f32 { return b_scales[n]; }");
            }
        }
        text.part(&reads.replace(function(reads, "b_octet"), ""));
        return store(spec, "more", text);
    }
    text.line("alias BLoad = Load;");
    text.part(B_OCTETS);
    text.part(reads);
    if is_pair(spec) && spec.binds("c") {
        read_second(spec, ["b_octet", "c_octet"], reads, text);
        text.part(wgsl!("kernel/matmul/gemm_coop_pair.wgsl"));
    } else {
        text.line("fn octet_of(i: u32, at: u32) -> Octet { return b_octet(at); }");
    }
    store(spec, "more", text)
}

/// Binds c, the second matrix of a pair, and adds a copy of a function of `from` that reads it instead of b, under another name.
fn read_second(spec: &Specialization, [name, of_c]: [&str; 2], from: &str, text: &mut Text) {
    // Without an alias: `C` is a role of cooperative matrices.
    text.binding_of(spec, "c", "BLoad");
    text.line(renamed(function(from, name), &[(name, of_c), ("b", "c")]));
}

/// `results(m, n, at)` scales a quad of accumulators. `store(row, n, results)` applies the steps of an epilogue, whose parameters are `field`,
/// and stores it.
pub(crate) fn store(spec: &Specialization, field: &str, text: &mut Text) -> Result<()> {
    let names = spec.bindings().map(|binding| binding.name);
    for scales in names.filter(|name| name.ends_with("_scales")) {
        text.binding_of(spec, scales, "f32");
    }
    let pair = is_pair(spec);
    for (b, scales) in [("b", "b_scales"), ("c", "c_scales")] {
        if spec.binds(scales) {
            let names = [("b_scaled", &*format!("{b}_scaled")), ("b_scales", scales)];
            text.file_of(wgsl!("kernel/matmul/gemm_coop_scaled.wgsl"), &names);
        } else if b == "b" || pair {
            text.line(format!(
                "fn {b}_scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {{ return v; }}"
            ));
        }
    }
    text.part(match pair {
        true => wgsl!("kernel/matmul/gemm_coop_pair_store.wgsl"),
        false => wgsl!("kernel/matmul/gemm_coop_store.wgsl"),
    });
    y_put(spec, 4, field, text)
}

/// Whether a workgroup can compute half a tile of each of two such matmuls: lines along k, so that an octet lies in one matrix.
pub(crate) fn can_pair(spec: &Specialization) -> bool {
    spec.is_of(&GEMM_COOP)
        && suits(spec)
        && spec.value("B_ALONG_K") == Some(1)
        && spec.operands[1].1 == Access::Raw
}

/// The sizes of a tile, of which `own` columns belong to y, and where it lies.
pub(crate) fn sizes(tile: &Tile, own: u32, text: &mut Text) {
    text.file(wgsl!("kernel/matmul/gemm_coop_tile.wgsl"));
    let (wm, wn) = tile.subgroup();
    text.constants(&[
        ("BM", tile.m),
        ("BN", tile.n),
        ("OWN", own),
        ("WM", wm),
        ("WN", wn),
        ("SIDE", tile.side),
        ("STRIP", tile.strip()),
        ("STRIP_PITCH", tile.strip() + PAD),
        ("LANES", tile.lanes),
    ]);
}

/// The same, and the cooperative matrices of a tile.
pub(crate) fn tile_slots(tile: &Tile, own: u32, text: &mut Text) {
    let side = tile.side;
    sizes(tile, own, text);
    text.file(wgsl!("kernel/matmul/gemm_coop_octet.wgsl"));
    for (name, of) in [("Left", "f16, A"), ("Right", "f16, B"), ("Sum", "f32, C")] {
        text.line(format!("alias {name} = coop_mat{side}x{side}<{of}>;"));
    }
    let cells = match side {
        8 => wgsl!("kernel/matmul/gemm_coop_scalars.wgsl"),
        _ => wgsl!("kernel/matmul/gemm_coop_vectors.wgsl"),
    };
    text.part(cells);
    text.file(wgsl!("kernel/matmul/gemm_coop_steps.wgsl"));
    text.file(wgsl!("kernel/matmul/gemm_coop_keep.wgsl"));
    let names = [
        ("b_stage", "a_stage"),
        ("b_hold", "a_hold"),
        ("b_put", "a_put"),
        ("B_ALONG_K", "A_ALONG_K"),
        ("BN", "BM"),
        ("HOLD", "A_HOLD"),
    ];
    text.line(renamed(function(B_OCTETS, "b_stage"), &names));
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    let runs = [[true, true], [true, false], [false, true], [false, false]];
    for (tile, octets) in all_tiles().flat_map(|t| [(t, true), (t, false)]) {
        for (along_k, whole_k) in runs.iter().flat_map(|r| [(*r, true), (*r, false)]) {
            // Split-K parts are f32.
            for y in [Access::Put, Access::Set] {
                let of =
                    |dtype, scaled, b| spec(tile, octets, along_k, whole_k, (dtype, y), scaled, b);
                all.extend(FLOATS.map(|dtype| of(dtype, true, F16)));
                all.extend([DType::F16, DType::F32].map(|dtype| of(dtype, false, F16)));
                // The octets of such a b do not depend on those of a.
                if along_k[1] {
                    let bf16 = (DType::Bf16, Access::Raw);
                    let f32 = (DType::F32, Access::Raw);
                    all.extend([DType::Bf16, DType::F32].map(|dtype| of(dtype, true, bf16)));
                    all.push(of(DType::F32, true, f32));
                }
                // Lines of blocks are whole octets, and whole rounds if a span is.
                let blocks = octets && along_k == [true, true];
                for row in QUANTS
                    .iter()
                    .filter(|row| blocks && (whole_k || row.span == 1))
                {
                    let b = (DType::F16, Access::Quant(row.quant));
                    all.extend(FLOATS.map(|dtype| of(dtype, true, b)));
                }
            }
        }
    }
    all
}

impl Gpu {
    /// The tiles for cooperative matrices, from the largest to the smallest, if a kind passed its self-test.
    pub(crate) fn coop_tiles(&self) -> Option<&'static [Tile]> {
        self.cooperative.get().map(|at| TILES[*at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVIDIA's workgroups have 48 KiB of memory, AMD's 64, Apple's and llvmpipe's 32.
    #[test]
    fn tiles_fit_workgroup_memory() {
        for tile in all_tiles() {
            let limit = if tile.n == 128 { 48 } else { 32 };
            let shared = tile.shared();
            assert!(shared <= limit << 10, "{:?}: {shared}", tile.names);
        }
        assert!(TILES.iter().all(|row| row.iter().any(|t| t.n < 128)));
    }
}
