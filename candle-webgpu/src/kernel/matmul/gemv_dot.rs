//! gemv_dot: products of a few rows with a quantized matrix in integers, for adapters that multiply packed bytes fast.
//! Activations are rounded to 16 bits a block of 32, or of the 128 that a span of the K formats has: 128 to 257 times finer than
//! the 8 bits of the CPU and of llama.cpp.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::kernel::matmul::gemv::{NONE, SUB};
use crate::kernel::matmul::gemv_dot_slots;
use crate::kernel::matmul::store::FLOATS;
use crate::recorder::gpu::Gpu;
use crate::shader::{read, write, Access, Binding, Kernel, Specialization};

/// Invocations of a workgroup: the most that a kernel here has.
const WORKGROUP: u32 = 256;

const BINDINGS: &[Binding] = &[read("a"), read("b"), write("y")];
const EXPERTS: &[Binding] = &[
    read("a"),
    read("b"),
    write("y"),
    read("ids"),
    write("fault"),
];

macro_rules! kernel {
    ($name:literal, $workgroup:expr, $features:expr, $bindings:expr) => {
        Kernel {
            name: $name,
            source: wgsl!("kernel/matmul/gemv_dot.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: $workgroup,
            shared: |spec| shared(form(spec).rows, chunk(spec)),
            features: $features,
            slots: gemv_dot_slots::slots,
        }
    };
}

pub static GEMV_DOT: Kernel = kernel!("gemv_dot", WORKGROUP, NONE, BINDINGS);
pub static GEMV_DOT_SUB: Kernel = kernel!("gemv_dot_sub", WORKGROUP, SUB, BINDINGS);
/// The same for many columns: registers of smaller workgroups fill a multiprocessor better. With 256 invocations, Q5_1 and
/// Q5_K of 32000 x 2048 took 1.7 and 0.5 us more on an NVIDIA H200.
pub static GEMV_DOT_MANY: Kernel = kernel!("gemv_dot_many", 128, SUB, BINDINGS);
/// Each product of the batch takes the matrix that its id names.
pub static GEMV_DOT_EXPERT: Kernel = kernel!("gemv_dot_expert", WORKGROUP, NONE, EXPERTS);
pub static GEMV_DOT_EXPERT_SUB: Kernel = kernel!("gemv_dot_expert_sub", WORKGROUP, SUB, EXPERTS);

const TWO: &[Binding] = &[read("a"), read("b"), write("y"), read("c"), write("z")];
#[rustfmt::skip]
const THREE: &[Binding] =
    &[read("a"), read("b"), write("y"), read("c"), write("z"), read("d"), write("x")];

macro_rules! projections {
    ($name:literal, $workgroup:expr, $features:expr) => {
        [
            kernel!($name, $workgroup, $features, TWO),
            kernel!($name, $workgroup, $features, THREE),
        ]
    };
}

/// Of two and of three matrices with the same rows of a. Recorded by a rule.
static PROJECTIONS: [Kernel; 2] = projections!("gemv_dot_projections", WORKGROUP, NONE);
static PROJECTIONS_SUB: [Kernel; 2] = projections!("gemv_dot_projections_sub", WORKGROUP, SUB);
static PROJECTIONS_MANY: [Kernel; 2] = projections!("gemv_dot_projections_many", 128, SUB);

/// The kernels that projections are made of, each with its twins.
#[rustfmt::skip]
pub(crate) const TWINS: [(&Kernel, &[Kernel; 2]); 3] = [
    (&GEMV_DOT, &PROJECTIONS),
    (&GEMV_DOT_SUB, &PROJECTIONS_SUB),
    (&GEMV_DOT_MANY, &PROJECTIONS_MANY),
];

fn twins(kernel: &Kernel) -> Option<&'static [Kernel; 2]> {
    let found = TWINS.iter().find(|(of, _)| std::ptr::eq(*of, kernel));
    found.map(|(_, twins)| *twins)
}

/// Whether the kernel is one that can compute projections.
pub(crate) fn has_projections(spec: &Specialization) -> bool {
    twins(spec.kernel).is_some()
}

/// How products like `one` of the same m rows with two or three matrices, which have n rows in all, are computed together. The
/// sums of each are those that it has alone: neither their number nor the form decides their order.
pub(crate) fn share_projections(
    device: &Gpu,
    one: &Specialization,
    count: usize,
    (m, n, k): (u32, u32, u32),
) -> Option<Share> {
    let [(dtype, a), (_, Access::Quant(quant)), _] = one.operands[..] else {
        return None;
    };
    let ask = Ask {
        dtype,
        quant,
        quads: a == Access::Quads,
        limit: device.limits.max_compute_workgroup_storage_size,
        subgroup: device.subgroup().map(|(least, _)| least),
        experts: false,
    };
    let share = share(&ask, (m, n, k))?;
    Some(Share {
        spec: projections_of(&share.spec, count)?,
        ..share
    })
}

fn projections_of(one: &Specialization, count: usize) -> Option<Specialization> {
    let [_, b, y] = one.operands[..] else {
        return None;
    };
    let mut spec = one.clone();
    spec.kernel = twins(one.kernel)?.get(count.checked_sub(2)?)?;
    for _ in 1..count {
        spec.operands.extend([b, y]);
    }
    Some(spec)
}

/// A product with half of the columns of each of two matrices, like the projections that `one` is of, and how many columns of each a
/// workgroup owns at a time.
pub(crate) fn pair_of(one: &Specialization) -> Option<(Specialization, u32)> {
    let like = form(one);
    let cols = like.cols.max(2);
    let form = FORMS
        .iter()
        .find(|f| f.rows == like.rows && f.cols == cols)?;
    let (_, thread_group) = one
        .overrides
        .iter()
        .find(|(name, _)| *name == "THREAD_GROUP")?;
    let mut spec = one.clone();
    spec.op = form.name;
    Some((spec, one.kernel.workgroup / thread_group * form.cols / 2))
}

/// What a thread_group computes at a time.
pub(crate) struct Form {
    name: &'static str,
    pub rows: u32,
    pub cols: u32,
}

#[rustfmt::skip]
const FORMS: &[Form] = &[
    Form { name: "1x1", rows: 1, cols: 1 },
    Form { name: "1x2", rows: 1, cols: 2 },
    Form { name: "1x4", rows: 1, cols: 4 },
    Form { name: "2x2", rows: 2, cols: 2 },
    Form { name: "2x4", rows: 2, cols: 4 },
    Form { name: "4x2", rows: 4, cols: 2 },
    Form { name: "4x4", rows: 4, cols: 4 },
];

pub(crate) fn form(spec: &Specialization) -> &'static Form {
    FORMS
        .iter()
        .find(|f| f.name == spec.op)
        .unwrap_or(&FORMS[0])
}

/// Columns from which on a thread_group takes several at a time, as measured on an NVIDIA H200.
const MANY: u32 = 4096;

/// Invocations that keep a large adapter busy; more workgroups would round the same activations again.
const THREADS: u32 = 65_536;

/// Units that a workgroup of GEMV_DOT_MANY keeps at most: more of them leave room for too few.
const MANY_UNITS: u32 = 128;

/// Units of a row that a workgroup keeps: a few sizes, so that k does not decide the pipeline.
const CHUNKS: [u32; 5] = [32, 64, 128, 256, 512];

fn chunk(spec: &Specialization) -> u32 {
    let found = spec.overrides.iter().find(|(name, _)| *name == "CHUNK");
    found.map_or(CHUNKS[0], |(_, chunk)| *chunk)
}

/// Rows of a product: up to four blocks of the largest form.
pub(crate) const MAX_ROWS: u32 = 16;

/// Bytes of workgroup memory: a unit is 64 bytes, its step, two sums and the greatest of its magnitudes.
fn shared(rows: u32, chunk: u32) -> u32 {
    rows * chunk * 80 + WORKGROUP * 16
}

/// The same of a kernel that norms its row: the squares of threads besides.
pub(crate) fn shared_normed(spec: &Specialization) -> u32 {
    shared(form(spec).rows, chunk(spec)) + WORKGROUP * 4
}

/// What decides a specialisation besides the size.
pub(crate) struct Ask {
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
pub(crate) struct Share {
    pub spec: Specialization,
    /// Rows of a block.
    pub rows: u32,
    /// Columns that a workgroup owns, and in how many turns.
    pub cols: u32,
    pub rounds: u32,
}

/// A specialisation for m rows; none where they are too many, where a row has no whole spans, or for the adapter's
/// workgroup memory.
pub(crate) fn share(ask: &Ask, (m, n, k): (u32, u32, u32)) -> Option<Share> {
    let span = ask.quant.info().span;
    if m > MAX_ROWS || !k.is_multiple_of(32 * span) {
        return None;
    }
    let many = n >= MANY;
    let cols = if m == 1 && !many {
        1
    } else {
        ask.quant.info().cols
    };
    let rows = m.next_power_of_two().min(4);
    let form = FORMS.iter().find(|f| f.rows == rows && f.cols == cols)?;
    // Eight share a unit when activations are rounded. 64 units, k of 2048, are one turn of a thread_group.
    let subgroup = ask.subgroup.filter(|least| *least >= 8);
    let thread_group = subgroup.unwrap_or(32).min(64 / span.max(2));
    let fits = CHUNKS
        .into_iter()
        .filter(|&c| shared(form.rows, c) <= ask.limit && c.is_multiple_of(thread_group * span));
    let chunk = fits.clone().find(|c| c * 32 >= k).or(fits.max())?;
    let kernel = match (subgroup.is_some(), ask.experts) {
        (false, false) => &GEMV_DOT,
        (true, false) if m == 1 && many && chunk <= MANY_UNITS => &GEMV_DOT_MANY,
        (true, false) => &GEMV_DOT_SUB,
        (false, true) => &GEMV_DOT_EXPERT,
        (true, true) => &GEMV_DOT_EXPERT_SUB,
    };
    let spec = spec_of(kernel, form, ask, thread_group, chunk);
    let cols = kernel.workgroup / thread_group * form.cols;
    let groups = THREADS / kernel.workgroup;
    let rounds = n.div_ceil(cols).div_ceil(groups).clamp(1, 16);
    Some(Share {
        spec,
        rows: form.rows,
        cols: cols * rounds,
        rounds,
    })
}

fn spec_of(
    kernel: &'static Kernel,
    form: &Form,
    ask: &Ask,
    thread_group: u32,
    chunk: u32,
) -> Specialization {
    let a = if ask.quads {
        Access::Quads
    } else {
        Access::Words
    };
    let dtype = ask.dtype;
    let b = (dtype, Access::Quant(ask.quant));
    let mut spec = Specialization::new(kernel, form.name, &[(dtype, a), b, (dtype, Access::Set)])
        .with("THREAD_GROUP", thread_group)
        .with("CHUNK", chunk);
    if ask.experts {
        let raw = (DType::U32, Access::Raw);
        spec.operands.extend([raw, raw]);
    }
    spec
}

pub(crate) fn is_projections(kernel: &Kernel) -> bool {
    kernel.bindings.iter().any(|b| b.name == "z")
}

pub(crate) fn is_expert(kernel: &Kernel) -> bool {
    [&GEMV_DOT_EXPERT, &GEMV_DOT_EXPERT_SUB]
        .iter()
        .any(|k| std::ptr::eq(*k, kernel))
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for row in QUANTS {
            for quads in [true, false] {
                for subgroup in [None, Some(8), Some(32)] {
                    for experts in [false, true] {
                        let ask = Ask {
                            dtype,
                            quant: row.quant,
                            quads,
                            limit: 48 << 10,
                            subgroup,
                            experts,
                        };
                        let rows: &[u32] = if experts { &[1] } else { &[1, 2, 4] };
                        for &m in rows {
                            all.extend(share(&ask, (m, 4096, 2048)).map(|s| s.spec));
                        }
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (1, 8192, 8192)] {
                            all.extend(share(&ask, size).map(|s| s.spec));
                        }
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (2, 2048, 2048)] {
                            let one = share(&ask, size).map(|s| s.spec);
                            let one = one.filter(|one| quads && has_projections(one));
                            for count in [2, 3] {
                                all.extend(one.as_ref().and_then(|one| projections_of(one, count)));
                            }
                        }
                    }
                }
            }
        }
    }
    all
}
