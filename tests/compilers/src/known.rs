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
    /// Too rare for a sample of the shaders to meet it.
    pub rare: bool,
}

const GCN: &[&str] = &["radv polaris10", "radv vega10"];

/// Few waves on GCN, which has 64 registers for each of four waves.
const fn gcn(kernel: &'static str, why: &'static str) -> Known {
    Known {
        targets: GCN,
        compiler: "",
        kernel,
        faults: &[Fault::FewWaves],
        why,
        rare: false,
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
        rare: false,
    }
}

const FLASH: &str = "32 rows: 84 registers and 3 waves up to a head_dim of 64, 128 and 2 above; 16 rows would read K and V twice as often";
const GEMM: &str = "dense tiles of 128 x 128 and 128 x 64: 124 to 128 registers and 2 waves, as in vendors' GEMMs; smaller tiles are bound by workgroup memory";
const GEMV: &str = "q2k, q3k and rows that are not read by 16-byte loads: 72 to 96 registers and 2 or 3 waves; one column instead of two would read the rows twice as often";
const DECODE: &str = "two and four rows of a KV head, or a head_dim above 128: up to 128 registers and 2 or 3 waves; one row would read K and V as many times as often";
const PROJECTIONS: &str = "84 registers and 3 waves for four rows; later Mesas need 64";

const LARGE: &str = "tiles of 128 columns, not used there: Mesa compiles these workgroups for subgroups of 64, and wgpu asks for no size";
const ONLY_32: &str =
    "not used there: it is for adapters all of whose subgroups have 32 invocations";

pub const KNOWN: &[Known] = &[
    gcn("flash", FLASH),
    gcn("gemm", GEMM),
    gcn("gemv_k", GEMV),
    Known {
        rare: true,
        ..gcn("flash_decode_sub", DECODE)
    },
    Known {
        rare: true,
        ..gcn("gemv_k.sub128", GEMV)
    },
    Known {
        compiler: "Mesa 22.",
        ..gcn("gemv_projections", PROJECTIONS)
    },
    wave32("conv_coop", LARGE),
    wave32("flash_coop", ONLY_32),
    Known {
        faults: &[Fault::Spills, Fault::FewWaves],
        ..wave32("gemm_coop", LARGE)
    },
];
