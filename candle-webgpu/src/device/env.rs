//! The environment, read once, when a device is made. A value that means nothing is an error.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::device::adapter::{DOT4, OPTIONAL, PACK16, SOFTWARE};
use crate::error::{Error, Result};
use crate::kernel::catalogue;
use crate::memory::binding_range::LEAST as LEAST_BINDING;

/// The most bytes of device memory that tensors may take, idle memory included: a number, or one behind which K, M or G
/// (powers of 1024) stands.
pub const MEMORY_VAR: &str = "CANDLE_WEBGPU_MEMORY_LIMIT";
/// Seconds in which some submit has to finish while a call waits; 0 waits for ever.
pub const TIMEOUT_VAR: &str = "CANDLE_WEBGPU_TIMEOUT";

/// 1: each op that makes numbers is looked at, and the first that makes a NaN or an infinity where its operands had none is an
/// error of the next readback or synchronize that names it.
pub const CHECK_NAN_VAR: &str = "CANDLE_WEBGPU_CHECK_NAN";
/// 1: who calls the device is to compare what it gives with what the CPU gives ([`crate::Device::verifies`]).
pub const VERIFY_VAR: &str = "CANDLE_WEBGPU_VERIFY";
/// 1: custom ops without an implementation for the device run on the CPU ([`crate::Device::cpu_fallback`]).
pub const CPU_FALLBACK_VAR: &str = "CANDLE_WEBGPU_CPU_FALLBACK";
/// Kernels to do without, separated by commas: a kernel's name forbids all its variants, `kernel.variant` only that one. Other
/// kernels take their place; an op that no other kernel computes is an error.
pub const DENY_VAR: &str = "CANDLE_WEBGPU_DENY";

/// Seconds of [`TIMEOUT_VAR`] where it is not set. An adapter that computes in software takes its time, so there is none for it.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Runs shaders with all of wgpu's runtime checks on.
pub const CHECKED_VAR: &str = "CANDLE_WEBGPU_CHECKED";
/// Folder of the pipeline cache; empty switches it off.
pub const CACHE_VAR: &str = "CANDLE_WEBGPU_CACHE";
/// Lowers the bytes that one binding shows: ops on larger tensors run part by part.
pub const BINDING_VAR: &str = "CANDLE_WEBGPU_MAX_BINDING";
/// `ops` writes the name of each op to stderr as it is encoded.
pub const LOG_VAR: &str = "CANDLE_WEBGPU_LOG";
/// Overrides the ordinal: an index into [`crate::adapters`], or part of an adapter's name (any case).
pub const ADAPTER_VAR: &str = "CANDLE_WEBGPU_ADAPTER";
/// Fusion rules to turn off and on, separated by commas: `-attention` turns one off, `-all` all of them, `+dead_code` one on;
/// `-all,+concat` leaves `concat` alone.
pub const REWRITE_VAR: &str = "CANDLE_WEBGPU_REWRITE";
/// Optional features to do without, separated by commas: forces the portable twins.
pub const DISABLE_VAR: &str = "CANDLE_WEBGPU_DISABLE";
/// Optional features to use though they are not known to be fast on the adapter: `dot4`.
pub const ENABLE_VAR: &str = "CANDLE_WEBGPU_ENABLE";
/// `inline` or `threaded`: whether the caller encodes and submits itself, or threads do. Threads, unless there are none.
pub const EXECUTOR_VAR: &str = "CANDLE_WEBGPU_EXECUTOR";

/// A variable of the environment.
pub struct EnvVar {
    pub name: &'static str,
    pub values: &'static str,
    pub default: &'static str,
    pub about: &'static str,
}

const fn var(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    about: &'static str,
) -> EnvVar {
    EnvVar {
        name,
        values,
        default,
        about,
    }
}

/// Every variable that a device reads; docs/environment.md is written from it.
#[rustfmt::skip]
pub const ENV: &[EnvVar] = &[
    var(ADAPTER_VAR,      "an index, or part of an adapter's name", "the index that the program asks for", "the adapter to use"),
    var("WGPU_BACKEND",   "`vulkan`, `metal`, `dx12`",              "all",                      "the backends that are searched for adapters"),
    var(MEMORY_VAR,       "bytes: `4096`, `512M`, `8G`",            "what the adapter has",     "the most device memory that tensors may take, idle memory included"),
    var(TIMEOUT_VAR,      "seconds; 0 waits for ever",              "300; 0 on software adapters", "how long a call waits while no submit finishes, before it is an error"),
    var(EXECUTOR_VAR,     "`inline`, `threaded`",                   "`threaded`, where there are threads", "whether the caller rewrites, encodes and submits, or a thread does each"),
    var(REWRITE_VAR,      "`-attention,-elementwise`, `-all,+concat`", "empty",                 "fusion rules to turn off and on ([fusion.md](fusion.md) lists them)"),
    var(DISABLE_VAR,      "`f16`, `subgroups`, `timestamps`, `immediates`, `pipeline-cache`, `cooperative-matrix`, `dot4`, `pack16`, `software`", "empty", "optional features to do without, separated by commas"),
    var(ENABLE_VAR,       "`dot4`",                                 "empty",                    "optional features to use though they are not known to be fast on the adapter"),
    var(DENY_VAR,         "`gemm_coop,flash,gemv_k.sub32`",         "empty",                    "kernels, or variants of kernels, to do without; an op that has no other kernel is an error"),
    var(CACHE_VAR,        "a folder; empty turns the cache off",    "the user's cache folder",  "where compiled pipelines are kept between runs"),
    var(CHECKED_VAR,      "`0`, `1`",                               "`0`",                      "shaders run with wgpu's runtime checks"),
    var(CHECK_NAN_VAR,    "`0`, `1`",                               "`0`",                      "the first op that makes a NaN or an infinity from operands without any is an error that names it"),
    var(VERIFY_VAR,       "`0`, `1`",                               "`0`",                      "each op also runs on the CPU, and a difference is an error"),
    var(CPU_FALLBACK_VAR, "`0`, `1`",                               "`0`",                      "custom ops without a `webgpu_fwd` run their `cpu_fwd` on copies of the data"),
    var(LOG_VAR,          "`ops`",                                  "empty",                    "names each op on stderr as it is encoded"),
    var(BINDING_VAR,      "bytes, from 32768 on",                   "the adapter's limit",      "how much of a tensor one binding shows; ops on larger tensors are split (for tests)"),
];

pub(crate) struct Settings {
    /// Bytes of [`MEMORY_VAR`].
    pub memory: Option<u64>,
    pub timeout: Option<Duration>,
    pub check_nan: bool,
    pub verify: bool,
    /// Custom ops without an implementation for the device may run on the CPU.
    pub cpu_fallback: bool,
    /// Names of kernels, or of their variants.
    pub denied: Vec<String>,
    pub checked: bool,
    pub log: bool,
    /// Folder of the pipeline cache.
    pub cache: Option<PathBuf>,
    /// Bytes of [`BINDING_VAR`].
    pub binding: Option<u64>,
    /// Threads encode and submit.
    pub threaded: bool,
}

impl Settings {
    /// `software` says that the adapter computes in software.
    pub fn from_env(software: bool) -> Result<Self> {
        Ok(Settings {
            memory: parsed(MEMORY_VAR, "a number of bytes; K, M or G may follow", bytes)?,
            timeout: match parsed(
                TIMEOUT_VAR,
                "a number of seconds; 0 waits for ever",
                seconds,
            )? {
                Some(asked) => asked,
                None => (!software).then_some(TIMEOUT),
            },
            check_nan: parsed(CHECK_NAN_VAR, "0 or 1", switch)?.unwrap_or(false),
            verify: parsed(VERIFY_VAR, "0 or 1", switch)?.unwrap_or(false),
            cpu_fallback: parsed(CPU_FALLBACK_VAR, "0 or 1", switch)?.unwrap_or(false),
            denied: denied()?,
            checked: parsed(CHECKED_VAR, "0 or 1", switch)?.unwrap_or(false),
            log: parsed(LOG_VAR, "ops", |text| (text == "ops").then_some(()))?.is_some(),
            cache: cache_folder(),
            binding: parsed(BINDING_VAR, "a number of bytes from 32768 on", binding)?,
            threaded: parsed(EXECUTOR_VAR, "inline or threaded", executor)?.unwrap_or(true),
        })
    }
}

/// The adapter that the environment asks for.
pub(crate) fn adapter() -> Option<String> {
    set(ADAPTER_VAR)
}

/// The backends that wgpu is told to search.
pub(crate) fn backends() -> Option<String> {
    set("WGPU_BACKEND")
}

/// The list of rules that the environment asks for.
pub(crate) fn rules() -> String {
    set(REWRITE_VAR).unwrap_or_default()
}

fn cache_folder() -> Option<PathBuf> {
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

fn binding(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| *bytes >= LEAST_BINDING)
}

fn executor(text: &str) -> Option<bool> {
    match text {
        "inline" => Some(false),
        "threaded" => Some(true),
        _ => None,
    }
}

/// The name that [`SOFTWARE`] had in earlier versions.
const FORMER_SOFTWARE: &str = "in-turn";

/// The optional features that the environment variable `variable` names.
pub(crate) fn named(variable: &'static str) -> Result<Vec<String>> {
    features_of(variable, &std::env::var(variable).unwrap_or_default())
}

/// The same, where `list` is the variable's value.
fn features_of(variable: &'static str, list: &str) -> Result<Vec<String>> {
    let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
    let optional = OPTIONAL.iter().map(|(name, _)| *name);
    let known: Vec<_> = optional.chain([DOT4, PACK16, SOFTWARE]).collect();
    names
        .map(|name| match name {
            _ if known.contains(&name) => Ok(name.to_string()),
            FORMER_SOFTWARE => Err(Error::RenamedValue {
                variable,
                value: name.into(),
                now: SOFTWARE,
            }),
            _ => Err(Error::BadVariable {
                variable,
                value: name.into(),
                wants: format!("an optional feature; there are {}", known.join(", ")),
            }),
        })
        .collect()
}

/// A variable that is set and not empty. Browsers have none, and modules for them nothing that only a variable asks for.
#[inline]
fn set(variable: &str) -> Option<String> {
    if cfg!(target_arch = "wasm32") {
        return None;
    }
    let value = std::env::var(variable).ok();
    value.filter(|value| !value.trim().is_empty())
}

/// What a variable that is set and not empty means; an error that says what it should be if it means nothing.
fn parsed<T>(
    variable: &'static str,
    wants: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(value) = set(variable) else {
        return Ok(None);
    };
    match parse(value.trim()) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(Error::BadVariable {
            variable,
            value,
            wants: wants.into(),
        }),
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.trim_end().parse().ok()?;
    number.checked_mul(1 << shift)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn denied() -> Result<Vec<String>> {
    let Some(value) = set(DENY_VAR) else {
        return Ok(Vec::new());
    };
    let names = value.split(',').map(str::trim).filter(|n| !n.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = BTreeSet::new();
    for spec in catalogue() {
        known.insert(spec.kernel.name.to_string());
        if !spec.variant.is_empty() {
            known.insert(format!("{}.{}", spec.kernel.name, spec.variant));
        }
    }
    if names.iter().all(|name| known.contains(*name)) {
        return Ok(names.into_iter().map(String::from).collect());
    }
    let known: Vec<_> = known.into_iter().collect();
    Err(Error::BadVariable {
        variable: DENY_VAR,
        wants: format!("a list of kernels; there are {}", known.join(", ")),
        value,
    })
}

/// None inside: no limit.
fn seconds(text: &str) -> Option<Option<Duration>> {
    let seconds: f64 = text.parse().ok()?;
    let limit = Duration::try_from_secs_f64(seconds).ok()?;
    Some((!limit.is_zero()).then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/environment.md is written from [`ENV`]: `UPDATE_DOCS=1` writes it anew. A packaged crate has no docs.
    #[test]
    fn environment_page_is_fresh() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/environment.md");
        if !page.exists() {
            return;
        }
        let rows: String = ENV
            .iter()
            .map(|v| {
                format!(
                    "| `{}` | {} | {} | {} |\n",
                    v.name, v.values, v.default, v.about
                )
            })
            .collect();
        let text = format!(
            "# Environment\n\nVariables are read once, when a device is made. A value that means nothing is an error that names the variable.\n\n\
             <!-- generated by UPDATE_DOCS=1 cargo test -p candle-webgpu environment -->\n\n\
             | variable | values | default | effect |\n|---|---|---|---|\n{rows}\n<!-- end generated -->\n"
        );
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&page, &text).expect("a page that can be written");
        }
        let stands = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(
            stands, text,
            "run UPDATE_DOCS=1 cargo test -p candle-webgpu environment"
        );
    }

    /// Every variable that the crate knows has a row.
    #[test]
    fn variables_have_rows() {
        let source = include_str!("env.rs");
        for line in source
            .lines()
            .filter(|line| line.starts_with("pub const") && line.contains("_VAR: &str"))
        {
            let name = line.split('"').nth(1).expect("a name");
            assert!(ENV.iter().any(|v| v.name == name), "{name}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("3k", Some(3 << 10)),
            ("512M", Some(512 << 20)),
            ("2 G", Some(2 << 30)),
            ("17179869184G", None),
            ("-1", None),
            ("1.5G", None),
            ("G", None),
            ("inf", None),
            ("12é", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(seconds("0"), Some(None));
        assert_eq!(seconds("1.5"), Some(Some(Duration::from_millis(1500))));
        for none in ["-1", "nan", "inf", "1e30", "ten", "5s"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }

    #[test]
    fn names_of_features() -> Result<()> {
        assert_eq!(features_of(DISABLE_VAR, "")?, Vec::<String>::new());
        let names = features_of(DISABLE_VAR, " f16, software,")?;
        assert_eq!(names, ["f16", "software"]);
        for variable in [DISABLE_VAR, ENABLE_VAR] {
            for (name, hint) in [("subgroup", "subgroups"), ("in-turn", "\"software\"")] {
                let error = features_of(variable, name).expect_err(name).to_string();
                let says = [variable, name, hint].map(|part| error.contains(part));
                assert_eq!(says, [true; 3], "{error}");
            }
        }
        Ok(())
    }
}
