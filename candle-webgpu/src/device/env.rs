//! The variables of the environment. [`Settings`](crate::device::settings::Settings) parses them.

use std::path::PathBuf;

/// A variable of the environment.
pub struct EnvVar {
    pub name: &'static str,
    pub values: &'static str,
    pub default: &'static str,
    pub about: &'static str,
}

/// Declares the variables, and [`ENV`] with a row for each.
macro_rules! variables {
    ($($constant:ident $name:literal, $values:literal, $default:literal, $about:literal;)*) => {
        $(#[doc = $about] pub const $constant: &str = $name;)*

        /// Every variable that a device reads; docs/environment.md is written from it.
        pub const ENV: &[EnvVar] = &[$(EnvVar { name: $name, values: $values, default: $default, about: $about }),*];
    };
}

#[rustfmt::skip]
variables! {
    // constant      name                          values                                     default                         effect
    ADAPTER_VAR      "CANDLE_WEBGPU_ADAPTER",      "an index, or part of an adapter's name (any case)", "the index that the program asks for", "The adapter to use.";
    BACKEND_VAR      "WGPU_BACKEND",               "`vulkan`, `metal`, `dx12`",               "all",                          "The backends that are searched for adapters.";
    MEMORY_VAR       "CANDLE_WEBGPU_MEMORY_LIMIT", "a number of bytes: `4096`, `512M`, `8G`", "what the adapter has",         "The most device memory that tensors may take, idle memory included. K, M and G are powers of 1024.";
    TIMEOUT_VAR      "CANDLE_WEBGPU_TIMEOUT",      "a number of seconds; 0 waits for ever",   "300; 0 on software adapters",  "How long a call waits while no submit finishes, before it is an error.";
    EXECUTOR_VAR     "CANDLE_WEBGPU_EXECUTOR",     "`inline` or `threaded`",                  "`threaded`, where there are threads", "Whether the caller rewrites, encodes and submits, or a thread does each.";
    REWRITE_VAR      "CANDLE_WEBGPU_REWRITE",      "`-attention,-elementwise`, `-all,+concat`", "empty",                      "Fusion rules to turn off and on, separated by commas (docs/fusion.md lists them).";
    DISABLE_VAR      "CANDLE_WEBGPU_DISABLE",      "`f16`, `subgroups`, `timestamps`, `immediates`, `pipeline-cache`, `cooperative-matrix`, `dot4`, `compute-queue`, `pack16`, `software`", "empty", "Optional features to do without, separated by commas.";
    ENABLE_VAR       "CANDLE_WEBGPU_ENABLE",       "`dot4`, `compute-queue`, or a feature that a probe turned off", "empty",  "Optional features to use though they are not known to be fast on the adapter, or `webgpu-info --probe` found a fault.";
    DENY_VAR         "CANDLE_WEBGPU_DENY",         "`gemm_coop,flash,gemv_k.sub32`",          "empty",                        "Kernels, or variants of kernels, to do without, separated by commas. Others take their place; an op that has no other kernel is an error.";
    WORKGROUPS_VAR   "CANDLE_WEBGPU_WORKGROUPS",   "a number from 8 to 4096",                 "256",                          "How many workgroups fill the GPU. Tiles, and parts of long sums and of keys, are chosen by it. `webgpu-info --tune` measures it.";
    SUBMIT_VAR       "CANDLE_WEBGPU_SUBMIT",       "a number from 16 to 160",                 "80; 160 in browsers",          "How many ops a submit has at most; while a caller is ahead of its readbacks, a quarter of a pass, from 1.5 to 4 times as many. `webgpu-info --tune` measures it.";
    CACHE_VAR        "CANDLE_WEBGPU_CACHE",        "a folder; empty turns the cache off",     "the user's cache folder",      "Where compiled pipelines, and the faults that `webgpu-info --probe` found, are kept between runs.";
    REDUCED_F32_VAR  "CANDLE_WEBGPU_GEMM_REDUCED_PRECISION_F32", "`0` or `1`",                   "`0`",                          "Matmuls and attention of f32 may round operands to 11 bits, to use cooperative matrices.";
    CHECKED_VAR      "CANDLE_WEBGPU_CHECKED",      "`0` or `1`",                              "`0`",                          "Shaders run with wgpu's runtime checks.";
    CHECK_NAN_VAR    "CANDLE_WEBGPU_CHECK_NAN",    "`0` or `1`",                              "`0`",                          "The first op that makes a NaN or an infinity from operands without any is an error that names it.";
    VERIFY_VAR       "CANDLE_WEBGPU_VERIFY",       "`0` or `1`",                              "`0`",                          "Each op also runs on the CPU, and a difference is an error.";
    CPU_FALLBACK_VAR "CANDLE_WEBGPU_CPU_FALLBACK", "`0` or `1`",                              "`0`",                          "Custom ops without a `webgpu_fwd` run their `cpu_fwd` on copies of the data.";
    LOG_VAR          "CANDLE_WEBGPU_LOG",          "`ops`",                                   "empty",                        "Names each op on stderr as it is encoded.";
    BINDING_VAR      "CANDLE_WEBGPU_MAX_BINDING",  "a number of bytes from 32768 on",         "the adapter's limit",          "How much of a tensor one binding shows. Ops on larger tensors are split (for tests).";
    LIMITS_VAR       "CANDLE_WEBGPU_LIMITS",       "`adapter` or `default`",                  "`adapter`",                    "The limits to ask for: all that the adapter has, or WebGPU's defaults, which every adapter has (for tests).";
}

/// The value of a variable that is set and not empty. Always `None` in browsers, so that the compiler drops what only a variable turns on.
#[inline]
pub(crate) fn set(variable: &str) -> Option<String> {
    if cfg!(target_arch = "wasm32") {
        return None;
    }
    let value = std::env::var(variable).ok();
    value.filter(|value| !value.trim().is_empty())
}

pub(crate) fn cache_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(CACHE_VAR) {
        return (!folder.is_empty()).then(|| folder.into());
    }
    let var = |name| std::env::var_os(name).map(PathBuf::from);
    let base = if cfg!(target_os = "windows") {
        var("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        var("HOME").map(|home| home.join("Library/Caches"))
    } else {
        var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("candle-webgpu"))
}
