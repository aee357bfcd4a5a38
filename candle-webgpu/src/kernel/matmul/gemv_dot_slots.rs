//! The slots of [`gemv_dot`](super::gemv_dot).

use smallvec::SmallVec;

use crate::dtype::quant::QuantInfo;
use crate::error::{Error, Result};
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemv::SUB;
use crate::kernel::matmul::gemv_dot::tile;
use crate::kernel::matmul::gemv_projections::is_projections;
use crate::kernel::matmul::rms_norm_gemv::is_normed;
use crate::kernel::matmul::store::put;
use crate::shader::{Access, Specialization, Text};

/// The sum of v over a thread group, valid in its lane 0. With four columns, each exchange halves the columns of a lane.
fn thread_group_sum(cols: u32) -> &'static str {
    if cols == 4 {
        "fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> {
    let upper = (lane & (THREAD_GROUP / 2u)) > 0u;
    let two = select(v.xy, v.zw, upper) + subgroupShuffleXor(select(v.zw, v.xy, upper), THREAD_GROUP / 2u);
    let odd = (lane & (THREAD_GROUP / 4u)) > 0u;
    var one = select(two.x, two.y, odd) + subgroupShuffleXor(select(two.y, two.x, odd), THREAD_GROUP / 4u);
    for (var far = THREAD_GROUP / 8u; far > 0u; far /= 2u) { one += subgroupShuffleXor(one, far); }
    let pair = vec2<f32>(one, subgroupShuffleXor(one, THREAD_GROUP / 4u));
    return vec4<f32>(pair, subgroupShuffleXor(pair, THREAD_GROUP / 2u));
}"
    } else {
        "fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> {
    var sum = v.xy;
    for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { sum += subgroupShuffleXor(sum, far); }
    return vec4<f32>(sum, sum);
}"
    }
}

/// The unrolled loop over the units of a span: NVIDIA's compiler does not unroll it, and keeps the arrays that it indexes in memory.
fn add_span(row: &QuantInfo) -> String {
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

pub(crate) fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    let Access::Quant(quant) = spec.operands[1].1 else {
        return Err(Error::Shader {
            name: spec.name(),
            message: "b is not quantized".into(),
        });
    };
    text.line(add_span(quant.info()));
    let subgroups = spec.features.contains(SUB);
    text.line(format!("const ROWS = {}u;", tile.rows));
    text.line(format!("const COLS = {}u;", tile.cols));
    let own = match epilogue::is_pair(spec) {
        true => tile.cols / 2,
        false => tile.cols,
    };
    text.line(format!("const OWN = {own}u;"));
    text.line(format!("const TREE = {};", !subgroups));
    // On every known adapter, a subgroup of a one-dimensional workgroup is a contiguous range of its threads.
    text.line(if subgroups {
        thread_group_sum(tile.cols)
    } else {
        "fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> { return v; }"
    });
    text.file(wgsl!("lib/round16.wgsl"));
    let keep = match subgroups {
        true => wgsl!("kernel/matmul/keep_subgroup.wgsl"),
        false => wgsl!("kernel/matmul/keep_shared.wgsl"),
    };
    let quads = spec.operands[0].1 == Access::Quads;
    if is_normed(spec) {
        text.file_of(keep, &[("keep", "keep_units")]);
        text.file(wgsl!("kernel/matmul/keep_rms_norm.wgsl"));
        normed(spec, subgroups, text);
    } else {
        text.file(keep);
        text.line(if quads {
            "fn a_four(row: u32, k: u32) -> vec4<f32> { return a_get4((row + k) / 4u); }"
        } else {
            "fn a_four(row: u32, k: u32) -> vec4<f32> {
    let at = row + k * p.a_k;
    return vec4<f32>(a_get(at), a_get(at + p.a_k), a_get(at + 2u * p.a_k), a_get(at + 3u * p.a_k));
}"
        });
    }
    if spec.binds("ids") {
        text.file(wgsl!("kernel/matmul/expert.wgsl"));
    } else {
        text.line("fn b_start(batch: u32) -> u32 { return 0u; }");
    }
    matmuls(spec, text)
}

/// The loads of x and of x * alpha, and the reduction of the squares of x.
fn normed(spec: &Specialization, subgroups: bool, text: &mut Text) {
    let at = spec.operands.len();
    let one_of_thread_group = match subgroups {
        true => {
            "    var sum = v;
    for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { sum += subgroupShuffleXor(sum, far); }
    return sum;"
        }
        false => "    return v;",
    };
    text.line(format!(
        "@group(0) @binding({at}) var<storage, read> alpha: array<ALPHA>;
fn x_four(row: u32, k: u32) -> vec4<f32> {{ return a_get4((row + k) / 4u); }}
fn a_four(row: u32, k: u32) -> vec4<f32> {{ return x_four(row, k) * alpha_get4((p.a_batch.x + k) / 4u); }}
fn one_of_thread_group(v: f32) -> f32 {{
{one_of_thread_group}
}}"
    ));
}

/// The part of y that a workgroup owns, the loads of its columns and the stores of its accumulators.
fn matmuls(spec: &Specialization, text: &mut Text) -> Result<()> {
    if epilogue::is_pair(spec) {
        return pair(spec, text);
    }
    text.line(
        "fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 { return unit_at(w, n + c, s); }",
    );
    let projections = is_projections(spec);
    let matmuls: SmallVec<[_; 7]> = spec.bindings().skip(1).collect();
    if projections {
        text.file(wgsl!("kernel/matmul/place_projection.wgsl"));
    } else {
        text.file(wgsl!("lib/batch.wgsl"));
        text.file(wgsl!("kernel/matmul/place_batch.wgsl"));
    }
    let (mut loads, mut stores) = (String::new(), String::new());
    for (which, pair) in matmuls.chunks(2).enumerate() {
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
        if projections {
            put(spec, 2 + 2 * which, y, text)?;
        } else {
            epilogue::y_put(spec, tile(spec).cols, text)?;
        }
        let load = format!(
            "for (var c = 0u; c < COLS; c++) {{ spans[c] = {load}(unit_of(w, n, c, s)); }}"
        );
        let store = format!("{y}_put(at, count, v);");
        if !projections {
            (loads, stores) = (load, store);
            break;
        }
        loads += &format!("case {which}u: {{ {load} }}\n        ");
        stores += &format!("case {which}u: {{ {store} }}\n        ");
    }
    if projections {
        for cases in [&mut loads, &mut stores] {
            *cases = format!("switch which {{\n        {cases}default: {{}}\n    }}");
        }
    }
    let (parameter, scaled) = store_parameter(spec);
    stores.insert_str(0, scaled);
    text.line(format!(
        "fn load(which: u32, w: Matrix, n: u32, s: u32) -> Spans {{
    var spans: Spans;
    {loads}
    return spans;
}}
fn y_put_of(which: u32, at: u32, count: u32, {parameter}) {{
    {stores}
}}"
    ));
    Ok(())
}

/// The parameter of the store that takes the accumulators, and the statement that scales them into v.
fn store_parameter(spec: &Specialization) -> (&'static str, &'static str) {
    match is_normed(spec) {
        true => ("sums: vec4<f32>", "let v = sums * factor();\n    "),
        false => ("v: vec4<f32>", ""),
    }
}

/// [`matmuls`] for a pair: the columns of b, followed by those of c.
fn pair(spec: &Specialization, text: &mut Text) -> Result<()> {
    let cols = tile(spec).cols;
    let own = cols / 2;
    text.file(wgsl!("lib/batch.wgsl"));
    text.file(wgsl!("kernel/matmul/place_batch.wgsl"));
    let loads: String = (0..cols)
        .map(|c| {
            let of = if c < own { "w" } else { "c" };
            format!("    spans[{c}] = {of}_load(unit_of(w, n, {c}u, s));\n")
        })
        .collect();
    let (parameter, scaled) = store_parameter(spec);
    text.line(format!(
        "@group(0) @binding(4) var<storage, read> c: array<C>;
fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 {{
    return unit_at(Matrix(w.start + c / OWN * p.epilogue.step, w.n, w.stride), n + c % OWN, s);
}}
fn load(which: u32, w: Matrix, n: u32, s: u32) -> Spans {{
    var spans: Spans;
{loads}    return spans;
}}
fn y_put_of(which: u32, at: u32, count: u32, {parameter}) {{ {scaled}y_put(at, count, v); }}"
    ));
    epilogue::y_put(spec, own, text)
}
