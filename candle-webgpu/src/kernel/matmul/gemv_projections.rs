//! Products of the same few rows with two or three matrices, as one kernel. Recorded by a rule. Here are those with dense
//! matrices, and what parameters all have; gemv_dot has those with quantized ones.

use smallvec::SmallVec;

use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::epilogue::Epilogue;
use crate::kernel::matmul::gemv;
use crate::kernel::matmul::gemv::{eights, thread_group, NONE, SUB};
use crate::kernel::matmul::gemv::{GEMV_K, GEMV_K_ALONE, GEMV_K_SUB128, GEMV_K_SUB32};
use crate::kernel::matmul::gemv_dot;
use crate::kernel::matmul::problem::Params as Product;
use crate::kernel::matmul::store::{put, FLOATS};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

macro_rules! projections {
    ($name:literal, $workgroup:literal, $features:expr, $($more:expr),*) => {
        Kernel {
            name: $name,
            source: wgsl!("kernel/matmul/gemv_projections.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: &[read("a"), read("b"), write("y"), $($more),*],
            workgroup: $workgroup,
            shared: |spec| gemv::form(spec).rows * $workgroup * 16,
            features: $features,
            slots,
        }
    };
}

macro_rules! by_count {
    ($name:literal, $workgroup:literal, $features:expr) => {
        [
            projections!($name, $workgroup, $features, read("c"), write("z")),
            projections!(
                $name,
                $workgroup,
                $features,
                read("c"),
                write("z"),
                read("d"),
                write("w")
            ),
        ]
    };
}

/// Of two and of three matrices, each the twin of a kernel of one.
static PROJECTIONS: [Kernel; 2] = by_count!("gemv_projections", 64, NONE);
static PROJECTIONS_SUB32: [Kernel; 2] = by_count!("gemv_projections_sub32", 32, SUB);
static PROJECTIONS_SUB128: [Kernel; 2] = by_count!("gemv_projections_sub128", 128, SUB);
static PROJECTIONS_ALONE: [Kernel; 2] = by_count!("gemv_projections_alone", 16, NONE);

/// The most products.
pub(crate) const MOST: usize = 3;

/// The kernels that projections are made of, each with its twins.
const TWINS: [(&Kernel, &[Kernel; 2]); 4] = [
    (&GEMV_K, &PROJECTIONS),
    (&GEMV_K_SUB32, &PROJECTIONS_SUB32),
    (&GEMV_K_SUB128, &PROJECTIONS_SUB128),
    (&GEMV_K_ALONE, &PROJECTIONS_ALONE),
];

/// What computes `count` products of the form of one, if there is such a kernel.
fn spec(one: &Specialization, count: usize) -> Option<Specialization> {
    let [a, b, y] = one.operands[..] else {
        return None;
    };
    if [a.1, b.1] != [Access::Raw; 2] {
        return None;
    }
    let (_, kernels) = TWINS.iter().find(|(of, _)| std::ptr::eq(*of, one.kernel))?;
    let kernel = kernels.get(count.checked_sub(2)?)?;
    let mut spec = Specialization::new(kernel, one.op, &[a, b, y, b, y]);
    if count == MOST {
        spec.operands.extend([b, y]);
    }
    spec.overrides = one.overrides.clone();
    Some(spec)
}

/// Whether products of this form can be projections.
pub(crate) fn suits(one: &Specialization) -> bool {
    spec(one, MOST).is_some() || gemv_dot::has_projections(one)
}

/// Whether one kernel can compute products of both forms.
pub(crate) fn together(one: &Specialization, other: &Specialization) -> bool {
    // Forms of gemv_dot differ by the number of columns; all of them add up in the same order.
    let dot = gemv_dot::has_projections(one) && gemv_dot::has_projections(other);
    one == other || dot && one.operands == other.operands
}

/// What computes the products `all`, which can be computed together, and their workgroups.
pub(crate) fn joined(
    device: &Gpu,
    one: &Specialization,
    all: &[Product],
) -> Option<(Specialization, Params, u32)> {
    let mut product = *all.first()?;
    let dot = gemv_dot::has_projections(one);
    let (spec, cols) = if dot {
        let columns = all.iter().map(|p| p.n).sum();
        let size = (product.m, columns, product.k);
        let share = gemv_dot::share_projections(device, one, all.len(), size)?;
        product.blocks = product.m.div_ceil(share.rows);
        product.rounds = share.rounds;
        (share.spec, share.cols)
    } else {
        (spec(one, all.len())?, 0)
    };
    let mut params = Params {
        product,
        pad: 0,
        epilogue: Epilogue::default(),
        starts: [u32::MAX; 4],
        products: [[1; 4]; MOST],
    };
    let mut end = 0u32;
    for (i, one) in all.iter().enumerate() {
        let groups = if dot {
            one.n.div_ceil(cols)
        } else {
            one.groups
        };
        params.starts[i] = end;
        params.products[i] = [groups, one.n, one.b_offset, one.b_n];
        end = end.checked_add(groups.checked_mul(product.blocks)?)?;
    }
    params.starts[MOST] = end;
    Some((spec, params, end))
}

/// The two products of an op of projections as one kernel for steps that read both: its form, parameters and workgroups. Their
/// matrices have as many columns, which lie alike.
pub(crate) fn pair(op: &Op) -> Option<(Specialization, epilogue::Params, u32)> {
    let (spec, cols) = pair_of(&op.spec)?;
    let projections: Params = op.params();
    let [first, second, _] = projections.products;
    if first[1] != second[1] || first[3] != second[3] {
        return None;
    }
    let mut params = epilogue::Params::new(projections.product);
    let product = &mut params.product;
    product.n = first[1];
    product.groups = product.n.div_ceil(cols * product.rounds);
    params.epilogue.step = second[2].wrapping_sub(first[2]);
    let groups = product.groups.checked_mul(product.blocks)?;
    Some((spec, params, groups))
}

/// A product with half of the columns of each of two projections, and how many columns of each a workgroup owns at a time.
pub(crate) fn pair_of(projections: &Specialization) -> Option<(Specialization, u32)> {
    let [a, b, y, _, _] = projections.operands[..] else {
        return None;
    };
    let mut one = projections.clone();
    one.kernel = of_two(projections.kernel)?;
    one.operands = SmallVec::from_slice(&[a, b, y]);
    match b.1 {
        Access::Quant(_) => gemv_dot::pair_of(&one),
        _ => gemv::pair_of(&one),
    }
}

/// The kernel of one product that computes two of them as projections.
pub(crate) fn of_two(projections: &Kernel) -> Option<&'static Kernel> {
    let mut all = TWINS.iter().chain(&gemv_dot::TWINS);
    let found = all.find(|(_, twins)| std::ptr::eq(&twins[0], projections));
    found.map(|(kernel, _)| *kernel)
}

/// Those of the first product, and what differs.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    product: Product,
    /// The shader's next field is aligned to 16 bytes.
    pad: u32,
    epilogue: Epilogue,
    /// The first workgroup of each product, and how many there are.
    starts: [u32; 4],
    /// Workgroups of a block, n, offset of the matrix, its stride along n.
    products: [[u32; 4]; MOST],
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let bindings = spec.kernel.bindings;
    text.bindings(spec, 0);
    thread_group(spec, text);
    eights(spec, 0, "a", text)?;
    let eights_of = wgsl!("kernel/matmul/gemv_eights.wgsl");
    text.file(wgsl!("kernel/matmul/eight.wgsl"));
    let (mut sums, mut puts) = (String::new(), String::new());
    for (which, pair) in bindings[1..].chunks(2).enumerate() {
        let [matrix, product] = pair else { continue };
        let (b, y) = (matrix.name, product.name);
        eights(spec, 1 + 2 * which, b, text)?;
        put(spec, 2 + 2 * which, y, text)?;
        text.file_of(
            eights_of,
            &[
                ("b_eight", &format!("{b}_eight")),
                ("add_up", &format!("add_up_{b}")),
            ],
        );
        sums += &format!("        case {which}u: {{ return add_up_{b}(first, rows, cols); }}\n");
        puts += &format!("        case {which}u: {{ {y}_put(at, count, v); }}\n");
    }
    text.line(format!(
        "fn add_up_of(which: u32, first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {{
    switch which {{
{sums}        default: {{ return array<vec4<f32>, ROWS>(); }}
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

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for one in gemv::wide_specs(dtype) {
            all.extend([2, 3].iter().filter_map(|count| spec(&one, *count)));
        }
    }
    all
}
