//! rms_norm of one row and the matmuls that read it, in one kernel: the norm scales the whole row, so it can scale the accumulators
//! instead, and threads that read all of the row also accumulate its squares. Recorded by the rule `rms_norm_matmul`.

use crate::error::Result;
use crate::kernel::matmul::gemv::{eights, thread_group, GEMV_K};
use crate::kernel::matmul::gemv_dot::GEMV_DOT;
use crate::kernel::matmul::gemv_projections::{
    is_projections, matrices, GEMV_PROJECTIONS, PLACE_COLUMNS,
};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::projection_bias::{self, is_bias};
use crate::kernel::matmul::store::{store, FLOATS, PUT_OF};
use crate::kernel::matmul::{epilogue, gemv, gemv_dot, gemv_projections, gemv_variant};
use crate::kernel::norm::NormParams;
use crate::kernel::switch;
use crate::shader::{read, Access, Kernel, Specialization, Text};

const MATRICES: [&str; 3] = ["b", "c", "d"];

/// Has the variants of [`GEMV_K`]; the added bindings are those of an epilogue or of projections and their biases, then the norm's
/// weight.
pub static RMS_NORM_GEMV: Kernel = Kernel {
    name: "rms_norm_gemv",
    source: wgsl!("kernel/matmul/rms_norm_gemv.wgsl"),
    params: gemv_projections::Params::LAYOUT,
    shared: |spec| spec.workgroup * 20,
    slots,
    ..GEMV_K
};

/// Whether the kernel normalizes its row.
pub(crate) fn is_normed(spec: &Specialization) -> bool {
    spec.binds("alpha")
}

/// The specialization of `of` that normalizes its row first; `None` if no kernel does.
pub(crate) fn spec(of: &Specialization) -> Option<Specialization> {
    let (dtype, access) = *of.operands.first()?;
    let mut spec = of.clone();
    let fits = if of.is_of(&GEMV_DOT) {
        // gemv_dot reads the row by quads, the other kernels by 16-byte loads.
        gemv::tile(of).rows == 1 && access == Access::Quads
    } else {
        let mut matrices = of.bindings().zip(&of.operands);
        let vec4 = matrices
            .all(|(b, operand)| !MATRICES.contains(&b.name) || *operand == (dtype, Access::Raw));
        spec = gemv_variant::without_blocks(spec);
        spec.kernel = &RMS_NORM_GEMV;
        (of.is_of(&GEMV_K) || of.is_of(&GEMV_PROJECTIONS))
            && gemv::tile(of).rows == 1
            && access == Access::Raw
            && vec4
    };
    (fits && !is_normed(of) && !of.binds("ids")).then(|| spec.bind(read("alpha"), dtype, access))
}

/// The parameters of a matmul that normalizes its row.
pub(crate) fn params(matmul: MatmulParams, norm: &NormParams) -> MatmulParams {
    MatmulParams {
        a_offset: norm.x_offset,
        // A single row has no batch strides.
        a_batch: [
            norm.alpha_offset,
            norm.eps.to_bits(),
            norm.inverse.to_bits(),
            0,
        ],
        ..matmul
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    thread_group(spec, text);
    for (i, binding) in spec.bindings().enumerate() {
        let name = &binding.name;
        // The kernel's file declares the first three, the epilogue and the biases their own.
        if i >= 3 && !["e", "f"].contains(name) && !is_bias(binding) {
            text.binding(i + 1, binding);
        }
        if *name == "a" || *name == "alpha" || MATRICES.contains(name) {
            eights(spec, i, name, text);
        }
    }
    text.file(wgsl!("kernel/matmul/eight.wgsl"));
    text.file(wgsl!("kernel/matmul/early.wgsl"));
    epilogue::hold(spec, text);
    text.line(
        "fn dot_of(v: Eight, w: Eight) -> f32 { return dot(v.low, w.low) + dot(v.high, w.high); }",
    );
    match is_projections(spec) {
        true => projections(spec, text)?,
        false => one(spec, text)?,
    }
    text.part(epilogue::PARAMS_PROJECTIONS);
    Ok(())
}

const ADD_UP: &str = wgsl!("kernel/matmul/rms_norm_gemv_eights.wgsl");

/// One matmul, or a pair.
fn one(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.line("fn place(group: u32) -> Place { return Place(0u, group, p.n, p.b_offset, p.b_n); }");
    let pair = epilogue::is_pair(spec);
    columns("columns", "b", pair, text);
    let early = match pair {
        true => "b_ahead(first, col) ^ c_ahead(first, col + p.epilogue.step)",
        false => "b_ahead(first, col) ^ held()",
    };
    text.line(format!(
        "fn early(first: u32, col: u32) -> u32 {{ return {early}; }}"
    ));
    text.line("fn add_up_of(which: u32, first: u32, row: u32, cols: vec2<u32>) -> Sums { return add_up(first, row, cols); }");
    text.line(format!("fn {PUT_OF} {{ y_put(at, count, v); }}"));
    text.file(ADD_UP);
    epilogue::y_put(spec, 2, "epilogue", text)
}

/// The products with two columns of `b`, and with those of c for a pair. NVIDIA's compiler would load c only once b is multiplied, so b is
/// multiplied by an x that depends on both.
fn columns(name: &str, b: &str, pair: bool, text: &mut Text) {
    let load = |to: &str, from: &str, at: &str| format!("let {to} = {from}_eight({at}, k);");
    let mut body = vec![load("b_x", b, "cols.x"), load("b_y", b, "cols.y")];
    let of = |v: &str, m: &str| format!("dot_of({v}, {m}_x), dot_of({v}, {m}_y)");
    let products = match pair {
        false => format!("{}, 0.0, 0.0", of("v", "b")),
        true => {
            let at = ["x", "y"].map(|col| format!("cols.{col} + p.epilogue.step"));
            let bits = "bitcast<u32>(c_x.low.x) ^ bitcast<u32>(c_y.low.x)";
            body.extend([load("c_x", "c", &at[0]), load("c_y", "c", &at[1])]);
            body.push(format!(
                "let x = Eight(v.low + vec4<f32>(early_zero({bits}, k)), v.high);"
            ));
            [of("x", "b"), of("x", "c")].join(", ")
        }
    };
    body.push(format!("return vec4<f32>({products});"));
    let head = format!("{name}(v: Eight, cols: vec2<u32>, k: u32) -> vec4<f32>");
    text.unrolled(&head, body);
}

fn projections(spec: &Specialization, text: &mut Text) -> Result<()> {
    let matrices = matrices(spec);
    for (which, (b, _)) in matrices.iter().enumerate() {
        projection_bias::put(spec, which, text)?;
        let [columns_b, add_up] = [format!("columns_{b}"), format!("add_up_{b}")];
        columns(&columns_b, b, false, text);
        let ahead = format!("{b}_ahead");
        let names = [
            ("add_up", &*add_up),
            ("columns", &*columns_b),
            ("early", &*ahead),
        ];
        text.file_of(ADD_UP, &names);
    }
    text.part(PLACE_COLUMNS);
    let cases = matrices.iter();
    let cases = cases.map(|(b, _)| format!("return add_up_{b}(first, row, cols);"));
    let head = "add_up_of(which: u32, first: u32, row: u32, cols: vec2<u32>) -> Sums";
    text.unrolled(head, switch("which", cases, "{ return Sums(); }"));
    let stores = matrices.iter().map(|(_, y)| store(y));
    text.unrolled(PUT_OF, switch("which", stores, "{}"));
    Ok(())
}

/// The catalogues of all other GEMV kernels, with a norm where one can be fused.
pub fn catalogue() -> Vec<Specialization> {
    let plain = FLOATS.into_iter().flat_map(gemv::vec4_specs);
    let all = plain
        .chain(gemv_projections::catalogue())
        .chain(gemv_dot::catalogue())
        .chain(epilogue::catalogue());
    all.filter_map(|of| spec(&of)).collect()
}
