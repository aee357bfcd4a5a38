//! The suite once more on a device made in another way, restricted to the cases that this can change.

use anyhow::{ensure, Context, Result};
use candle_core::DType;
use candle_webgpu::kernel::catalogue;

/// Names the variant to run; without it the whole suite runs on the device as it comes.
pub const VARIANT_VAR: &str = "CANDLE_WEBGPU_TEST_VARIANT";

pub struct Variant {
    name: &'static str,
    /// The variables that make the device so, and their values.
    set: &'static [(&'static str, &'static str)],
    /// Whether a case is worth running again.
    pub keeps: fn(&str) -> bool,
}

/// The rule that makes some of those kernels is off on a software adapter.
const NORMED: (&str, &str) = (candle_webgpu::REWRITE_VAR, "+rms_norm_matmul");

#[rustfmt::skip]
const VARIANTS: &[Variant] = &[
    // Every shader has other text, but what a check can find depends on where elements lie, not on what they mean.
    Variant { name: "checked",  set: &[("CANDLE_WEBGPU_CHECKED", "1")],                                keeps: one_dtype_of_a_kind },
    // Kernels that ask for an optional feature stand back, so that their portable twins are tested.
    Variant { name: "portable", set: &[("CANDLE_WEBGPU_DISABLE", "cooperative-matrix,f16,subgroups,immediates,software")], keeps: has_a_twin },
    // On an adapter that computes in software, the kernels of those that do not.
    Variant { name: "as-gpu",  set: &[("CANDLE_WEBGPU_DISABLE", "software")],                          keeps: has_a_twin },
    // Products of packed bytes, which a software adapter does without, and their twin without subgroups.
    Variant { name: "dot4",     set: &[("CANDLE_WEBGPU_ENABLE", "dot4"), NORMED], keeps: is_quantized },
    Variant { name: "portable-dot4", set: &[("CANDLE_WEBGPU_ENABLE", "dot4"), ("CANDLE_WEBGPU_DISABLE", "subgroups"), NORMED], keeps: is_one_format },
    // Most tensors of the suite that are not tiny are split.
    Variant { name: "split",    set: &[(candle_webgpu::BINDING_VAR, "65536")],                         keeps: can_be_split },
    // The executor of browsers: the caller rewrites, encodes and submits.
    Variant { name: "inline",   set: &[("CANDLE_WEBGPU_EXECUTOR", "inline")],                          keeps: one_dtype_of_a_kind },
];

/// One dtype for each way in which elements lie in words, and f64, whose functions look into tables.
const KINDS: [DType; 5] = [DType::F32, DType::F16, DType::U8, DType::I64, DType::F64];

/// The kernels that ask for a feature, and the cases in which they or their twins run.
const TWINS: &[(&str, &str)] = &[
    ("gemm_coop", "matmul/"),
    ("conv_coop", "conv2d/f16/"),
    ("gemv_k", "matmul/"),
    ("gemv_projections", "rewrite/"),
    ("rms_norm_gemv", "rewrite/"),
    // This one has a variant of its own.
    ("gemv_dot", ONE_FORMAT),
    ("flash_coop", "attention/"),
    ("flash_decode_sub", "attention/"),
];

/// How a format is unpacked does not depend on who adds up.
const ONE_FORMAT: &str = "quant/q4_1/";

/// What is larger than a binding and cannot be split, which is a typed error: one head of 300 keys or more, one plane of an image
/// that is upsampled or convolved, the experts of a mixture, and weights in groups of which only more than 64 KiB end where a
/// binding may start.
fn can_be_split(case: &str) -> bool {
    let plane = ["grid/conv_direct", "grid/upsample_nearest"].contains(&case);
    let experts = case.starts_with("quant/") && case.ends_with("/experts");
    let heads = ["/columns", "/queries/", "/long"];
    let head = case.starts_with("attention/") && heads.iter().any(|part| case.contains(part));
    let groups = ["quant/q3k/", "quant/q6k/", "quant/q8k/"];
    !(plane || head || experts || groups.iter().any(|f| case.starts_with(f)))
}

/// What runs in integers where that is fast: products of few rows.
fn is_quantized(case: &str) -> bool {
    case.starts_with("quant/") && !case.contains("/unpack/")
}

fn is_one_format(case: &str) -> bool {
    case.starts_with(ONE_FORMAT)
}

fn one_dtype_of_a_kind(case: &str) -> bool {
    let dtype = |name: &str| name.parse::<DType>().ok();
    case.split('/').all(|part| {
        // A cast has two: `to_dtype/f32_f16/odd`.
        let named: Option<Vec<DType>> = part.split('_').map(dtype).collect();
        named.is_none_or(|all| all.iter().all(|d| KINDS.contains(d)))
    })
}

fn has_a_twin(case: &str) -> bool {
    TWINS.iter().any(|(_, cases)| case.starts_with(cases))
}

/// What [`VARIANT_VAR`] asks for. Sets the variable of the device, so no device may have been opened before.
pub fn chosen() -> Result<Option<&'static Variant>> {
    for spec in catalogue() {
        let kernel = spec.kernel;
        let listed = TWINS.iter().any(|(name, _)| *name == kernel.name);
        ensure!(
            spec.features.is_empty() || listed,
            "{} asks for a feature: tests/conformance/variant.rs has to say where its twin is tested",
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
