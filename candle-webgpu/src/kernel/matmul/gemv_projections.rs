//! Fused projections: matmuls of the same few rows with two or three matrices (q, k and v, or gate and up) in one kernel. Recorded by
//! the rule `fused_projections`. This module has the kernel for dense matrices and up to four rows, and the parameters of all; gemv_coop
//! computes those of more rows, gemv_dot those with quantized matrices.

use smallvec::SmallVec;

use crate::error::Result;
use crate::kernel::matmul::epilogue::{self, Epilogue};
use crate::kernel::matmul::gemm_coop::GEMM_COOP;
use crate::kernel::matmul::gemv::{
    self, eights, thread_group, tile, tile_of, ADD_UP_OF, GEMV_K, PLACE,
};
use crate::kernel::matmul::gemv_coop::{self, GEMV_COOP};
use crate::kernel::matmul::gemv_dot::{self, Request, GEMV_DOT};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::projection_bias::{self, is_bias};
use crate::kernel::matmul::store::{store, FLOATS, PUT_OF};
use crate::kernel::switch;
use crate::recorder::gpu::Gpu;
use crate::shader::{params, read, read_bound_rw, write, Access, Kernel, Specialization, Text};

/// Has the variants of [`GEMV_K`]; the second and third matrix and their results are added bindings.
pub static GEMV_PROJECTIONS: Kernel = Kernel {
    name: "gemv_projections",
    params: Params::LAYOUT,
    slots,
    ..GEMV_K
};

/// The most projections.
pub(crate) const MOST: usize = 3;

/// The kernel for several dense matmuls like `one`, if there is one.
fn kernel_for(one: &Specialization) -> Option<&'static Kernel> {
    let kernel = match one {
        _ if one.is_of(&GEMV_K) => &GEMV_PROJECTIONS,
        _ if one.is_of(&GEMV_COOP) => &GEMV_COOP,
        _ => return None,
    };
    let dense = one.operands[..2].iter().all(|o| o.1 == Access::Raw);
    (dense && epilogue::is_bare(one)).then_some(kernel)
}

/// The specialization for `count` dense matmuls like `one`, if a kernel supports them.
fn spec(one: &Specialization, count: usize) -> Option<Specialization> {
    let mut spec = one.clone();
    spec.kernel = kernel_for(one)?;
    Some(with_matrices(spec, count, "w"))
}

/// Adds bindings for `count` matrices in all, and their results, in the dtypes of the first. The third result is called `third`.
pub(crate) fn with_matrices(
    one: Specialization,
    count: usize,
    third: &'static str,
) -> Specialization {
    let [b, y] = [one.operands[1], one.operands[2]];
    let bound = match one.kernel.bindings[1].write {
        true => read_bound_rw,
        false => read,
    };
    let more = [("c", "z"), ("d", third)];
    more.iter().take(count - 1).fold(one, |spec, (matrix, to)| {
        spec.bind(bound(matrix), b.0, b.1).bind(write(to), y.0, y.1)
    })
}

/// Whether an op computes projections. A pair of GEMMs binds the same, but has other parameters.
pub(crate) fn is_projections(spec: &Specialization) -> bool {
    spec.binds("z") && !spec.is_of(&GEMM_COOP)
}

/// Whether a matmul of this kind can be one of several projections.
pub(crate) fn suits(one: &Specialization) -> bool {
    kernel_for(one).is_some() || gemv_dot::suits_projections(one)
}

/// Whether one kernel can compute both matmuls.
pub(crate) fn together(one: &Specialization, other: &Specialization) -> bool {
    // The tiles of gemv_dot differ in their number of columns, but not in the order of accumulation.
    let dot = gemv_dot::suits_projections(one) && gemv_dot::suits_projections(other);
    one == other || dot && one.operands == other.operands
}

/// One kernel for the matmuls `all`, which are like `one`; its parameters and its number of workgroups.
pub(crate) fn joined(
    device: &Gpu,
    one: &Specialization,
    all: &[MatmulParams],
) -> Option<(Specialization, Params, u32)> {
    let mut matmul = *all.first()?;
    let dot = gemv_dot::suits_projections(one);
    let (spec, cols) = if dot {
        let columns = all.iter().map(|p| p.n).sum();
        let size = (matmul.m, columns, matmul.k);
        let [a, (_, Access::Quant(quant)), _] = one.operands[..] else {
            return None;
        };
        // The order of accumulation is that of each matmul alone: it depends neither on their number nor on the tile.
        let partition = gemv_dot::partition(&Request::new(device, a, quant), size)?;
        let cols = partition.cols;
        let plan = partition.plan(matmul.m, columns, matmul.batch);
        (matmul.blocks, matmul.rounds) = (plan.blocks, plan.rounds);
        (with_matrices(plan.spec, all.len(), "x"), cols)
    } else {
        (spec(one, all.len())?, 0)
    };
    let mut params = Params {
        matmul,
        starts: [u32::MAX; 4],
        products: [[1; 4]; MOST],
        ..bytemuck::Zeroable::zeroed()
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
        end = end.checked_add(groups.checked_mul(matmul.blocks)?)?;
    }
    Some((spec, params, end))
}

/// The kernel that computes a pair of projections for an epilogue that reads both; its parameters and its number of workgroups.
/// `None` if the matrices differ in size or strides.
pub(crate) fn pair(
    spec: &Specialization,
    projections: &Params,
) -> Option<(Specialization, epilogue::Params, u32)> {
    let (spec, cols) = pair_of(spec)?;
    let [first, second, _] = projections.products;
    if first[1] != second[1] || first[3] != second[3] {
        return None;
    }
    let mut params = epilogue::Params::new(projections.matmul);
    let matmul = &mut params.matmul;
    matmul.n = first[1];
    matmul.groups = matmul.n.div_ceil(cols * matmul.rounds);
    params.epilogue.step = second[2].wrapping_sub(first[2]);
    let groups = matmul.groups.checked_mul(matmul.blocks)?;
    Some((spec, params, groups))
}

/// The specialization of one matmul that computes a pair of projections in tiles with as many columns of each, and the columns of each
/// that a workgroup computes at a time. The order of accumulation does not change.
pub(crate) fn pair_of(projections: &Specialization) -> Option<(Specialization, u32)> {
    if !is_two(projections) {
        return None;
    }
    let mut one = projections.clone().without_added();
    if one.is_of(&GEMV_COOP) {
        let (tile, cols) = gemv_coop::pair_tile(&one);
        one.op = tile.name;
        return Some((one, cols));
    }
    let like = tile(&one);
    let (thread_group, tile, own) = if one.is_of(&GEMV_DOT) {
        let tile = tile_of(like.rows, like.cols.max(2))?;
        ("THREAD_GROUP", tile, tile.cols / 2)
    } else if one.is_of(&GEMV_PROJECTIONS) {
        one.kernel = &GEMV_K;
        // `cols` of this kernel counts the columns of one matrix.
        ("SPAN", tile_of(like.rows, 2)?, 2)
    } else {
        return None;
    };
    one.op = tile.name;
    let cols = one.workgroup / one.value(thread_group)? * own;
    Some((one, cols))
}

/// Whether an op computes two projections and nothing else.
pub(crate) fn is_two(spec: &Specialization) -> bool {
    is_projections(spec) && spec.added.len() == 2
}

params! {
    /// Shared parameters, then those of each matrix.
    pub(crate) struct Params {
        matmul: MatmulParams,
        /// The shader's next field is aligned to 16 bytes.
        pad: u32,
        epilogue: Epilogue,
        /// The first workgroup of each matmul.
        starts: [u32; 4],
        /// For each matmul: workgroups per row block, n, and the offset and n stride of its matrix.
        products: [[u32; 4]; MOST],
    }
}

impl Params {
    /// The elements of result `which`.
    pub fn count(&self, which: usize) -> Option<u32> {
        let [_, n, ..] = self.products[which];
        n.checked_mul(self.matmul.m)
    }

    /// The columns of result `which`.
    pub fn columns(&self, which: usize) -> u32 {
        self.products[which][1]
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let added = (1..).zip(spec.bindings()).skip(3);
    added
        .filter(|(_, binding)| !is_bias(binding))
        .for_each(|(at, binding)| text.binding(at, binding));
    place_projection(text);
    thread_group(spec, text);
    eights(spec, 0, "a", text);
    text.file(wgsl!("kernel/matmul/eight.wgsl"));
    text.file(wgsl!("kernel/matmul/early.wgsl"));
    epilogue::hold(spec, text);
    let matrices = matrices(spec);
    for (which, (b, _)) in matrices.iter().enumerate() {
        eights(spec, 1 + 2 * which, b, text);
        projection_bias::put(spec, which, text)?;
        let [eight, ahead] = ["eight", "ahead"].map(|verb| format!("{b}_{verb}"));
        let add_up = format!("add_up_{b}");
        let names = [
            ("b_eight", &*eight),
            ("b_early", &*ahead),
            ("add_up", &*add_up),
        ];
        text.file_of(wgsl!("kernel/matmul/gemv_eights.wgsl"), &names);
    }
    let cases = matrices.iter();
    let cases = cases.map(|(b, _)| format!("return add_up_{b}(first, rows, cols);"));
    let none = "{ return array<vec4<f32>, ROWS>(); }";
    text.unrolled(ADD_UP_OF, switch("which", cases, none));
    let stores = matrices.iter().map(|(_, y)| store(y));
    text.unrolled(PUT_OF, switch("which", stores, "{}"));
    text.part(epilogue::PARAMS_PROJECTIONS);
    Ok(())
}

/// The names of the matrices and of their results: of each projection, or of a single matmul.
pub(crate) fn matrices(spec: &Specialization) -> SmallVec<[(&'static str, &'static str); MOST]> {
    let most = if is_projections(spec) { MOST } else { 1 };
    let all = spec.bindings().skip(1).filter(|b| !is_bias(b));
    let names: SmallVec<[_; 7]> = all.map(|b| b.name).collect();
    let pairs = names.chunks_exact(2).map(|two| (two[0], two[1]));
    pairs.take(most).collect()
}

/// `place(group)` of projections of a few rows.
pub(crate) fn place_projection(text: &mut Text) {
    text.file(PLACE);
    text.file(wgsl!("kernel/matmul/place_projection.wgsl"));
}

/// The same in kernels that own columns of all rows, and declare `Place`.
pub(crate) const PLACE_COLUMNS: &str = wgsl!("kernel/matmul/place_columns.wgsl");

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for one in gemv::vec4_specs(dtype) {
            all.extend([2, 3].iter().filter_map(|count| spec(&one, *count)));
        }
    }
    for one in gemv_coop::catalogue() {
        all.extend([2, 3].iter().filter_map(|count| spec(&one, *count)));
    }
    let dot = gemv_dot::catalogue().into_iter().filter(is_projections);
    let biased = projection_bias::samples(all.iter().cloned().chain(dot));
    [all.clone(), biased].concat()
}
