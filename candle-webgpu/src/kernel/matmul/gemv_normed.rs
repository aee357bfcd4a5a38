//! rms_norm and the products of its row as one kernel: the norm is a factor of the row, so of the sums as well, and threads that
//! read all of the row add up its squares beside them. Recorded by a rule. Each kernel is the twin of one of products.

use crate::error::Result;
use crate::kernel::matmul::gemv::{eights, thread_group, NONE, SUB};
use crate::kernel::matmul::gemv_dot;
use crate::kernel::matmul::gemv_dot::shared_normed;
use crate::kernel::matmul::problem::Params as Product;
use crate::kernel::matmul::store::{put, FLOATS};
use crate::kernel::matmul::{epilogue, gemv, gemv_dot_slots, gemv_projections};
use crate::kernel::norm::NormParams;
use crate::shader::{read, write, Access, Binding, Kernel, Specialization, Text};

const MATRICES: [&str; 3] = ["b", "c", "d"];

/// Those of the kernels of products that have twins, each with the norm's parameter behind them. `$last` is the third projection.
macro_rules! bindings {
    ($last:literal) => {
        [
            &[read("a"), read("b"), write("y"), read("alpha")],
            &[read("a"), read("b"), write("y"), read("e"), read("alpha")],
            &[
                read("a"),
                read("b"),
                write("y"),
                read("e"),
                read("f"),
                read("alpha"),
            ],
            // A pair, and projections.
            &[read("a"), read("b"), write("y"), read("c"), read("alpha")],
            &[
                read("a"),
                read("b"),
                write("y"),
                read("c"),
                write("z"),
                read("alpha"),
            ],
            &[
                read("a"),
                read("b"),
                write("y"),
                read("c"),
                write("z"),
                read("d"),
                write($last),
                read("alpha"),
            ],
        ]
    };
}

type Bindings = [&'static [Binding]; 6];
const DENSE: Bindings = bindings!("w");
const DOT: Bindings = bindings!("x");

/// Twins of kernels by their names.
struct Row {
    of: [&'static str; 2],
    twins: [Kernel; 6],
}

macro_rules! row {
    ($file:literal, $one:literal, $projections:literal, $name:literal, $workgroup:expr, $features:expr, $bindings:expr, $shared:expr, $slots:expr) => {{
        const fn twin(at: usize) -> Kernel {
            Kernel {
                name: $name,
                source: wgsl!("kernel/matmul/", $file, ".wgsl"),
                params: crate::shader::ParamsLayout::UNKNOWN,
                bindings: $bindings[at],
                workgroup: $workgroup,
                shared: $shared,
                features: $features,
                slots: $slots,
            }
        }
        Row {
            of: [$one, $projections],
            twins: [twin(0), twin(1), twin(2), twin(3), twin(4), twin(5)],
        }
    }};
}

macro_rules! dense {
    ($one:literal, $projections:literal, $name:literal, $workgroup:literal, $features:expr) => {
        row!(
            "gemv_normed",
            $one,
            $projections,
            $name,
            $workgroup,
            $features,
            DENSE,
            |_| $workgroup * 20,
            slots
        )
    };
}

macro_rules! dot {
    ($one:literal, $projections:literal, $name:literal, $workgroup:literal, $features:expr) => {
        row!(
            "gemv_dot",
            $one,
            $projections,
            $name,
            $workgroup,
            $features,
            DOT,
            shared_normed,
            gemv_dot_slots::slots
        )
    };
}

#[rustfmt::skip]
static ROWS: [Row; 7] = [
    dense!("gemv_k", "gemv_projections", "gemv_normed", 64, NONE),
    dense!("gemv_k_sub32", "gemv_projections_sub32", "gemv_normed_sub32", 32, SUB),
    dense!("gemv_k_sub128", "gemv_projections_sub128", "gemv_normed_sub128", 128, SUB),
    dense!("gemv_k_alone", "gemv_projections_alone", "gemv_normed_alone", 16, NONE),
    dot!("gemv_dot", "gemv_dot_projections", "gemv_dot_normed", 256, NONE),
    dot!("gemv_dot_sub", "gemv_dot_projections_sub", "gemv_dot_normed_sub", 256, SUB),
    dot!("gemv_dot_many", "gemv_dot_projections_many", "gemv_dot_normed_many", 128, SUB),
];

pub(crate) fn is_normed(kernel: &Kernel) -> bool {
    kernel.bindings.last().is_some_and(|b| b.name == "alpha")
}

/// What computes the products of `of`, of one row, and norms that row before: none where there is no such kernel.
pub(crate) fn spec(of: &Specialization) -> Option<Specialization> {
    let row = ROWS.iter().find(|row| row.of.contains(&of.kernel.name))?;
    let (dtype, access) = *of.operands.first()?;
    // Kernels in integers read the row by quads, the others all by 16 bytes.
    let dot = row.of[0].starts_with("gemv_dot");
    let fits = match dot {
        true => gemv_dot::form(of).rows == 1 && access == Access::Quads,
        false => {
            let matrices = of.kernel.bindings.iter().zip(&of.operands);
            let mut matrices = matrices.filter(|(b, _)| MATRICES.contains(&b.name));
            let wide = matrices.all(|(_, operand)| *operand == (dtype, Access::Raw));
            gemv::form(of).rows == 1 && access == Access::Raw && wide
        }
    };
    let names = |bindings: &'static [Binding]| bindings.iter().map(|b| b.name);
    let kernel = row.twins.iter().find(|twin| {
        let before = twin.bindings.split_last().map(|(_, before)| before);
        before.is_some_and(|before| names(before).eq(names(of.kernel.bindings)))
    });
    let mut spec = of.clone();
    spec.kernel = kernel.filter(|_| fits)?;
    spec.operands.push((dtype, access));
    Some(spec)
}

/// The parameters of a product that norms its row.
pub(crate) fn params(product: Product, norm: &NormParams) -> Product {
    Product {
        a_offset: norm.x_offset,
        // One row is no batch.
        a_batch: [
            norm.alpha_offset,
            norm.eps.to_bits(),
            norm.inverse.to_bits(),
            0,
        ],
        ..product
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let bindings = spec.kernel.bindings;
    thread_group(spec, text);
    text.line(match spec.kernel.features.contains(SUB) {
        true => "fn sum_one(v: f32) -> f32 { return subgroupAdd(v); }",
        false => "fn sum_one(v: f32) -> f32 { return v; }",
    });
    for (i, binding) in bindings.iter().enumerate() {
        let name = &binding.name;
        // The kernel's file has the first three, the epilogue its own.
        if i >= 3 && !["e", "f"].contains(name) {
            text.binding(i + 1, binding);
        }
        if *name == "a" || *name == "alpha" || MATRICES.contains(name) {
            eights(spec, i, name, text)?;
        }
    }
    text.file(wgsl!("kernel/matmul/eight.wgsl"));
    text.line(
        "fn dot_of(v: Eight, w: Eight) -> f32 { return dot(v.low, w.low) + dot(v.high, w.high); }",
    );
    match bindings.iter().any(|b| b.name == "z") {
        true => projections(spec, text),
        false => one(spec, text),
    }
}

const ADD_UP: &str = wgsl!("kernel/matmul/gemv_eights_normed.wgsl");

/// One product, or a pair.
fn one(spec: &Specialization, text: &mut Text) -> Result<()> {
    let behind = match epilogue::is_pair(spec) {
        true => {
            "dot_of(v, c_eight(cols.x + p.epilogue.step, k)), dot_of(v, c_eight(cols.y + p.epilogue.step, k))"
        }
        false => "0.0, 0.0",
    };
    text.line(format!(
        "fn place(group: u32) -> Place {{ return Place(0u, group, p.n, p.b_offset, p.b_n); }}
fn columns(v: Eight, cols: vec2<u32>, k: u32) -> vec4<f32> {{
    return vec4<f32>(dot_of(v, b_eight(cols.x, k)), dot_of(v, b_eight(cols.y, k)), {behind});
}}
fn add_up_of(which: u32, first: u32, row: u32, cols: vec2<u32>) -> Sums {{ return add_up(first, row, cols); }}
fn put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {{ y_put(at, count, v); }}"
    ));
    text.file(ADD_UP);
    epilogue::y_put(spec, 2, text)
}

fn projections(spec: &Specialization, text: &mut Text) -> Result<()> {
    let products = &spec.kernel.bindings[1..];
    let (mut sums, mut puts) = (String::new(), String::new());
    for (which, pair) in products.chunks_exact(2).enumerate() {
        let (b, y) = (pair[0].name, pair[1].name);
        put(spec, 2 + 2 * which, y, text)?;
        text.line(format!(
            "fn columns_{b}(v: Eight, cols: vec2<u32>, k: u32) -> vec4<f32> {{
    return vec4<f32>(dot_of(v, {b}_eight(cols.x, k)), dot_of(v, {b}_eight(cols.y, k)), 0.0, 0.0);
}}"
        ));
        text.file_of(
            ADD_UP,
            &[
                ("add_up", &format!("add_up_{b}")),
                ("columns", &format!("columns_{b}")),
            ],
        );
        sums += &format!("        case {which}u: {{ return add_up_{b}(first, row, cols); }}\n");
        puts += &format!("        case {which}u: {{ {y}_put(at, count, v); }}\n");
    }
    text.line(format!(
        "fn place(group: u32) -> Place {{
    // Past the end, where grids have two dims.
    if group >= p.starts.w {{ return Place(); }}
    let which = u32(group >= p.starts.y) + u32(group >= p.starts.z);
    let product = p.products[which];
    return Place(which, group - p.starts[which], product.y, product.z, product.w);
}}
fn add_up_of(which: u32, first: u32, row: u32, cols: vec2<u32>) -> Sums {{
    switch which {{
{sums}        default: {{ return Sums(); }}
    }}
}}
fn put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {{
    switch which {{
{puts}        default: {{}}
    }}
}}"
    ));
    Ok(())
}

/// The twins of samples of all kernels that have them.
pub fn catalogue() -> Vec<Specialization> {
    let plain = FLOATS.into_iter().flat_map(gemv::wide_specs);
    let all = plain
        .chain(gemv_projections::catalogue())
        .chain(gemv_dot::catalogue())
        .chain(epilogue::catalogue());
    all.filter_map(|of| spec(&of)).collect()
}
