//! One folder per family of kernels: the Kernel rows, their parameters, and the ops that record them.

/// A kernel of `wgsl/kernel/{folder}/{name}.wgsl`: its parameters' layout and its bindings. Its row says what else it has:
/// `Kernel { slots, ..kernel!(..) }`.
macro_rules! kernel {
    ($folder:literal, $name:literal, $params:expr; $($access:ident $binding:ident),*) => {
        $crate::shader::Kernel {
            name: $name,
            source: wgsl!("kernel/", $folder, "/", $name, ".wgsl"),
            params: $params,
            bindings: &[$($crate::shader::$access(stringify!($binding))),*],
            workgroup: $crate::kernel::WORKGROUP,
            shared: |_| 0,
            features: wgpu::Features::empty(),
            slots: |_, _| Ok(()),
        }
    };
}

pub mod attention;
pub mod conv;
pub mod copy;
pub mod elementwise;
pub mod index;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod rope;
pub(crate) mod softmax;
pub mod sort;
mod split;

use crate::dtype::DType;
use crate::memory::merge::{Merged, MAX_RANK};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Grid;
use crate::shader::{Access, Field, Specialization, Text};

/// Every specialization that the backend can ask for.
pub fn catalogue() -> Vec<Specialization> {
    [
        attention::catalogue(),
        elementwise::fused::catalogue(),
        elementwise::unary::catalogue(),
        elementwise::binary::catalogue(),
        elementwise::where_cond::catalogue(),
        pool::catalogue(),
        conv::coop::catalogue(),
        conv::specialization::catalogue(),
        copy::catalogue(),
        copy::concat::catalogue(),
        matmul::epilogue::catalogue(),
        reduce::specialization::catalogue(),
        reduce::fused_row::catalogue(),
        matmul::gemm::catalogue(),
        matmul::gemm_coop::catalogue(),
        matmul::split_k::catalogue(),
        matmul::gemv::catalogue(),
        matmul::gemv_coop::catalogue(),
        matmul::gemv_dot::catalogue(),
        matmul::rms_norm_gemv::catalogue(),
        matmul::gemv_projections::catalogue(),
        index::catalogue(),
        reduce::nonfinite::catalogue(),
        norm::catalogue(),
        softmax::catalogue(),
        matmul::quantized::catalogue(),
        random::catalogue(),
        rope::catalogue(),
        matmul::scaled::catalogue(),
        index::scatter::catalogue(),
        sort::catalogue(),
        copy::transpose::catalogue(),
        matmul::f64::catalogue(),
        pool::upsample::catalogue(),
    ]
    .concat()
}

/// The most iterations of a loop over a tensor's dim in one invocation. llvmpipe ends an invocation's loops after 65,535 iterations in
/// all, inner loops included (Mesa's LP_MAX_TGSI_LOOP_ITERATIONS; see ggml-org/llama.cpp#13813).
pub(crate) const ROUNDS: usize = 1 << 13;

/// Invocations of a workgroup of the elementwise kernels.
pub(crate) const WORKGROUP: u32 = 128;

/// Threads that share each of `rows` reductions of `units` units: a power of two, at most the `threads` of a workgroup. On a GPU, each
/// takes about `each` units. On a software adapter, where a barrier saves and restores every thread, as few as keep all cores busy.
pub(crate) fn thread_group(
    device: &Gpu,
    rows: usize,
    units: usize,
    each: usize,
    threads: u32,
) -> u32 {
    const LEAST: u32 = 4;
    const VECTOR: u32 = 8;
    const GROUPS: usize = 16;
    let most = units.div_ceil(each) as u32;
    let wanted = match rows {
        _ if !device.software => most,
        0 | 1 => 2 * VECTOR,
        rows => most
            .min((GROUPS * threads as usize / rows) as u32)
            .max(VECTOR),
    };
    let rounds = units.div_ceil(ROUNDS) as u32;
    wanted.max(rounds).next_power_of_two().clamp(LEAST, threads)
}

/// The (low, high) words of a 64-bit value.
pub(crate) fn words(v: u64) -> [u32; 2] {
    [v as u32, (v >> 32) as u32]
}

/// A grid of one thread per four elements.
pub(crate) fn quads(n: usize) -> Grid {
    threads(n.div_ceil(4))
}

/// Quads of a thread of an elementwise kernel: two if an operand is packed, so that a thread has as many bytes in flight as with f32.
fn span(spec: &Specialization) -> u32 {
    let packed = spec.operands.iter().any(|(dtype, _)| dtype.size() < 4);
    1 + u32::from(packed)
}

/// `const SPAN` of an elementwise kernel.
pub(crate) fn span_slot(spec: &Specialization, text: &mut Text) {
    text.line(format!("const SPAN = {}u;", span(spec)));
}

/// The grid of an elementwise kernel for `n` elements.
pub(crate) fn spans(spec: &Specialization, n: usize) -> Grid {
    threads(n.div_ceil(4 * span(spec) as usize))
}

/// An operand of words that a kernel accesses directly.
pub(crate) const RAW: (DType, Access) = (DType::U32, Access::Raw);

/// How an operand is read whose rows are whole quads, or not.
pub(crate) fn reads(whole: bool) -> Access {
    match whole {
        true => Access::Quads,
        false => Access::Words,
    }
}

/// How a result is written whose rows are whole quads, or not.
pub(crate) fn writes(whole: bool) -> Access {
    match whole {
        true => Access::Put,
        false => Access::Set,
    }
}

/// A grid of one thread per item.
pub(crate) fn threads(n: usize) -> Grid {
    Grid::Linear((n as u64).div_ceil(u64::from(WORKGROUP)))
}

/// The lines of a switch on `value`, whose cases are numbered from 0.
pub(crate) fn switch(
    value: &str,
    cases: impl IntoIterator<Item = String>,
    default: &str,
) -> Vec<String> {
    let mut lines = vec![format!("switch {value} {{")];
    let cases = cases.into_iter().enumerate();
    lines.extend(cases.map(|(i, case)| format!("    case {i}u: {{ {case} }}")));
    lines.extend([format!("    default: {default}"), "}".to_string()]);
    lines
}

/// Parameters of the elementwise kernels and copies: N strided operands with the same dims.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Zeroable)]
pub(crate) struct Strided<const N: usize> {
    pub n: u32,
    pub rank: u32,
    /// Start of each operand, in elements. Words that no operand uses are free for scalars.
    pub offsets: [u32; 4],
    pub pad: [u32; 2],
    pub dims: [u32; MAX_RANK],
    pub strides: [[u32; MAX_RANK]; N],
}

/// The layout of [`Strided`] for operands of these names and places, and for scalars of two words at these offsets.
macro_rules! strided_layout {
    ($($operand:literal: $i:literal),+ $(; $($scalar:literal: $at:literal),+)?) => {
        $crate::shader::ParamsLayout {
            fields: &[
                $crate::kernel::field("n", 0, 1),
                $crate::kernel::field("rank", 4, 1),
                $($crate::kernel::field(concat!($operand, "_offset"), 8 + 4 * $i, 1),)+
                $($($crate::kernel::field($scalar, $at, 2),)+)?
                $crate::kernel::field("dims", 32, $crate::memory::merge::MAX_RANK),
                $($crate::kernel::field(concat!($operand, "_strides"), 64 + 32 * $i, $crate::memory::merge::MAX_RANK),)+
            ],
            size: size_of::<$crate::kernel::Strided<{ [$($i),+].len() }>>(),
        }
    };
}
pub(crate) use strided_layout;

const fn field(name: &'static str, offset: usize, words: usize) -> Field {
    Field {
        name,
        offset,
        size: 4 * words,
        fields: &[],
    }
}

// SAFETY: only u32 fields, whatever N is: no padding, and every bit pattern is valid.
unsafe impl<const N: usize> bytemuck::Pod for Strided<N> {}

impl<const N: usize> Strided<N> {
    /// Dims, and strides of each operand, with leading dims of 1 up to rank `R`. None if there are more dims.
    pub fn padded<const R: usize>(&self) -> Option<([u32; R], [[u32; R]; N])> {
        let rank = self.rank as usize;
        let skipped = R.checked_sub(rank)?;
        let pad = |from: [u32; MAX_RANK], mut to: [u32; R]| {
            to[skipped..].copy_from_slice(&from[..rank]);
            to
        };
        Some((pad(self.dims, [1; R]), self.strides.map(|s| pad(s, [0; R]))))
    }

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
