//! GEMV with a quantized matrix in integer arithmetic, for adapters with a fast packed 8-bit dot product. Activations are
//! rounded to 16 bits per block of 32, or of 128 for the K formats: 128 to 257 times finer than the 8 bits of the CPU backend and
//! of llama.cpp.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemv::{tile, tile_of, with_ids, Partition, SUB};
use crate::kernel::matmul::gemv_dot_slots;
use crate::kernel::matmul::gemv_projections::{with_matrices, Params};
use crate::kernel::matmul::rms_norm_gemv::is_normed;
use crate::kernel::matmul::store::FLOATS;
use crate::recorder::gpu::Gpu;
use crate::shader::{Access, Kernel, Specialization};

/// The most invocations of a workgroup.
const WORKGROUP: u32 = 256;

/// Variants: `sub` reduces by subgroups; `many`, for many columns of a K format, has smaller workgroups, which fit a multiprocessor's
/// registers better (docs/kernels/quantized.md). Added bindings: the matrices and results of fused projections; the experts' ids; an
/// epilogue's operands; the norm's weight.
pub static GEMV_DOT: Kernel = Kernel {
    workgroup: WORKGROUP,
    shared: |spec| {
        // With a fused rms_norm, the sum of squares of each thread as well.
        let squares = if is_normed(spec) { WORKGROUP * 4 } else { 0 };
        shared(tile(spec).rows, spec.value("CHUNK").unwrap_or(CHUNKS[0])) + squares
    },
    slots: gemv_dot_slots::slots,
    ..kernel!("matmul", "gemv_dot", Params::LAYOUT; read a, read b, write y)
};

/// Whether a matmul of this kind can be one of several projections.
pub(crate) fn suits_projections(spec: &Specialization) -> bool {
    spec.is_of(&GEMV_DOT) && epilogue::is_bare(spec)
}

/// The fewest columns for which a thread group computes several at a time, as measured on an NVIDIA H200.
const MANY: u32 = 4096;

/// Invocations that fill a large adapter; more workgroups would only repeat the rounding of the activations.
const THREADS: u32 = 65_536;

/// The most units per row in workgroup memory for variant `many`: with more, too few workgroups fit a multiprocessor.
const MANY_UNITS: u32 = 128;

/// The most for one row of the other formats, if a workgroup has one round: two such workgroups fit a multiprocessor.
const SHORT_UNITS: u32 = 256;

/// Units per row that a workgroup holds: a few sizes, so that pipelines are shared among values of k.
const CHUNKS: [u32; 5] = [32, 64, 128, 256, 512];

/// The most rows: four blocks of the largest tile.
pub(crate) const MAX_ROWS: u32 = 16;

/// The most bytes of workgroup memory: per unit 64 bytes of elements, its scale, two sums (not for every format) and its largest magnitude;
/// without subgroups, the accumulators of each thread.
fn shared(rows: u32, chunk: u32) -> u32 {
    rows * chunk * 80 + WORKGROUP * 16
}

/// What determines a specialization besides the size.
pub(crate) struct Request {
    /// `Quads` if a can be read by quads along k, else `Words`.
    pub a: (DType, Access),
    pub quant: Quant,
    /// The adapter's workgroup memory, in bytes.
    pub limit: u32,
    /// The adapter's smallest subgroup size.
    pub subgroup: Option<u32>,
    pub experts: bool,
}

impl Request {
    pub fn new(device: &Gpu, a: (DType, Access), quant: Quant) -> Self {
        Request {
            a,
            quant,
            limit: device.limits.max_compute_workgroup_storage_size,
            subgroup: device.subgroup.map(|(least, _)| least),
            experts: false,
        }
    }
}

/// The partition for m rows; `None` if there are too many, if k is not a multiple of a span, or if workgroup memory does not
/// suffice.
pub(crate) fn partition(request: &Request, (m, n, k): (u32, u32, u32)) -> Option<Partition> {
    let info = request.quant.info();
    let span = info.span;
    if m > MAX_ROWS || !k.is_multiple_of(32 * span) {
        return None;
    }
    let many = n >= MANY;
    let cols = match m {
        1 if !many => 1,
        1 => 2,
        _ => info.cols,
    };
    let rows = m.next_power_of_two().min(4);
    let tile = tile_of(rows, cols)?;
    // Eight threads share a unit when activations are rounded. 64 units (k = 2048) are one step of a thread group.
    let subgroup = request.subgroup.filter(|least| *least >= 8);
    let thread_group = subgroup.unwrap_or(32).min(64 / span.max(2));
    let fits = CHUNKS.into_iter().filter(|&c| {
        shared(tile.rows, c) <= request.limit && c.is_multiple_of(thread_group * span)
    });
    let mut chunk = fits.clone().find(|c| c * 32 >= k).or(fits.max())?;
    let many = m == 1 && many && info.whole && chunk <= MANY_UNITS && !request.experts;
    let workgroup = match subgroup {
        Some(_) if many => WORKGROUP / 2,
        _ => WORKGROUP,
    };
    // Formats that are not whole take few registers for one row, so that more threads fit.
    let light = m == 1 && !info.whole;
    let groups = if light { 2 * THREADS } else { THREADS } / workgroup;
    let cols = workgroup / thread_group * tile.cols;
    let rounds = n.div_ceil(cols).div_ceil(groups).clamp(1, 16);
    if light && rounds == 1 {
        chunk = chunk.min(SHORT_UNITS);
    }
    let (dtype, b) = (request.a.0, Access::Quant(request.quant));
    let operands = [request.a, (dtype, b), (dtype, Access::Set)];
    let mut spec = Specialization::new(&GEMV_DOT, tile.name, &operands)
        .with("THREAD_GROUP", thread_group)
        .with("CHUNK", chunk);
    if request.experts {
        spec = with_ids(spec);
    }
    spec = match subgroup {
        Some(_) if many => spec.variant("many").workgroup(workgroup).features(SUB),
        Some(_) => spec.variant("sub").features(SUB),
        None => spec,
    };
    Some(Partition {
        spec,
        rows: tile.rows,
        cols: cols * rounds,
        rounds,
    })
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for row in QUANTS {
            for access in [Access::Quads, Access::Words] {
                for subgroup in [None, Some(8), Some(32)] {
                    for experts in [false, true] {
                        let request = Request {
                            a: (dtype, access),
                            quant: row.quant,
                            limit: 48 << 10,
                            subgroup,
                            experts,
                        };
                        let rows: &[u32] = if experts { &[1] } else { &[1, 2, 4] };
                        let spec = |size| Some(partition(&request, size)?.spec);
                        let sizes = rows.iter().map(|m| (*m, 4096, 2048));
                        let single = [(1, 2048, 2048), (1, 8192, 4096), (1, 8192, 8192)];
                        all.extend(sizes.chain(single).filter_map(spec));
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (2, 2048, 2048)] {
                            let one = spec(size).filter(suits_projections);
                            let one = one.filter(|_| access == Access::Quads);
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
