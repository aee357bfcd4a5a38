//! Products of the same few rows with two or three matrices, as one kernel. Recorded by a rule. Here are those with dense
//! matrices, and what parameters all have; gemv_dot has those with quantized ones.

use smallvec::SmallVec;

use crate::device::Inner;
use crate::error::Result;
use crate::kernel::edge::{put, FLOATS};
use crate::kernel::epilogue::{self, Epilogue};
use crate::kernel::gemv::{self, eights, team, NONE, SUB};
use crate::kernel::gemv::{GEMV_K, GEMV_K_ALONE, GEMV_K_SUB128, GEMV_K_SUB32};
use crate::kernel::gemv_dot;
use crate::kernel::product::Params as Product;
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::recorded::Op;

macro_rules! siblings {
    ($name:literal, $workgroup:literal, $features:expr, $($more:expr),*) => {
        Kernel {
            name: $name,
            source: include_str!("../../wgsl/kernel/gemv_siblings.wgsl"),
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
            siblings!($name, $workgroup, $features, read("c"), write("z")),
            siblings!(
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
static SIBLINGS: [Kernel; 2] = by_count!("gemv_siblings", 64, NONE);
static SIBLINGS_SUB32: [Kernel; 2] = by_count!("gemv_siblings_sub32", 32, SUB);
static SIBLINGS_SUB128: [Kernel; 2] = by_count!("gemv_siblings_sub128", 128, SUB);
static SIBLINGS_ALONE: [Kernel; 2] = by_count!("gemv_siblings_alone", 16, NONE);

/// The most products.
pub(crate) const MOST: usize = 3;

/// The kernels that siblings are made of, each with its twins.
const TWINS: [(&Kernel, &[Kernel; 2]); 4] = [
    (&GEMV_K, &SIBLINGS),
    (&GEMV_K_SUB32, &SIBLINGS_SUB32),
    (&GEMV_K_SUB128, &SIBLINGS_SUB128),
    (&GEMV_K_ALONE, &SIBLINGS_ALONE),
];

/// What computes `count` products of the form of one, if there is such a kernel.
fn spec(one: &Spec, count: usize) -> Option<Spec> {
    let [a, b, y] = one.operands[..] else {
        return None;
    };
    if [a.1, b.1] != [Access::Raw; 2] {
        return None;
    }
    let (_, kernels) = TWINS.iter().find(|(of, _)| std::ptr::eq(*of, one.kernel))?;
    let kernel = kernels.get(count.checked_sub(2)?)?;
    let mut spec = Spec::new(kernel, one.op, &[a, b, y, b, y]);
    if count == MOST {
        spec.operands.extend([b, y]);
    }
    spec.overrides = one.overrides.clone();
    Some(spec)
}

/// Whether products of this form can be siblings.
pub(crate) fn suits(one: &Spec) -> bool {
    spec(one, MOST).is_some() || gemv_dot::has_siblings(one)
}

/// Whether one kernel can compute products of both forms.
pub(crate) fn together(one: &Spec, other: &Spec) -> bool {
    // Forms of gemv_dot differ by the number of columns; all of them add up in the same order.
    let dot = gemv_dot::has_siblings(one) && gemv_dot::has_siblings(other);
    one == other || dot && one.operands == other.operands
}

/// What computes the products `all`, which can be computed together, and their workgroups.
pub(crate) fn joined(device: &Inner, one: &Spec, all: &[Product]) -> Option<(Spec, Params, u32)> {
    let mut product = *all.first()?;
    let dot = gemv_dot::has_siblings(one);
    let (spec, cols) = if dot {
        let columns = all.iter().map(|p| p.n).sum();
        let size = (product.m, columns, product.k);
        let share = gemv_dot::share_siblings(device, one, all.len(), size)?;
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

/// The two products of an op of siblings as one kernel for steps that read both: its form, parameters and workgroups. Their
/// matrices have as many columns, which lie alike.
pub(crate) fn pair(op: &Op) -> Option<(Spec, epilogue::Params, u32)> {
    let (spec, cols) = pair_of(&op.spec)?;
    let siblings: Params = op.params();
    let [first, second, _] = siblings.products;
    if first[1] != second[1] || first[3] != second[3] {
        return None;
    }
    let mut params = epilogue::Params::new(siblings.product);
    let product = &mut params.product;
    product.n = first[1];
    product.groups = product.n.div_ceil(cols * product.rounds);
    params.epilogue.step = second[2].wrapping_sub(first[2]);
    let groups = product.groups.checked_mul(product.blocks)?;
    Some((spec, params, groups))
}

/// A product with half of the columns of each of two siblings, and how many columns of each a workgroup owns at a time.
pub(crate) fn pair_of(siblings: &Spec) -> Option<(Spec, u32)> {
    let [a, b, y, _, _] = siblings.operands[..] else {
        return None;
    };
    let mut one = siblings.clone();
    one.kernel = of_two(siblings.kernel)?;
    one.operands = SmallVec::from_slice(&[a, b, y]);
    match b.1 {
        Access::Quant(_) => gemv_dot::pair_of(&one),
        _ => gemv::pair_of(&one),
    }
}

/// The kernel of one product that computes two of them as siblings.
pub(crate) fn of_two(siblings: &Kernel) -> Option<&'static Kernel> {
    let mut all = TWINS.iter().chain(&gemv_dot::TWINS);
    let found = all.find(|(_, twins)| std::ptr::eq(&twins[0], siblings));
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

fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    let bindings = spec.kernel.bindings;
    text.bindings(spec, 0);
    team(spec, text);
    eights(spec, 0, "a", text)?;
    let eights_of = include_str!("../../wgsl/lib/gemv_eights.wgsl");
    text.file(include_str!("../../wgsl/lib/eight.wgsl"));
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

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for elem in FLOATS {
        for one in gemv::wide_specs(elem) {
            all.extend([2, 3].iter().filter_map(|count| spec(&one, *count)));
        }
    }
    all
}
