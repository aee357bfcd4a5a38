//! Workgroup sizes and reductions of [`GEMV_K`](crate::kernel::matmul::gemv::GEMV_K) and the kernels derived from it; and what GEMVs of a
//! single block of rows leave out.

use crate::shader::Specialization;

/// How the threads of a workgroup reduce their accumulators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// In workgroup memory.
    Memory,
    Subgroups,
    /// By subgroups of 64 or more, where registers are few.
    WideSubgroups,
    /// Not at all: each thread computes its own columns, for software adapters, which run the threads of a workgroup in turn.
    Alone,
}

/// A workgroup size and a reduction.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub name: &'static str,
    pub workgroup: u32,
    pub reduction: Reduction,
}

pub(crate) const MEMORY: Variant = variant("", 64, Reduction::Memory);
/// One subgroup on most adapters: for many short columns.
pub(crate) const SUB32: Variant = variant("sub32", 32, Reduction::Subgroups);
/// For few columns, which take more threads each to fill the adapter, and for long ones.
pub(crate) const SUB128: Variant = variant("sub128", 128, Reduction::Subgroups);
/// For one row by long columns of 16 bits.
pub(crate) const SUB256: Variant = variant("sub256", 256, Reduction::Subgroups);
pub(crate) const ALONE: Variant = variant("alone", 16, Reduction::Alone);

const VARIANTS: [Variant; 5] = [MEMORY, SUB32, SUB128, ALONE, SUB256];

/// The variants for a quantized matrix.
pub(crate) const QUANTIZED: &[Variant] = VARIANTS.split_at(4).0;

/// The variants for `rows` rows by a dense matrix.
pub(crate) fn dense(rows: u32) -> &'static [Variant] {
    match rows {
        1 => &VARIANTS,
        _ => QUANTIZED,
    }
}

const fn variant(name: &'static str, workgroup: u32, reduction: Reduction) -> Variant {
    Variant {
        name,
        workgroup,
        reduction,
    }
}

impl Variant {
    /// Threads that share a long row: the whole workgroup, or one.
    pub fn span(&self) -> u32 {
        match self.reduction {
            Reduction::Alone => 1,
            _ => self.workgroup,
        }
    }
}

/// 1 for a single block of rows: a kernel without the code that finds a workgroup's block is faster (docs/kernels/gemv.md#around-the-loop).
const ONE_BLOCK: &str = "ONE_BLOCK";

/// The specialization for `blocks` blocks of rows, of all matmuls of the batch.
pub(crate) fn with_blocks(spec: Specialization, blocks: u64) -> Specialization {
    match blocks == 1 && !spec.binds("ids") {
        true => spec.with(ONE_BLOCK, 1),
        false => spec,
    }
}

/// The specialization for a kernel that has no blocks of rows.
pub(crate) fn without_blocks(mut spec: Specialization) -> Specialization {
    spec.overrides.retain(|(name, _)| *name != ONE_BLOCK);
    spec
}

pub(crate) fn is_one_block(spec: &Specialization) -> bool {
    spec.value(ONE_BLOCK) == Some(1)
}
