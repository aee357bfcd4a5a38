//! Findings that are known, with their reasons. One that no longer occurs counts as failed, so that the list stays accurate.

/// What is wrong with a kernel's code on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    Failed,
    Crashed,
    /// Registers do not suffice for a kernel in which that costs time.
    Spills,
    /// Fewer than [`crate::report::WAVES`] waves a SIMD for such a kernel.
    FewWaves,
}

pub struct Known {
    /// The beginnings of the targets' names.
    pub targets: &'static [&'static str],
    pub kernel: &'static str,
    pub fault: Fault,
    pub why: &'static str,
}

const GCN: &[&str] = &["radv polaris10", "radv vega10"];

/// Few waves on GCN.
const fn gcn(kernel: &'static str, why: &'static str) -> Known {
    Known {
        targets: GCN,
        kernel,
        fault: Fault::FewWaves,
        why,
    }
}

const NO_DOT4: &str = "not used there: dot4 is off where every subgroup has 64 invocations";
const LARGE_TILE: &str = "no smaller tile has been measured on such a GPU";

pub const KNOWN: &[Known] = &[
    gcn("flash", LARGE_TILE),
    gcn("gemm", LARGE_TILE),
    gcn("gemv_dot", NO_DOT4),
    gcn("gemv_dot.many", NO_DOT4),
    gcn("gemv_dot.sub", NO_DOT4),
    gcn("gemv_k", LARGE_TILE),
    gcn("gemv_k.sub128", LARGE_TILE),
    gcn("gemv_k.sub32", LARGE_TILE),
    gcn("gemv_projections.sub128", LARGE_TILE),
    gcn("gemv_projections.sub32", LARGE_TILE),
];
