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
    /// Part of the compiler's name; empty for all.
    pub compiler: &'static str,
    pub kernel: &'static str,
    /// At least one of them occurs.
    pub faults: &'static [Fault],
    pub why: &'static str,
}

const GCN: &[&str] = &["radv polaris10", "radv vega10"];

/// Few waves on GCN.
const fn gcn(kernel: &'static str) -> Known {
    Known {
        targets: GCN,
        compiler: "",
        kernel,
        faults: &[Fault::FewWaves],
        why: "no smaller tile has been measured on such a GPU",
    }
}

/// Integer dot products on GCN.
const fn dot4(kernel: &'static str) -> Known {
    Known {
        faults: &[Fault::FewWaves, Fault::Spills],
        why: "not used there: dot4 is off where every subgroup has 64 invocations",
        ..gcn(kernel)
    }
}

/// Cooperative matrices on RDNA3 with subgroups of 32.
const fn wave32(kernel: &'static str, why: &'static str) -> Known {
    Known {
        targets: &["radv navi31 wave32"],
        compiler: "",
        kernel,
        faults: &[Fault::Spills],
        why,
    }
}

const LARGE: &str = "tiles of 128 x 128, not used there: Mesa compiles these workgroups for subgroups of 64, and wgpu asks for no size";
const ONLY_32: &str =
    "not used there: it is for adapters all of whose subgroups have 32 invocations";

pub const KNOWN: &[Known] = &[
    gcn("flash"),
    gcn("gemm"),
    gcn("gemv_k"),
    gcn("gemv_k.sub128"),
    gcn("gemv_k.sub32"),
    Known {
        compiler: "Mesa 22.",
        ..gcn("gemv_projections")
    },
    gcn("gemv_projections.sub128"),
    gcn("gemv_projections.sub32"),
    dot4("gemv_dot"),
    dot4("gemv_dot.many"),
    dot4("gemv_dot.sub"),
    wave32("conv_coop", LARGE),
    wave32("flash_coop", ONLY_32),
    wave32("gemm_coop", LARGE),
];
