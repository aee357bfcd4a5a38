//! gemv_dot: products of a few rows with a quantized matrix in integers, for adapters that multiply packed bytes fast.
//! Activations are rounded to 16 bits a block of 32: 128 to 257 times finer than the 8 bits of the CPU and of llama.cpp, so
//! that reading the weights once is still what takes the time.

use crate::elem::Elem;
use crate::error::Result;
use crate::kernel::edge::{y_put, FLOATS};
use crate::kernel::gemv::{BINDINGS, EXPERTS, NONE, SUB};
use crate::link::{Access, Kernel, Spec, Text};
use crate::quant::{Quant, QUANTS};

/// Invocations of a workgroup.
const WORKGROUP: u32 = 256;

macro_rules! kernel {
    ($name:literal, $features:expr, $bindings:expr) => {
        Kernel {
            name: $name,
            source: include_str!("../../wgsl/kernel/gemv_dot.wgsl"),
            bindings: $bindings,
            workgroup: WORKGROUP,
            shared: |spec| shared(form(spec).rows, chunk(spec)),
            features: $features,
            slots,
        }
    };
}

pub static GEMV_DOT: Kernel = kernel!("gemv_dot", NONE, BINDINGS);
pub static GEMV_DOT_SUB: Kernel = kernel!("gemv_dot_sub", SUB, BINDINGS);
/// Each product of the batch takes the matrix that its id names.
pub static GEMV_DOT_EXPERT: Kernel = kernel!("gemv_dot_expert", NONE, EXPERTS);
pub static GEMV_DOT_EXPERT_SUB: Kernel = kernel!("gemv_dot_expert_sub", SUB, EXPERTS);

/// What a team computes at a time.
struct Form {
    name: &'static str,
    rows: u32,
    cols: u32,
}

#[rustfmt::skip]
const FORMS: &[Form] = &[
    Form { name: "1x1", rows: 1, cols: 1 },
    Form { name: "1x4", rows: 1, cols: 4 },
    Form { name: "2x4", rows: 2, cols: 4 },
    Form { name: "4x4", rows: 4, cols: 4 },
];

fn form(spec: &Spec) -> &'static Form {
    FORMS
        .iter()
        .find(|f| f.name == spec.op)
        .unwrap_or(&FORMS[0])
}

/// Columns from which on a team takes four at a time, as measured on an NVIDIA H200.
const MANY: u32 = 4096;

/// Workgroups that keep a large adapter busy; more of them would round the same activations again.
const GROUPS: u32 = 256;

/// Units of a row that a workgroup keeps: a few sizes, so that k does not decide the pipeline.
const CHUNKS: [u32; 5] = [32, 64, 128, 256, 512];

fn chunk(spec: &Spec) -> u32 {
    let found = spec.overrides.iter().find(|(name, _)| *name == "CHUNK");
    found.map_or(CHUNKS[0], |(_, chunk)| *chunk)
}

/// Rows of a product: up to four blocks of the largest form.
pub(crate) const MAX_ROWS: u32 = 16;

/// Bytes of workgroup memory: a unit is 64 bytes, its step, two sums and the greatest of its magnitudes.
fn shared(rows: u32, chunk: u32) -> u32 {
    rows * chunk * 80 + WORKGROUP * 16
}

/// What decides a specialisation besides the size.
pub(crate) struct Ask {
    pub elem: Elem,
    pub quant: Quant,
    /// a can be read by quads along k.
    pub quads: bool,
    /// Bytes of workgroup memory that the adapter has.
    pub limit: u32,
    /// The adapter's smallest and largest subgroup.
    pub subgroup: Option<(u32, u32)>,
    pub experts: bool,
}

/// How a product is shared among workgroups.
pub(crate) struct Share {
    pub spec: Spec,
    /// Rows of a block.
    pub rows: u32,
    /// Columns that a workgroup owns, and in how many turns.
    pub cols: u32,
    pub rounds: u32,
}

/// A specialisation for m rows; none where they are too many, or for the adapter's workgroup memory.
pub(crate) fn share(ask: &Ask, (m, n, k): (u32, u32, u32)) -> Option<Share> {
    if m > MAX_ROWS {
        return None;
    }
    let cols = if n >= MANY { 4 } else { 1 };
    let last = &FORMS[FORMS.len() - 1];
    let form = FORMS
        .iter()
        .find(|f| f.rows >= m && (f.rows > 1 || f.cols == cols))
        .unwrap_or(last);
    let subgroup = ask.subgroup.filter(|(least, _)| *least >= 8); // that many share a unit
    let team = subgroup.map_or(32, |(_, most)| most).clamp(32, WORKGROUP);
    let fits = CHUNKS
        .into_iter()
        .filter(|&c| shared(form.rows, c) <= ask.limit && c.is_multiple_of(team));
    let chunk = fits.clone().find(|c| c * 32 >= k).or(fits.max())?;
    let kernel = match (subgroup.is_some(), ask.experts) {
        (false, false) => &GEMV_DOT,
        (true, false) => &GEMV_DOT_SUB,
        (false, true) => &GEMV_DOT_EXPERT,
        (true, true) => &GEMV_DOT_EXPERT_SUB,
    };
    let spec = spec_of(kernel, form, ask, team, chunk);
    let cols = WORKGROUP / team * form.cols;
    let rounds = (n.div_ceil(cols) / GROUPS).clamp(1, 16);
    Some(Share {
        spec,
        rows: form.rows,
        cols: cols * rounds,
        rounds,
    })
}

fn spec_of(kernel: &'static Kernel, form: &Form, ask: &Ask, team: u32, chunk: u32) -> Spec {
    let a = if ask.quads {
        Access::Quads
    } else {
        Access::Words
    };
    let elem = ask.elem;
    let b = (elem, Access::Quant(ask.quant));
    let mut spec = Spec::new(kernel, form.name, &[(elem, a), b, (elem, Access::Set)])
        .with("TEAM", team)
        .with("CHUNK", chunk)
        .with("LONE", (ask.subgroup == Some((team, team))).into());
    if ask.experts {
        let raw = (Elem::U32, Access::Raw);
        spec.operands.extend([raw, raw]);
    }
    spec
}

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    let form = form(spec);
    text.line(format!("const ROWS = {}u;", form.rows));
    text.line(format!("const COLS = {}u;", form.cols));
    text.line(if spec.kernel.features.contains(SUB) {
        // Subgroups of a one-dimensional workgroup are runs of its threads on every adapter known.
        "const TREE = false;
struct Ids {
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
}
fn sum_of(v: vec4<f32>) -> vec4<f32> { return subgroupAdd(v); }
fn leads(ids: Ids) -> bool { return ids.lane == 0u; }
fn part_at(ids: Ids) -> u32 { return ids.thread / ids.size; }
fn parts(ids: Ids) -> u32 { return TEAM / ids.size; }
fn first_part(ids: Ids, team: u32) -> u32 { return team * (TEAM / ids.size); }"
    } else {
        "const TREE = true;
struct Ids { @builtin(local_invocation_index) thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(TEAM, 8u); }
fn first_part(ids: Ids, team: u32) -> u32 { return team * TEAM; }"
    });
    text.line(if spec.operands[0].1 == Access::Quads {
        "fn a_four(row: u32, k: u32) -> vec4<f32> { return a_get4((row + k) / 4u); }"
    } else {
        "fn a_four(row: u32, k: u32) -> vec4<f32> {
    let at = row + k * p.a_k;
    return vec4<f32>(a_get(at), a_get(at + p.a_k), a_get(at + 2u * p.a_k), a_get(at + 3u * p.a_k));
}"
    });
    text.file(include_str!("../../wgsl/lib/round16.wgsl"));
    text.file(if spec.kernel.features.contains(SUB) {
        include_str!("../../wgsl/lib/keep_subgroup.wgsl")
    } else {
        include_str!("../../wgsl/lib/keep_shared.wgsl")
    });
    if spec.kernel.bindings.len() == EXPERTS.len() {
        text.file(include_str!("../../wgsl/lib/expert.wgsl"));
    } else {
        text.line("fn b_start(batch: u32) -> u32 { return 0u; }");
    }
    y_put(spec, 2, text)
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for elem in FLOATS {
        for row in QUANTS {
            for quads in [true, false] {
                for subgroup in [None, Some((32, 32)), Some((32, 64))] {
                    for experts in [false, true] {
                        let ask = Ask {
                            elem,
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
                        all.extend(share(&ask, (1, 8192, 4096)).map(|s| s.spec));
                    }
                }
            }
        }
    }
    all
}
