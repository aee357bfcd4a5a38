//! gemv_dot: the product of a few rows with a quantized matrix in integers, for adapters that multiply packed bytes fast.
//! Activations are rounded to 16 bits per block of 32, or of 128 for the K formats: 128 to 257 times finer than the 8 bits of the
//! CPU backend and of llama.cpp.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemv::{with_ids, SUB};
use crate::kernel::matmul::gemv_dot_slots;
use crate::kernel::matmul::gemv_projections::with_matrices;
use crate::kernel::matmul::rms_norm_gemv::is_normed;
use crate::kernel::matmul::store::FLOATS;
use crate::recorder::gpu::Gpu;
use crate::shader::{read, write, Access, Kernel, Specialization};

/// The most invocations of a workgroup.
const WORKGROUP: u32 = 256;

/// Variants: `sub`, and `many` for many columns, where smaller workgroups fit a multiprocessor's registers better. With 256
/// invocations, Q5_1 and Q5_K of 32000 x 2048 took 1.7 and 0.5 us more on an NVIDIA H200. Added bindings: the matrices and results of
/// fused projections; the experts' ids; what an epilogue reads; the norm's parameter.
pub static GEMV_DOT: Kernel = Kernel {
    name: "gemv_dot",
    source: wgsl!("kernel/matmul/gemv_dot.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: WORKGROUP,
    shared: |spec| {
        // A kernel that norms its row keeps the squares of its threads as well.
        let squares = if is_normed(spec) { WORKGROUP * 4 } else { 0 };
        shared(tile(spec).rows, spec.value("CHUNK").unwrap_or(CHUNKS[0])) + squares
    },
    features: wgpu::Features::empty(),
    slots: gemv_dot_slots::slots,
};

/// Whether a matmul of this kind can be one of several projections.
pub(crate) fn suits_projections(spec: &Specialization) -> bool {
    spec.is_of(&GEMV_DOT) && epilogue::is_bare(spec)
}

/// How two or three matmuls like `one` are computed together; they share m rows, and have n columns in all. The sums of each are
/// those that it has alone: neither their number nor the tile decides their order.
pub(crate) fn partition_projections(
    device: &Gpu,
    one: &Specialization,
    count: usize,
    (m, n, k): (u32, u32, u32),
) -> Option<Partition> {
    let [(dtype, a), (_, Access::Quant(quant)), _] = one.operands[..] else {
        return None;
    };
    let request = Request {
        dtype,
        quant,
        quads: a == Access::Quads,
        limit: device.limits.max_compute_workgroup_storage_size,
        subgroup: device.subgroup().map(|(least, _)| least),
        experts: false,
    };
    let partition = partition(&request, (m, n, k))?;
    Some(Partition {
        spec: with_matrices(partition.spec, count, "x"),
        ..partition
    })
}

/// The specialization of `one` that computes two matmuls with half as many columns each, and how many columns of each a workgroup
/// owns at a time.
pub(crate) fn pair_of(one: &Specialization) -> Option<(Specialization, u32)> {
    let like = tile(one);
    let cols = like.cols.max(2);
    let tile = TILES
        .iter()
        .find(|t| t.rows == like.rows && t.cols == cols)?;
    let mut spec = one.clone();
    spec.op = tile.name;
    let thread_groups = one.workgroup / one.value("THREAD_GROUP")?;
    Some((spec, thread_groups * tile.cols / 2))
}

/// What a thread group computes at a time.
pub(crate) struct Tile {
    name: &'static str,
    pub rows: u32,
    pub cols: u32,
}

#[rustfmt::skip]
const TILES: &[Tile] = &[
    Tile { name: "1x1", rows: 1, cols: 1 },
    Tile { name: "1x2", rows: 1, cols: 2 },
    Tile { name: "1x4", rows: 1, cols: 4 },
    Tile { name: "2x2", rows: 2, cols: 2 },
    Tile { name: "2x4", rows: 2, cols: 4 },
    Tile { name: "4x2", rows: 4, cols: 2 },
    Tile { name: "4x4", rows: 4, cols: 4 },
];

pub(crate) fn tile(spec: &Specialization) -> &'static Tile {
    TILES
        .iter()
        .find(|f| f.name == spec.op)
        .unwrap_or(&TILES[0])
}

/// Columns from which on a thread_group takes several at a time, as measured on an NVIDIA H200.
const MANY: u32 = 4096;

/// Invocations that keep a large adapter busy; more workgroups would round the same activations again.
const THREADS: u32 = 65_536;

/// The most units that a workgroup of variant `many` keeps: with more, too few workgroups fit a multiprocessor.
const MANY_UNITS: u32 = 128;

/// Units of a row that a workgroup keeps: a few sizes, so that k does not decide the pipeline.
const CHUNKS: [u32; 5] = [32, 64, 128, 256, 512];

/// Rows of a product: up to four blocks of the largest tile.
pub(crate) const MAX_ROWS: u32 = 16;

/// Bytes of workgroup memory: a unit is 64 bytes, its step, two sums and the greatest of its magnitudes.
fn shared(rows: u32, chunk: u32) -> u32 {
    rows * chunk * 80 + WORKGROUP * 16
}

/// What decides a specialisation besides the size.
pub(crate) struct Request {
    pub dtype: DType,
    pub quant: Quant,
    /// a can be read by quads along k.
    pub quads: bool,
    /// Bytes of workgroup memory that the adapter has.
    pub limit: u32,
    /// The adapter's smallest subgroup.
    pub subgroup: Option<u32>,
    pub experts: bool,
}

/// How a product is shared among workgroups.
pub(crate) struct Partition {
    pub spec: Specialization,
    /// Rows of a block.
    pub rows: u32,
    /// Columns that a workgroup owns, and in how many turns.
    pub cols: u32,
    pub rounds: u32,
}

/// A specialisation for m rows; none where they are too many, where a row has no whole spans, or for the adapter's
/// workgroup memory.
pub(crate) fn partition(request: &Request, (m, n, k): (u32, u32, u32)) -> Option<Partition> {
    let span = request.quant.info().span;
    if m > MAX_ROWS || !k.is_multiple_of(32 * span) {
        return None;
    }
    let many = n >= MANY;
    let cols = if m == 1 && !many {
        1
    } else {
        request.quant.info().cols
    };
    let rows = m.next_power_of_two().min(4);
    let tile = TILES.iter().find(|f| f.rows == rows && f.cols == cols)?;
    // Eight share a unit when activations are rounded. 64 units, k of 2048, are one turn of a thread_group.
    let subgroup = request.subgroup.filter(|least| *least >= 8);
    let thread_group = subgroup.unwrap_or(32).min(64 / span.max(2));
    let fits = CHUNKS.into_iter().filter(|&c| {
        shared(tile.rows, c) <= request.limit && c.is_multiple_of(thread_group * span)
    });
    let chunk = fits.clone().find(|c| c * 32 >= k).or(fits.max())?;
    let many = m == 1 && many && chunk <= MANY_UNITS && !request.experts;
    let spec = spec_of(tile, request, thread_group, chunk);
    let spec = match subgroup {
        Some(_) if many => spec.variant("many").workgroup(128).features(SUB),
        Some(_) => spec.variant("sub").features(SUB),
        None => spec,
    };
    let cols = spec.workgroup / thread_group * tile.cols;
    let groups = THREADS / spec.workgroup;
    let rounds = n.div_ceil(cols).div_ceil(groups).clamp(1, 16);
    Some(Partition {
        spec,
        rows: tile.rows,
        cols: cols * rounds,
        rounds,
    })
}

fn spec_of(tile: &Tile, request: &Request, thread_group: u32, chunk: u32) -> Specialization {
    let dtype = request.dtype;
    let a = if request.quads {
        Access::Quads
    } else {
        Access::Words
    };
    let b = Access::Quant(request.quant);
    let operands = [(dtype, a), (dtype, b), (dtype, Access::Set)];
    let spec = Specialization::new(&GEMV_DOT, tile.name, &operands)
        .with("THREAD_GROUP", thread_group)
        .with("CHUNK", chunk);
    if request.experts {
        with_ids(spec)
    } else {
        spec
    }
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for row in QUANTS {
            for quads in [true, false] {
                for subgroup in [None, Some(8), Some(32)] {
                    for experts in [false, true] {
                        let request = Request {
                            dtype,
                            quant: row.quant,
                            quads,
                            limit: 48 << 10,
                            subgroup,
                            experts,
                        };
                        let rows: &[u32] = if experts { &[1] } else { &[1, 2, 4] };
                        for &m in rows {
                            all.extend(partition(&request, (m, 4096, 2048)).map(|s| s.spec));
                        }
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (1, 8192, 8192)] {
                            all.extend(partition(&request, size).map(|s| s.spec));
                        }
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (2, 2048, 2048)] {
                            let one = partition(&request, size).map(|s| s.spec);
                            let one = one.filter(|one| quads && suits_projections(one));
                            for count in [2, 3] {
                                all.extend(one.clone().map(|one| with_matrices(one, count, "x")));
                            }
                        }
                    }
                }
            }
        }
    }
    all
}
