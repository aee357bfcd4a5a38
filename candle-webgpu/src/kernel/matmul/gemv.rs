//! gemv: products of a few rows with a matrix, bound by reading the matrix once.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::store::FLOATS;
use crate::shader::{read, write, Access, Binding, Kernel, Specialization, Text};

/// The most rows that these kernels take.
pub(crate) const MAX_ROWS: u32 = 8;

const BINDINGS: &[Binding] = &[read("a"), read("b"), write("y")];

macro_rules! gemv_k {
    ($name:literal, $workgroup:literal, $features:expr, $bindings:expr, $slots:expr) => {
        Kernel {
            name: $name,
            source: wgsl!("kernel/matmul/gemv_k.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: $workgroup,
            shared: |spec| form(spec).rows * $workgroup * 16,
            features: $features,
            slots: $slots,
        }
    };
}

pub(crate) const NONE: wgpu::Features = wgpu::Features::empty();
pub(crate) const SUB: wgpu::Features = wgpu::Features::SUBGROUP;

/// b contiguous along k: a Linear weight.
pub static GEMV_K: Kernel = gemv_k!("gemv_k", 64, NONE, BINDINGS, slots_k);
/// The same with subgroup sums: one subgroup where it has 32 invocations, for many columns.
pub static GEMV_K_SUB32: Kernel = gemv_k!("gemv_k_sub32", 32, SUB, BINDINGS, slots_k);
/// The same for few columns, where the threads of more subgroups are needed to fill the adapter.
pub static GEMV_K_SUB128: Kernel = gemv_k!("gemv_k_sub128", 128, SUB, BINDINGS, slots_k);
/// A thread adds up alone, so none waits for another: for adapters that run a workgroup's threads in turn.
pub static GEMV_K_ALONE: Kernel = gemv_k!("gemv_k_alone", 16, NONE, BINDINGS, slots_k);

const EXPERTS: &[Binding] = &[
    read("a"),
    read("b"),
    write("y"),
    read("ids"),
    write("fault"),
];

/// A mixture of experts: each product of the batch takes the matrix that its id names.
pub static GEMV_EXPERT: Kernel = gemv_k!("gemv_expert", 64, NONE, EXPERTS, slots_expert);
pub static GEMV_EXPERT_SUB32: Kernel = gemv_k!("gemv_expert_sub32", 32, SUB, EXPERTS, slots_expert);

/// b contiguous along n, or lying anyhow.
pub static GEMV_N: Kernel = Kernel {
    name: "gemv_n",
    source: wgsl!("kernel/matmul/gemv_n.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: BINDINGS,
    workgroup: 256,
    shared: |_| 256 * 16,
    features: wgpu::Features::empty(),
    slots: slots_n,
};

/// Register tile of a thread: rows of a and columns of b.
pub(crate) struct Form {
    name: &'static str,
    pub rows: u32,
    cols: u32,
}

#[rustfmt::skip]
const FORMS: &[Form] = &[
    Form { name: "1x2", rows: 1, cols: 2 },
    Form { name: "2x4", rows: 2, cols: 4 },
    Form { name: "4x4", rows: 4, cols: 4 },
];

/// Those of a pair: of each matrix as many columns.
#[rustfmt::skip]
const PAIR_FORMS: &[Form] = &[
    Form { name: "1x2", rows: 1, cols: 2 },
    Form { name: "2x2", rows: 2, cols: 2 },
    Form { name: "4x2", rows: 4, cols: 2 },
];

pub(crate) fn form(spec: &Specialization) -> &'static Form {
    FORMS
        .iter()
        .chain(PAIR_FORMS)
        .find(|f| f.name == spec.op)
        .unwrap_or(&FORMS[0])
}

/// The most pieces of k that a thread adds up alone.
const MOST_ALONE: u32 = 2048;

/// How the threads of a workgroup add up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    /// Each has columns of its own.
    Alone,
    /// By workgroup memory.
    Memory,
    Subgroups,
}

/// Columns that a workgroup of [`GEMV_N`] owns.
pub(crate) const GEMV_N_COLS: u32 = 32;

/// How a product is shared among workgroups.
pub(crate) struct Share {
    pub spec: Specialization,
    /// Rows of a block.
    pub rows: u32,
    /// Columns that a workgroup owns.
    pub cols: u32,
}

/// A specialisation for b contiguous along k, with the dtypes of the operands and of y. `wide` tells of a and b whether
/// they can be read by 16 bytes; more rows than one need that of a dense b.
pub(crate) fn share(
    dtypes: (DType, DType),
    quant: Option<Quant>,
    (m, n, k): (u32, u32, u32),
    wide: [bool; 2],
    batch: u64,
    sums: Sums,
) -> Share {
    let form = match m {
        1 => &FORMS[0],
        2 => &FORMS[1],
        _ => &FORMS[2],
    };
    // What a thread takes of k at a time.
    let pieces = k.div_ceil(if quant.is_some() { 32 } else { 8 });
    let sums = match sums {
        // One sum of many terms loses digits that sums of sums keep.
        Sums::Alone if pieces > MOST_ALONE => Sums::Memory,
        other => other,
    };
    let kernel = match sums {
        Sums::Alone => &GEMV_K_ALONE,
        Sums::Subgroups if pieces < 64 => &GEMV_K,
        Sums::Subgroups if u64::from(n) * batch >= 4096 => &GEMV_K_SUB32,
        Sums::Subgroups => &GEMV_K_SUB128,
        Sums::Memory => &GEMV_K,
    };
    let span = match sums {
        Sums::Alone => 1,
        _ if std::ptr::eq(kernel, &GEMV_K) => pieces.next_power_of_two().min(kernel.workgroup),
        _ => kernel.workgroup,
    };
    let b = match quant {
        Some(quant) => Access::Quant(quant),
        None => dense(wide[1]),
    };
    Share {
        spec: spec_of(kernel, form.name, dtypes, [dense(wide[0]), b]).with("SPAN", span),
        rows: form.rows,
        cols: kernel.workgroup / span * form.cols,
    }
}

/// A product with half of the columns of each of two dense matrices, like the projections that `one` is of, and how many columns of
/// each a workgroup owns: the order of sums is that of `one`.
pub(crate) fn pair_of(one: &Specialization) -> Option<(Specialization, u32)> {
    let rows = form(one).rows;
    let form = PAIR_FORMS.iter().find(|form| form.rows == rows)?;
    let (_, span) = one.overrides.iter().find(|(name, _)| *name == "SPAN")?;
    let mut spec = one.clone();
    spec.op = form.name;
    Some((spec, one.kernel.workgroup / span * form.cols))
}

/// By 16 bytes, or element by element.
fn dense(wide: bool) -> Access {
    if wide {
        Access::Raw
    } else {
        Access::Words
    }
}

fn spec_of(
    kernel: &'static Kernel,
    form: &'static str,
    (dtype, out): (DType, DType),
    [a, b]: [Access; 2],
) -> Specialization {
    Specialization::new(kernel, form, &[(dtype, a), (dtype, b), (out, Access::Set)])
}

/// A product with the experts of a mixture, one row at a time.
pub(crate) fn share_expert(
    dtype: DType,
    quant: Quant,
    k: u32,
    wide: bool,
    subgroups: bool,
) -> Share {
    let form = &FORMS[0];
    let kernel = if subgroups && k >= 2048 {
        &GEMV_EXPERT_SUB32
    } else {
        &GEMV_EXPERT
    };
    let span = (k / 32).next_power_of_two().min(kernel.workgroup);
    let b = Access::Quant(quant);
    let mut spec = spec_of(kernel, form.name, (dtype, dtype), [dense(wide), b]).with("SPAN", span);
    let raw = (DType::U32, Access::Raw);
    spec.operands.extend([raw, raw]);
    Share {
        spec,
        rows: form.rows,
        cols: kernel.workgroup / span * form.cols,
    }
}

/// A specialisation for b contiguous along n (in whole quads where `quads`) or lying anyhow.
pub(crate) fn spec_n(
    (dtype, out): (DType, DType),
    m: u32,
    quads: bool,
    whole: bool,
) -> Specialization {
    let form = match m {
        1 => "1",
        2 => "2",
        3 | 4 => "4",
        _ => "8",
    };
    let b = if quads { Access::Quads } else { Access::Words };
    let y = if whole { Access::Put } else { Access::Set };
    Specialization::new(
        &GEMV_N,
        form,
        &[(dtype, Access::Words), (dtype, b), (out, y)],
    )
}

fn slots_k(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.line("fn b_start(batch: u32) -> u32 { return 0u; }");
    slots_thread_group(spec, text)
}

fn slots_expert(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("kernel/matmul/expert.wgsl"));
    slots_thread_group(spec, text)
}

fn slots_thread_group(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    thread_group(spec, text);
    for (i, n) in ["a", "b"].into_iter().enumerate() {
        eights(spec, i, n, text)?;
    }
    let pair = epilogue::is_pair(spec);
    match spec.operands[1].1 {
        Access::Quant(_) => text.file(wgsl!("kernel/matmul/gemv_units.wgsl")),
        _ if pair => {
            text.line("@group(0) @binding(4) var<storage, read> c: array<C>;");
            eights(spec, 3, "c", text)?;
            text.file(wgsl!("kernel/matmul/eight.wgsl"));
            text.file(wgsl!("kernel/matmul/gemv_pair.wgsl"));
        }
        _ => {
            text.file(wgsl!("kernel/matmul/eight.wgsl"));
            text.file(wgsl!("kernel/matmul/gemv_eights.wgsl"));
        }
    }
    epilogue::y_put(spec, form(spec).cols, text)
}

/// The register tile, and how threads add up.
pub(crate) fn thread_group(spec: &Specialization, text: &mut Text) {
    let form = form(spec);
    text.line(format!("const ROWS = {}u;", form.rows));
    text.line(format!("const COLS = {}u;", form.cols));
    // As all twins of GEMV_K_ALONE are called.
    text.line(if spec.kernel.name.ends_with("_alone") {
        "const TREE = false;
struct Ids { @builtin(local_invocation_index) thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return 1u; }
fn meet() {}"
    } else if spec.kernel.features.contains(wgpu::Features::SUBGROUP) {
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
fn parts(ids: Ids) -> u32 { return (WORKGROUP + ids.size - 1u) / ids.size; }
fn meet() { workgroupBarrier(); }"
    } else {
        "const TREE = true;
struct Ids { @builtin(local_invocation_index) thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(SPAN, 8u); }
fn meet() { workgroupBarrier(); }"
    });
}

/// Eight elements of operand `i`, named `n`, at a time, if it is dense.
pub(crate) fn eights(spec: &Specialization, i: usize, n: &str, text: &mut Text) -> Result<()> {
    if matches!(spec.operands[i].1, Access::Quant(_)) {
        return Ok(());
    }
    let row = spec.info(i);
    if spec.operands[i].1 == Access::Words {
        text.line(format!(
            "fn {n}_one(row: u32, k: u32) -> f32 {{
    if k < p.k {{ return {n}_get(row + k * p.{n}_k); }}
    return 0.0;
}}
fn {n}_eight(row: u32, k: u32) -> Eight {{
    return Eight(
        vec4<f32>({n}_one(row, k), {n}_one(row, k + 1u), {n}_one(row, k + 2u), {n}_one(row, k + 3u)),
        vec4<f32>({n}_one(row, k + 4u), {n}_one(row, k + 5u), {n}_one(row, k + 6u), {n}_one(row, k + 7u)),
    );
}}"
        ));
        return Ok(());
    }
    // 16 bytes at a time, whatever the dtype.
    text.file(row.source);
    let (up, name) = (n.to_uppercase(), row.name);
    text.line(if row.lanes == 1 {
        format!(
            "alias {up} = vec4<f32>;
fn {n}_eight(row: u32, k: u32) -> Eight {{ let q = (row + k) / 4u; return Eight({n}[q], {n}[q + 1u]); }}"
        )
    } else {
        format!(
            "alias {up} = vec4<u32>;
fn {n}_eight(row: u32, k: u32) -> Eight {{
    let words = {n}[(row + k) / 8u];
    return Eight({name}_unpack(words.xy), {name}_unpack(words.zw));
}}"
        )
    });
    Ok(())
}

/// The specialisations that read both operands by 16 bytes.
pub(crate) fn wide_specs(dtype: DType) -> Vec<Specialization> {
    let spec = |(kernel, span): (&'static Kernel, u32), form: &Form| {
        let both = [dense(true), dense(true)];
        spec_of(kernel, form.name, (dtype, dtype), both).with("SPAN", span)
    };
    let each = |form| SPANS.map(|of| spec(of, form));
    FORMS.iter().flat_map(each).collect()
}

fn slots_n(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    text.line(format!("const ROWS = {}u;", spec.op));
    text.line(if spec.operands[1].1 == Access::Quads {
        "fn b_four(row: u32, n: u32) -> vec4<f32> { return b_get4((row + n) / 4u); }"
    } else {
        "fn b_four(row: u32, n: u32) -> vec4<f32> {
    let n_max = vec4<u32>(p.n - 1u);
    let at = vec4<u32>(row) + min(vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u), n_max) * p.b_n;
    return vec4<f32>(b_get(at.x), b_get(at.y), b_get(at.z), b_get(at.w));
}"
    });
    epilogue::y_put(spec, 4, text)
}

/// The kernels for b contiguous along k, and the SPAN of their samples.
const SPANS: [(&Kernel, u32); 4] = [
    (&GEMV_K, 64),
    (&GEMV_K_SUB32, 32),
    (&GEMV_K_SUB128, 128),
    (&GEMV_K_ALONE, 1),
];

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    // f32 is what the sums of a product cut along k have.
    let dtypes = FLOATS.into_iter().map(|dtype| (dtype, dtype));
    let sums = FLOATS.into_iter().skip(1).map(|dtype| (dtype, DType::F32));
    for dtype in dtypes.chain(sums) {
        for x in [true, false] {
            for y in [true, false] {
                for form in FORMS.iter().filter(|f| f.rows == 1 || x && y) {
                    for (kernel, span) in SPANS {
                        let spec = spec_of(kernel, form.name, dtype, [dense(x), dense(y)]);
                        all.push(spec.with("SPAN", span));
                    }
                }
                for m in [1, 2, 4, 8] {
                    all.push(spec_n(dtype, m, x, y));
                }
            }
        }
    }
    for dtype in FLOATS {
        for x in [true, false] {
            for row in QUANTS {
                let b = Access::Quant(row.quant);
                for form in FORMS {
                    for (kernel, span) in SPANS {
                        let spec = spec_of(kernel, form.name, (dtype, dtype), [dense(x), b]);
                        all.push(spec.with("SPAN", span));
                    }
                }
                for subgroups in [false, true] {
                    all.push(share_expert(dtype, row.quant, 2048, x, subgroups).spec);
                }
            }
        }
    }
    all
}
