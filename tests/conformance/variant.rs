//! Runs the suite again on a device with other settings, restricted to the cases that these affect.

use anyhow::{ensure, Context, Result};
use candle_core::DType;
use candle_webgpu::kernel::catalogue;

/// Names the variant to run; without it, the whole suite runs on a device with default settings.
pub const VARIANT_VAR: &str = "CANDLE_WEBGPU_TEST_VARIANT";

pub struct Variant {
    name: &'static str,
    /// The environment variables of the device, and their values.
    set: &'static [(&'static str, &'static str)],
    /// Whether a case is worth running again.
    pub keeps: fn(&str) -> bool,
}

/// On a software adapter, the kernels for GPUs.
const AS_GPU: (&str, &str) = (candle_webgpu::DISABLE_VAR, "software");

/// The rule that records some of those kernels is off on software adapters.
const RMS_NORM_MATMUL: (&str, &str) = (candle_webgpu::REWRITE_VAR, "+rms_norm_matmul");

#[rustfmt::skip]
const VARIANTS: &[Variant] = &[
    // Every shader's text differs, but what the checks find depends on the layout of elements, not on their values.
    Variant { name: "checked",  set: &[("CANDLE_WEBGPU_CHECKED", "1")],                                keeps: one_dtype_per_packing },
    // Kernels that need an optional feature are off, so that the portable ones are tested.
    Variant { name: "portable", set: &[("CANDLE_WEBGPU_DISABLE", "cooperative-matrix,f16,subgroups,immediates,software")], keeps: uses_optional_kernels },
    Variant { name: "as-gpu",   set: &[AS_GPU],                                                        keeps: uses_optional_kernels },
    // Packed integer dot products, which are off on software adapters, and the same kernels without subgroups.
    Variant { name: "dot4",     set: &[("CANDLE_WEBGPU_ENABLE", "dot4"), RMS_NORM_MATMUL], keeps: uses_dot4 },
    Variant { name: "portable-dot4", set: &[("CANDLE_WEBGPU_ENABLE", "dot4"), ("CANDLE_WEBGPU_DISABLE", "subgroups"), RMS_NORM_MATMUL], keeps: is_one_format },
    // Most tensors of the suite are split, except tiny ones.
    Variant { name: "split",    set: &[(candle_webgpu::BINDING_VAR, "65536")],                         keeps: can_be_split },
    // The smallest limits that WebGPU allows: 8 storage buffers, 16 KiB of workgroup memory, 256 invocations, bindings of 128 MiB.
    Variant { name: "limits",   set: &[(candle_webgpu::LIMITS_VAR, "default"), AS_GPU],                keeps: has_room_to_lose },
    // The executor of browsers: the caller rewrites, encodes and submits.
    Variant { name: "inline",   set: &[("CANDLE_WEBGPU_EXECUTOR", "inline")],                          keeps: one_dtype_per_packing },
];

/// One dtype for each packing of elements in words, and f64, whose functions use tables.
const PACKINGS: [DType; 5] = [DType::F32, DType::F16, DType::U8, DType::I64, DType::F64];

/// The kernels that need a feature, and the cases in which they or the portable ones run.
const OPTIONAL: &[(&str, &str)] = &[
    ("gemm_coop", "matmul/"),
    ("conv_coop", "conv2d/f16/"),
    ("gemv_coop", "matmul/"),
    ("gemv_k", "matmul/"),
    ("gemv_projections", "rewrite/"),
    ("rms_norm_gemv", "rewrite/"),
    // This one has its own variant.
    ("gemv_dot", ONE_FORMAT),
    ("flash_coop", "attention/"),
    ("flash_decode_sub", "attention/"),
    ("flash_decode_coop", "attention/"),
    ("rope_flash_decode", "rewrite/"),
    ("rope_flash_decode_in_place", "rewrite/"),
    ("rope_flash_decode_coop", "rewrite/"),
    ("rope_flash_decode_coop_in_place", "rewrite/"),
];

/// Unpacking does not depend on the kernel that adds.
const ONE_FORMAT: &str = "quant/q4_1/";

/// Ops on tensors larger than a binding that cannot be split, which give a typed error: a head of 300 keys or more or its mask, a
/// plane of an image that is upsampled or convolved, the experts of a mixture, and weights whose groups of blocks only
/// reach an aligned binding offset beyond 64 KiB. Of the others, one dtype per packing: where to split depends on the layout of elements only.
fn can_be_split(case: &str) -> bool {
    let plane = ["grid/conv_direct", "grid/upsample_nearest"].contains(&case);
    let experts = case.starts_with("quant/") && case.ends_with("/experts");
    let heads = ["/columns", "/queries/", "/long", "/mask/blocks/"];
    let head = case.starts_with("attention/") && heads.iter().any(|part| case.contains(part));
    let groups = ["quant/q3k/", "quant/q6k/", "quant/q8k/"];
    let refused = plane || head || experts || groups.iter().any(|f| case.starts_with(f));
    !refused && one_dtype_per_packing(case)
}

/// Kernels with workgroup memory or many buffers, except cases that need a buffer of more than 256 MiB.
fn has_room_to_lose(case: &str) -> bool {
    const GROUPS: [&str; 10] = [
        "attention/",
        "cat/",
        "conv",
        "copy/",
        "grid/",
        "large/",
        "matmul/",
        "nn/",
        "rewrite/",
        "sort/",
    ];
    let fits = !["large/cat", "large/quantized"].contains(&case);
    let affected = GROUPS.iter().any(|group| case.starts_with(group)) || is_one_format(case);
    affected && fits && one_dtype_per_packing(case)
}

/// The first quantized format with each combination of span, columns, halves, shift and whole sums in `QUANTS`, which is what
/// the text of `gemv_dot` depends on apart from the functions that unpack a block.
const KINDS: [&str; 6] = ["q4_0", "q4_1", "q8_0", "q2k", "q4k", "q6k"];

/// Matmuls of few rows in quantized formats. The fused ones unpack blocks as the others do, so [`KINDS`] suffice for them.
fn uses_dot4(case: &str) -> bool {
    let [group, format, kind, ..] = case.split('/').collect::<Vec<_>>()[..] else {
        return false;
    };
    let integers = format.starts_with('q') && kind != "unpack";
    let fused = ["fused_projections", "gated", "rms_norm_matmul"].contains(&kind);
    group == "quant" && integers && (!fused || KINDS.contains(&format))
}

fn is_one_format(case: &str) -> bool {
    case.starts_with(ONE_FORMAT)
}

fn one_dtype_per_packing(case: &str) -> bool {
    let dtype = |name: &str| name.parse::<DType>().ok();
    case.split('/').all(|part| {
        // A cast names two dtypes: `to_dtype/f32_f16/odd`.
        let named: Option<Vec<DType>> = part.split('_').map(dtype).collect();
        named.is_none_or(|all| all.iter().all(|d| PACKINGS.contains(d)))
    })
}

fn uses_optional_kernels(case: &str) -> bool {
    OPTIONAL.iter().any(|(_, cases)| case.starts_with(cases))
}

/// The variant that [`VARIANT_VAR`] names. Sets the device's environment variables, so no device may have been opened
/// before.
pub fn chosen() -> Result<Option<&'static Variant>> {
    for spec in catalogue() {
        let kernel = spec.kernel;
        let listed = OPTIONAL.iter().any(|(name, _)| *name == kernel.name);
        ensure!(
            spec.features.is_empty() || listed,
            "{} needs a feature: list it in tests/conformance/variant.rs, with the cases that test its portable replacement",
            kernel.name
        );
    }
    let Ok(name) = std::env::var(VARIANT_VAR) else {
        return Ok(None);
    };
    let variant = VARIANTS.iter().find(|v| v.name == name);
    let variant = variant.with_context(|| format!("{VARIANT_VAR}={name:?} is no variant"))?;
    for (name, value) in variant.set {
        std::env::set_var(name, value);
    }
    Ok(Some(variant))
}
