//! The slots of [`gemv_dot`](super::gemv_dot).

use crate::dtype::quant::QuantInfo;
use crate::error::{Error, Result};
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemv::{place_batch, tile, SUB};
use crate::kernel::matmul::gemv_projections::{is_projections, matrices, place_projection};
use crate::kernel::matmul::projection_bias;
use crate::kernel::matmul::rms_norm_gemv::is_normed;
use crate::kernel::matmul::store::store;
use crate::kernel::switch;
use crate::shader::{function, renamed, Access, Specialization, Text};

/// The unrolled loop over the units of a span: NVIDIA's compiler does not unroll it, and keeps the arrays that it indexes in memory.
fn add_span(row: &QuantInfo, text: &mut Text) {
    let mut body = Vec::new();
    for j in 0..row.span {
        // The units of a whole span share their sums.
        let sums = if row.whole { 0 } else { j };
        if sums == j {
            body.push(format!("var sums_{j} = Sums();"));
        }
        body.push(format!(
            "let factors_{j} = add_unit(&sums_{sums}, now, w, n, s, at_s, {j}u);"
        ));
        if j + 1 == row.span || !row.whole {
            body.push(format!(
                "add_sums(acc, sums_{sums}, factors_{j}, s * W_SPAN + {sums}u);"
            ));
        }
    }
    let acc = "ptr<function, array<vec4<f32>, ROWS>>";
    let head = format!("add_span(acc: {acc}, now: Spans, w: Matrix, n: u32, s: u32, at_s: u32)");
    text.unrolled(&head, body);
}

pub(crate) fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    let Access::Quant(quant) = spec.operands[1].1 else {
        return Err(Error::Shader {
            name: spec.name(),
            message: "b is not quantized".into(),
        });
    };
    add_span(quant.info(), text);
    let own = match epilogue::is_pair(spec) {
        true => tile.cols / 2,
        false => tile.cols,
    };
    text.constants(&[("ROWS", tile.rows), ("COLS", tile.cols), ("OWN", own)]);
    let subgroups = spec.features.contains(SUB);
    text.line(format!("const TREE = {};", !subgroups));
    let (sums, keep) = match subgroups {
        true => (
            wgsl!("kernel/matmul/gemv_dot_subgroup.wgsl"),
            wgsl!("kernel/matmul/keep_subgroup.wgsl"),
        ),
        false => (
            wgsl!("kernel/matmul/gemv_dot_memory.wgsl"),
            wgsl!("kernel/matmul/keep_shared.wgsl"),
        ),
    };
    const SUM: &str = "thread_group_sum";
    const SUM_OF_FOUR: &str = "thread_group_sum4";
    let sum = if subgroups && tile.cols == 4 {
        SUM_OF_FOUR
    } else {
        SUM
    };
    text.line(renamed(function(sums, sum), &[(SUM_OF_FOUR, SUM)]));
    text.file(wgsl!("lib/round16.wgsl"));
    if is_normed(spec) {
        text.file_of(keep, &[("keep", "keep_units")]);
        text.file(wgsl!("kernel/matmul/keep_rms_norm.wgsl"));
        text.bindings(spec, spec.operands.len() - 1);
        text.line("fn x_four(row: u32, k: u32) -> vec4<f32> { return a_get4((row + k) / 4u); }");
        text.line(
            "fn alpha_four(k: u32) -> vec4<f32> { return alpha_get4((p.a_batch.x + k) / 4u); }",
        );
        text.line(function(sums, "one_of_thread_group"));
    } else {
        text.file(keep);
        if spec.operands[0].1 == Access::Quads {
            text.line(
                "fn a_four(row: u32, k: u32, first: bool) -> vec4<f32> { return a_get4((row + k) / 4u); }",
            );
        } else {
            text.part(wgsl!("kernel/matmul/gemv_dot_words.wgsl"));
        }
    }
    matmuls(spec, text)
}

/// The part of y that a workgroup owns, the loads of its columns and the stores of its accumulators.
fn matmuls(spec: &Specialization, text: &mut Text) -> Result<()> {
    let (projections, pair) = (is_projections(spec), epilogue::is_pair(spec));
    if projections {
        place_projection(text);
    } else {
        place_batch(spec, text);
    }
    let cols = tile(spec).cols;
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    if pair {
        text.part(wgsl!("kernel/matmul/gemv_dot_pair.wgsl"));
        for c in 0..cols {
            let of = if c < cols / 2 { "w" } else { "c" };
            loads.push(format!("spans[{c}] = {of}_load(unit_of(w, n, {c}u, s));"));
        }
        stores.push(store("y"));
    } else {
        text.line(
            "fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 { return unit_at(w, n + c, s); }",
        );
        for (which, (b, y)) in matrices(spec).into_iter().enumerate() {
            let own = (1..).zip(spec.bindings()).skip(1 + 2 * which).take(2);
            if which > 0 {
                own.for_each(|(at, binding)| text.binding(at, binding));
            }
            if projections {
                projection_bias::put(spec, which, text)?;
            } else {
                epilogue::y_put(spec, cols, "epilogue", text)?;
            }
            let of = if which == 0 { "w" } else { b };
            loads.push(format!(
                "for (var c = 0u; c < COLS; c++) {{ spans[c] = {of}_load(unit_of(w, n, c, s)); }}"
            ));
            stores.push(store(y));
        }
    }
    if projections {
        loads = switch("which", loads, "{}");
        stores = switch("which", stores, "{}");
    }
    loads.insert(0, "var spans: Spans;".into());
    loads.push("return spans;".into());
    text.unrolled(
        "load(which: u32, w: Matrix, n: u32, s: u32) -> Spans",
        loads,
    );
    let mut v = "v";
    if is_normed(spec) {
        v = "sums";
        stores.insert(0, "let v = sums * factor();".into());
    }
    let head = format!("y_put_of(which: u32, at: u32, count: u32, {v}: vec4<f32>)");
    text.unrolled(&head, stores);
    if pair {
        epilogue::y_put(spec, cols / 2, "epilogue", text)?;
    }
    text.part(epilogue::PARAMS_PROJECTIONS);
    Ok(())
}
