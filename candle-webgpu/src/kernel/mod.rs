//! One file per family: the Kernel rows, the parameters as the shader sees them, and the ops that
//! record them.

pub mod attention;
mod attention_share;
pub(crate) mod attention_spec;
pub(crate) mod chain;
pub mod conv;
mod conv_coop;
mod conv_cut;
mod conv_spec;
pub mod copy;
pub(crate) mod copy_parts;
pub(crate) mod edge;
pub(crate) mod epilogue;
pub(crate) mod flash_coop;
pub mod fold;
mod fold_plan;
mod fold_spec;
pub mod gemm;
pub mod gemm_coop;
pub mod gemv;
pub mod gemv_dot;
mod gemv_dot_text;
pub(crate) mod gemv_normed;
pub(crate) mod gemv_siblings;
mod image;
pub mod index;
pub mod map;
pub mod matmul;
pub(crate) mod matmul_plan;
pub(crate) mod nonfinite;
pub mod norm;
pub mod pick;
pub mod pool;
pub(crate) mod product;
pub mod quantized;
pub mod rng;
pub mod rope;
pub(crate) mod rope_caches;
mod scaled;
pub mod scatter;
pub(crate) mod softmax;
pub mod sort;
pub mod sort_long;
pub(crate) mod transpose;
pub mod upsample;
pub mod wide;
pub mod zip;

use crate::device::Device;
use crate::layout::{Merged, MAX_RANK};
use crate::link::{Spec, Text};
use crate::recorded::Grid;

/// Every specialisation that the backend can ask for.
pub fn catalogue() -> Vec<Spec> {
    [
        attention_spec::catalogue(),
        chain::catalogue(),
        map::catalogue(),
        zip::catalogue(),
        pick::catalogue(),
        pool::catalogue(),
        conv_coop::catalogue(),
        conv_spec::catalogue(),
        copy::catalogue(),
        copy_parts::catalogue(),
        epilogue::catalogue(),
        fold_spec::catalogue(),
        gemm::catalogue(),
        gemm_coop::catalogue(),
        gemv::catalogue(),
        gemv_dot::catalogue(),
        gemv_normed::catalogue(),
        gemv_siblings::catalogue(),
        index::catalogue(),
        nonfinite::catalogue(),
        norm::catalogue(),
        quantized::catalogue(),
        rng::catalogue(),
        rope::catalogue(),
        rope_caches::catalogue(),
        scaled::catalogue(),
        scatter::catalogue(),
        sort::catalogue(),
        sort_long::catalogue(),
        transpose::catalogue(),
        wide::catalogue(),
        upsample::catalogue(),
    ]
    .concat()
}

/// The most rounds of a loop over a tensor's dim in one invocation. llvmpipe leaves out what comes after 65,535
/// rounds of all loops together, inner ones included (Mesa's LP_MAX_TGSI_LOOP_ITERATIONS; see
/// ggml-org/llama.cpp#13813).
pub(crate) const ROUNDS: usize = 1 << 13;

/// Invocations in a workgroup of the elementwise kernels.
pub(crate) const WORKGROUP: u32 = 128;

/// Threads that share each of `rows` sums of `units`, at most all `threads` of a workgroup: as many as have `each` units, or where
/// threads run in turn, so that each of those that meet is saved and fetched again, as few as leave work for all processors.
pub(crate) fn team(device: &Device, rows: usize, units: usize, each: usize, threads: u32) -> u32 {
    const LEAST: u32 = 4;
    const VECTOR: u32 = 8;
    const GROUPS: usize = 16;
    let most = units.div_ceil(each) as u32;
    let wanted = match rows {
        _ if !device.in_turn() => most,
        0 | 1 => 2 * VECTOR,
        rows => most
            .min((GROUPS * threads as usize / rows) as u32)
            .max(VECTOR),
    };
    let rounds = units.div_ceil(ROUNDS) as u32;
    wanted.max(rounds).next_power_of_two().clamp(LEAST, threads)
}

/// A grid of one thread per four elements.
pub(crate) fn quads(n: usize) -> Grid {
    threads(n.div_ceil(4))
}

/// Quads of a thread of an elementwise kernel: two where an operand is packed, so that as many bytes are under way as of
/// f32, and no more workgroups are started for them.
fn span(spec: &Spec) -> u32 {
    let packed = spec.operands.iter().any(|(elem, _)| elem.size() < 4);
    1 + u32::from(packed)
}

/// `const SPAN` of an elementwise kernel.
pub(crate) fn span_slot(spec: &Spec, text: &mut Text) {
    text.line(format!("const SPAN = {}u;", span(spec)));
}

/// The grid of an elementwise kernel for `n` elements.
pub(crate) fn spans(spec: &Spec, n: usize) -> Grid {
    threads(n.div_ceil(4 * span(spec) as usize))
}

/// A grid of one thread per item.
pub(crate) fn threads(n: usize) -> Grid {
    Grid::Linear((n as u64).div_ceil(u64::from(WORKGROUP)))
}

/// Parameters of every elementwise kernel: sizes, the shared dims, and each operand's strides.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Zeroable)]
pub(crate) struct Strided<const N: usize> {
    pub n: u32,
    pub rank: u32,
    /// Start of each operand, in elements; the fourth word is free.
    pub offsets: [u32; 4],
    pub pad: [u32; 2],
    pub dims: [u32; MAX_RANK],
    pub strides: [[u32; MAX_RANK]; N],
}

// SAFETY: nothing but u32, whatever N is: no padding, every bit pattern valid.
unsafe impl<const N: usize> bytemuck::Pod for Strided<N> {}

impl<const N: usize> Strided<N> {
    pub fn new(n: u32, merged: &Merged<N>, offsets: [u32; 4]) -> Self {
        Strided {
            n,
            rank: merged.rank as u32,
            offsets,
            pad: [0; 2],
            dims: merged.dims,
            strides: merged.strides,
        }
    }
}
