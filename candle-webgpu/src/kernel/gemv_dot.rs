//! gemv_dot: products of a few rows with a quantized matrix in integers, for adapters that multiply packed bytes fast.
//! Activations are rounded to 16 bits a block of 32, or of the 128 that a span of the K formats has: 128 to 257 times finer than
//! the 8 bits of the CPU and of llama.cpp.

use crate::device::Inner;
use crate::elem::Elem;
use crate::error::{Error, Result};
use crate::kernel::edge::{put, FLOATS};
use crate::kernel::epilogue;
use crate::kernel::gemv::{NONE, SUB};
use crate::link::{read, write, Access, Binding, Kernel, Spec, Text};
use crate::quant::{Quant, QuantRow, QUANTS};

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
            source: include_str!("../../wgsl/kernel/gemv_dot.wgsl"),
            bindings: $bindings,
            workgroup: $workgroup,
            shared: |spec| shared(form(spec).rows, chunk(spec)),
            features: $features,
            slots,
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

macro_rules! siblings {
    ($name:literal, $workgroup:expr, $features:expr) => {
        [
            kernel!($name, $workgroup, $features, TWO),
            kernel!($name, $workgroup, $features, THREE),
        ]
    };
}

/// Of two and of three matrices with the same rows of a. Recorded by a rule.
static SIBLINGS: [Kernel; 2] = siblings!("gemv_dot_siblings", WORKGROUP, NONE);
static SIBLINGS_SUB: [Kernel; 2] = siblings!("gemv_dot_siblings_sub", WORKGROUP, SUB);
static SIBLINGS_MANY: [Kernel; 2] = siblings!("gemv_dot_siblings_many", 128, SUB);

/// The kernels that siblings are made of, each with its twins.
#[rustfmt::skip]
pub(super) const TWINS: [(&Kernel, &[Kernel; 2]); 3] = [
    (&GEMV_DOT, &SIBLINGS),
    (&GEMV_DOT_SUB, &SIBLINGS_SUB),
    (&GEMV_DOT_MANY, &SIBLINGS_MANY),
];

fn twins(kernel: &Kernel) -> Option<&'static [Kernel; 2]> {
    let found = TWINS.iter().find(|(of, _)| std::ptr::eq(*of, kernel));
    found.map(|(_, twins)| *twins)
}

/// Whether the kernel is one that can compute siblings.
pub(crate) fn has_siblings(spec: &Spec) -> bool {
    twins(spec.kernel).is_some()
}

/// How products like `one` of the same m rows with two or three matrices, which have n rows in all, are computed together. The
/// sums of each are those that it has alone: neither their number nor the form decides their order.
pub(crate) fn share_siblings(
    device: &Inner,
    one: &Spec,
    count: usize,
    (m, n, k): (u32, u32, u32),
) -> Option<Share> {
    let [(elem, a), (_, Access::Quant(quant)), _] = one.operands[..] else {
        return None;
    };
    let ask = Ask {
        elem,
        quant,
        quads: a == Access::Quads,
        limit: device.limits.max_compute_workgroup_storage_size,
        subgroup: device.subgroup().map(|(least, _)| least),
        experts: false,
    };
    let share = share(&ask, (m, n, k))?;
    Some(Share {
        spec: siblings_of(&share.spec, count)?,
        ..share
    })
}

fn siblings_of(one: &Spec, count: usize) -> Option<Spec> {
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

/// A product with half of the columns of each of two matrices, like the siblings that `one` is of, and how many columns of each a
/// workgroup owns at a time.
pub(super) fn pair_of(one: &Spec) -> Option<(Spec, u32)> {
    let like = form(one);
    let cols = like.cols.max(2);
    let form = FORMS
        .iter()
        .find(|f| f.rows == like.rows && f.cols == cols)?;
    let (_, team) = one.overrides.iter().find(|(name, _)| *name == "TEAM")?;
    let mut spec = one.clone();
    spec.op = form.name;
    Some((spec, one.kernel.workgroup / team * form.cols / 2))
}

/// What a team computes at a time.
struct Form {
    name: &'static str,
    rows: u32,
    cols: u32,
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

fn form(spec: &Spec) -> &'static Form {
    FORMS
        .iter()
        .find(|f| f.name == spec.op)
        .unwrap_or(&FORMS[0])
}

/// Columns from which on a team takes several at a time, as measured on an NVIDIA H200.
const MANY: u32 = 4096;

/// Invocations that keep a large adapter busy; more workgroups would round the same activations again.
const THREADS: u32 = 65_536;

/// Units that a workgroup of GEMV_DOT_MANY keeps at most: more of them leave room for too few.
const MANY_UNITS: u32 = 128;

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
    /// The adapter's smallest subgroup.
    pub subgroup: Option<u32>,
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

/// A specialisation for m rows; none where they are too many, where a row has no whole spans, or for the adapter's
/// workgroup memory.
pub(crate) fn share(ask: &Ask, (m, n, k): (u32, u32, u32)) -> Option<Share> {
    let span = ask.quant.row().span;
    if m > MAX_ROWS || !k.is_multiple_of(32 * span) {
        return None;
    }
    let many = n >= MANY;
    let cols = if m == 1 && !many {
        1
    } else {
        ask.quant.row().cols
    };
    let rows = m.next_power_of_two().min(4);
    let form = FORMS.iter().find(|f| f.rows == rows && f.cols == cols)?;
    // Eight share a unit when activations are rounded. 64 units, k of 2048, are one turn of a team.
    let subgroup = ask.subgroup.filter(|least| *least >= 8);
    let team = subgroup.unwrap_or(32).min(64 / span.max(2));
    let fits = CHUNKS
        .into_iter()
        .filter(|&c| shared(form.rows, c) <= ask.limit && c.is_multiple_of(team * span));
    let chunk = fits.clone().find(|c| c * 32 >= k).or(fits.max())?;
    let kernel = match (subgroup.is_some(), ask.experts) {
        (false, false) => &GEMV_DOT,
        (true, false) if m == 1 && many && chunk <= MANY_UNITS => &GEMV_DOT_MANY,
        (true, false) => &GEMV_DOT_SUB,
        (false, true) => &GEMV_DOT_EXPERT,
        (true, true) => &GEMV_DOT_EXPERT_SUB,
    };
    let spec = spec_of(kernel, form, ask, team, chunk);
    let cols = kernel.workgroup / team * form.cols;
    let groups = THREADS / kernel.workgroup;
    let rounds = n.div_ceil(cols).div_ceil(groups).clamp(1, 16);
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
        .with("CHUNK", chunk);
    if ask.experts {
        let raw = (Elem::U32, Access::Raw);
        spec.operands.extend([raw, raw]);
    }
    spec
}

/// The sums of v over a team, right in its lane 0. Four columns halve what each lane still has to add up.
fn team_sum(cols: u32) -> &'static str {
    if cols == 4 {
        "fn team_sum(v: vec4<f32>, lane: u32) -> vec4<f32> {
    let upper = (lane & (TEAM / 2u)) > 0u;
    let two = select(v.xy, v.zw, upper) + subgroupShuffleXor(select(v.zw, v.xy, upper), TEAM / 2u);
    let odd = (lane & (TEAM / 4u)) > 0u;
    var one = select(two.x, two.y, odd) + subgroupShuffleXor(select(two.y, two.x, odd), TEAM / 4u);
    for (var far = TEAM / 8u; far > 0u; far /= 2u) { one += subgroupShuffleXor(one, far); }
    let pair = vec2<f32>(one, subgroupShuffleXor(one, TEAM / 4u));
    return vec4<f32>(pair, subgroupShuffleXor(pair, TEAM / 2u));
}"
    } else {
        "fn team_sum(v: vec4<f32>, lane: u32) -> vec4<f32> {
    var sum = v.xy;
    for (var far = TEAM / 2u; far > 0u; far /= 2u) { sum += subgroupShuffleXor(sum, far); }
    return vec4<f32>(sum, sum);
}"
    }
}

/// The units of a span one by one: NVIDIA's compiler leaves a loop of four as it is, and keeps what it indexes in memory.
fn add_span(row: &QuantRow) -> String {
    let mut body = String::new();
    for j in 0..row.span {
        if j == 0 || !row.whole {
            body += &format!("    var sums_{j} = Sums();\n");
        }
        let sums = if row.whole { 0 } else { j };
        let factors =
            format!("let factors_{j} = add_unit(&sums_{sums}, now, w, n, s, at_s, {j}u);");
        body += &format!("    {factors}\n");
        if j + 1 == row.span || !row.whole {
            let first = if row.whole { 0 } else { j };
            body +=
                &format!("    add_sums(acc, sums_{sums}, factors_{j}, s * W_SPAN + {first}u);\n");
        }
    }
    format!(
        "fn add_span(acc: ptr<function, array<vec4<f32>, ROWS>>, now: Spans, w: Matrix, n: u32, s: u32, at_s: u32) {{
{body}}}"
    )
}

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    let form = form(spec);
    let Access::Quant(quant) = spec.operands[1].1 else {
        return Err(Error::Shader {
            name: spec.name(),
            message: "b is not quantized".into(),
        });
    };
    text.line(add_span(quant.row()));
    let subgroups = spec.kernel.features.contains(SUB);
    text.line(format!("const ROWS = {}u;", form.rows));
    text.line(format!("const COLS = {}u;", form.cols));
    let own = match epilogue::is_pair(spec) {
        true => form.cols / 2,
        false => form.cols,
    };
    text.line(format!("const OWN = {own}u;"));
    text.line(format!("const TREE = {};", !subgroups));
    // Subgroups of a one-dimensional workgroup are runs of its threads on every adapter known.
    text.line("struct Ids { @builtin(local_invocation_index) thread: u32 }");
    text.line(if subgroups {
        team_sum(form.cols)
    } else {
        "fn team_sum(v: vec4<f32>, lane: u32) -> vec4<f32> { return v; }"
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
    text.file(if subgroups {
        include_str!("../../wgsl/lib/keep_subgroup.wgsl")
    } else {
        include_str!("../../wgsl/lib/keep_shared.wgsl")
    });
    if is_expert(spec.kernel) {
        text.file(include_str!("../../wgsl/lib/expert.wgsl"));
    } else {
        text.line("fn b_start(batch: u32) -> u32 { return 0u; }");
    }
    products(spec, text)
}

/// What a workgroup owns, what loads its columns and what stores its sums.
fn products(spec: &Spec, text: &mut Text) -> Result<()> {
    if epilogue::is_pair(spec) {
        return pair(spec, text);
    }
    text.line(
        "fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 { return unit_at(w, n + c, s); }",
    );
    let siblings = is_siblings(spec.kernel);
    let products = &spec.kernel.bindings[1..];
    if siblings {
        text.file(include_str!("../../wgsl/lib/place_sibling.wgsl"));
    } else {
        text.file(include_str!("../../wgsl/lib/batch.wgsl"));
        text.file(include_str!("../../wgsl/lib/place_batch.wgsl"));
    }
    let (mut loads, mut puts) = (String::new(), String::new());
    for (which, pair) in products.chunks(2).enumerate() {
        let [b, y] = pair else { continue };
        let (b, y) = (b.name, y.name);
        let load = match which {
            0 => "w_load".to_string(),
            _ => {
                let (at, up_b, up_y) = (2 + 2 * which, b.to_uppercase(), y.to_uppercase());
                text.line(format!(
                    "@group(0) @binding({at}) var<storage, read> {b}: array<{up_b}>;
@group(0) @binding({}) var<storage, read_write> {y}: array<{up_y}>;",
                    at + 1
                ));
                format!("{b}_load")
            }
        };
        if siblings {
            put(spec, 2 + 2 * which, y, text)?;
        } else {
            epilogue::y_put(spec, form(spec).cols, text)?;
        }
        let load = format!(
            "for (var c = 0u; c < COLS; c++) {{ spans[c] = {load}(unit_of(w, n, c, s)); }}"
        );
        let store = format!("{y}_put(at, count, v);");
        if !siblings {
            (loads, puts) = (load, store);
            break;
        }
        loads += &format!("case {which}u: {{ {load} }}\n        ");
        puts += &format!("case {which}u: {{ {store} }}\n        ");
    }
    if siblings {
        for cases in [&mut loads, &mut puts] {
            *cases = format!("switch which {{\n        {cases}default: {{}}\n    }}");
        }
    }
    text.line(format!(
        "fn load(which: u32, w: Matrix, n: u32, s: u32) -> Spans {{
    var spans: Spans;
    {loads}
    return spans;
}}
fn y_put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {{
    {puts}
}}"
    ));
    Ok(())
}

/// The same for columns of b, and behind them those of c.
fn pair(spec: &Spec, text: &mut Text) -> Result<()> {
    let cols = form(spec).cols;
    let own = cols / 2;
    text.file(include_str!("../../wgsl/lib/batch.wgsl"));
    text.file(include_str!("../../wgsl/lib/place_batch.wgsl"));
    let loads: String = (0..cols)
        .map(|c| {
            let of = if c < own { "w" } else { "c" };
            format!("    spans[{c}] = {of}_load(unit_of(w, n, {c}u, s));\n")
        })
        .collect();
    text.line(format!(
        "@group(0) @binding(4) var<storage, read> c: array<C>;
fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 {{
    return unit_at(Matrix(w.start + c / OWN * p.epilogue.step, w.n, w.stride), n + c % OWN, s);
}}
fn load(which: u32, w: Matrix, n: u32, s: u32) -> Spans {{
    var spans: Spans;
{loads}    return spans;
}}
fn y_put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {{ y_put(at, count, v); }}"
    ));
    epilogue::y_put(spec, own, text)
}

fn is_siblings(kernel: &Kernel) -> bool {
    let mut all = TWINS.iter().flat_map(|(_, twins)| twins.iter());
    all.any(|twin| std::ptr::eq(twin, kernel))
}

fn is_expert(kernel: &Kernel) -> bool {
    [&GEMV_DOT_EXPERT, &GEMV_DOT_EXPERT_SUB]
        .iter()
        .any(|k| std::ptr::eq(*k, kernel))
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for elem in FLOATS {
        for row in QUANTS {
            for quads in [true, false] {
                for subgroup in [None, Some(8), Some(32)] {
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
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (1, 8192, 8192)] {
                            all.extend(share(&ask, size).map(|s| s.spec));
                        }
                        for size in [(1, 2048, 2048), (1, 8192, 4096), (2, 2048, 2048)] {
                            let one = share(&ask, size).map(|s| s.spec);
                            let one = one.filter(|one| quads && has_siblings(one));
                            for count in [2, 3] {
                                all.extend(one.as_ref().and_then(|one| siblings_of(one, count)));
                            }
                        }
                    }
                }
            }
        }
    }
    all
}
