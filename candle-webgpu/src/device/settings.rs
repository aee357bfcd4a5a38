//! What a device takes from the environment, read once, when it is made. A value that a variable does not take is an error.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::device::adapter::{AdapterReport, COMPUTE_QUEUE, DOT4, OPTIONAL, PACK16, SOFTWARE};
use crate::device::env::{
    cache_folder, set, BINDING_VAR, CHECKED_VAR, CHECK_NAN_VAR, CPU_FALLBACK_VAR, DENY_VAR, ENV,
    EXECUTOR_VAR, LIMITS_VAR, LOG_VAR, MEMORY_VAR, REDUCED_F32_VAR, SUBMIT_VAR, TIMEOUT_VAR,
    VERIFY_VAR, WORKGROUPS_VAR,
};
use crate::device::kept;
use crate::error::{Error, Result};
use crate::executor::Options;
use crate::kernel::catalogue;
use crate::memory::binding_range::LEAST as LEAST_BINDING;
use crate::recorder::batch::{DEFAULT_BATCH, MAX_BATCH, MIN_BATCH};
use crate::recorder::gpu::WORKGROUPS;

/// Seconds of [`TIMEOUT_VAR`] where it is not set; software adapters, which are slow, have no timeout.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Settings {
    /// Bytes of [`MEMORY_VAR`].
    pub memory: Option<u64>,
    pub executor: Options,
    pub verify: bool,
    /// Custom ops without an implementation for the device may run on the CPU.
    pub cpu_fallback: bool,
    /// How many workgroups fill the GPU.
    pub workgroups: u64,
    /// The most ops of a batch.
    pub longest_batch: usize,
    /// Matmuls and attention of f32 may round operands.
    pub reduced_f32: bool,
    /// Names of kernels, or of their variants.
    pub denied: Vec<String>,
    pub checked: bool,
    /// Folder of the pipeline cache.
    pub cache: Option<PathBuf>,
    /// Bytes of [`BINDING_VAR`].
    pub binding: Option<u64>,
    /// WebGPU's default limits instead of the adapter's.
    pub default_limits: bool,
}

impl Settings {
    /// The environment's, else what `webgpu-info --tune` found for the adapter, else the defaults.
    pub fn from_env(report: &AdapterReport) -> Result<Self> {
        let software = report.features.contains(&SOFTWARE);
        let tuned = kept::tuned(report);
        let value = |variable| set(variable).or_else(|| tuned.get(variable).cloned());
        // Browsers have neither, and so need not have a list of all kernels.
        let denied = match cfg!(target_arch = "wasm32") {
            true => Vec::new(),
            false => denied(value(DENY_VAR))?,
        };
        Ok(Settings {
            memory: parsed(MEMORY_VAR, bytes)?,
            executor: Options {
                timeout: match parsed(TIMEOUT_VAR, seconds)? {
                    Some(asked) => asked,
                    None => (!software).then_some(TIMEOUT),
                },
                check_nan: parsed(CHECK_NAN_VAR, switch)?.unwrap_or(false),
                log: parsed(LOG_VAR, |text| (text == "ops").then_some(()))?.is_some(),
                threaded: parsed(EXECUTOR_VAR, |text| either(text, "inline", "threaded"))?
                    .unwrap_or(true),
            },
            verify: parsed(VERIFY_VAR, switch)?.unwrap_or(false),
            cpu_fallback: parsed(CPU_FALLBACK_VAR, switch)?.unwrap_or(false),
            workgroups: parse(WORKGROUPS_VAR, value(WORKGROUPS_VAR), workgroups)?
                .unwrap_or(WORKGROUPS),
            longest_batch: parse(SUBMIT_VAR, value(SUBMIT_VAR), batch)?.unwrap_or(DEFAULT_BATCH),
            reduced_f32: parsed(REDUCED_F32_VAR, switch)?.unwrap_or(false),
            denied,
            checked: parsed(CHECKED_VAR, switch)?.unwrap_or(false),
            cache: cache_folder(),
            binding: parsed(BINDING_VAR, binding)?,
            default_limits: parsed(LIMITS_VAR, |text| either(text, "adapter", "default"))?
                .unwrap_or(false),
        })
    }
}

fn workgroups(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| (8..=4096).contains(n))
}

fn batch(text: &str) -> Option<usize> {
    let sizes = MIN_BATCH..=MAX_BATCH;
    text.parse().ok().filter(|n| sizes.contains(n))
}

fn binding(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| *bytes >= LEAST_BINDING)
}

/// The name that [`SOFTWARE`] had in earlier versions.
const FORMER_SOFTWARE: &str = "in-turn";

pub(crate) fn known_features() -> impl Iterator<Item = &'static str> {
    let optional = OPTIONAL.iter().map(|(name, _)| *name);
    optional.chain([DOT4, COMPUTE_QUEUE, PACK16, SOFTWARE])
}

/// The optional features that the environment variable `variable` names.
pub(crate) fn named(variable: &'static str) -> Result<Vec<&'static str>> {
    features_of(variable, &set(variable).unwrap_or_default())
}

/// [`named`] for the value `list` of the variable.
fn features_of(variable: &'static str, list: &str) -> Result<Vec<&'static str>> {
    let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
    let known: Vec<_> = known_features().collect();
    names
        .map(|name| match known.iter().find(|known| **known == name) {
            Some(known) => Ok(*known),
            None if name == FORMER_SOFTWARE => Err(Error::RenamedValue {
                variable,
                value: name.into(),
                now: SOFTWARE,
            }),
            None => Err(Error::BadVariable {
                variable,
                value: name.into(),
                wants: format!("an optional feature; there are {}", known.join(", ")),
            }),
        })
        .collect()
}

/// The parsed value of a variable that is set and not empty. The error says what the variable takes.
fn parsed<T>(variable: &'static str, by: fn(&str) -> Option<T>) -> Result<Option<T>> {
    parse(variable, set(variable), by)
}

/// The same for the `value` of a variable.
fn parse<T>(
    variable: &'static str,
    value: Option<String>,
    by: fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(value) = value else {
        return Ok(None);
    };
    if let Some(parsed) = by(value.trim()) {
        return Ok(Some(parsed));
    }
    let row = ENV.iter().find(|row| row.name == variable);
    Err(Error::BadVariable {
        variable,
        value,
        wants: row.map_or("", |row| row.values).replace('`', ""),
    })
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

/// Whether the text is `on`; `None` if it is not `off` either.
fn either(text: &str, off: &str, on: &str) -> Option<bool> {
    [off, on].contains(&text).then(|| text == on)
}

fn switch(text: &str) -> Option<bool> {
    either(text, "0", "1")
}

/// The kernels of a list, which is the value of [`DENY_VAR`].
fn denied(value: Option<String>) -> Result<Vec<String>> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let names = value.split(',').map(str::trim).filter(|n| !n.is_empty());
    let names: Vec<&str> = names.collect();
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

/// `Some(None)`: no limit.
fn seconds(text: &str) -> Option<Option<Duration>> {
    let seconds: f64 = text.parse().ok()?;
    let limit = Duration::try_from_secs_f64(seconds).ok()?;
    Some((!limit.is_zero()).then_some(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::env::{DISABLE_VAR, ENABLE_VAR};

    /// The rows of `DISABLE` and `MAX_BINDING` repeat facts that stand elsewhere.
    #[test]
    fn rows_agree_with_the_code() {
        let row = |name| ENV.iter().find(|row| row.name == name).expect("a row");
        let named = row(DISABLE_VAR).values.split(", ");
        let mut named: Vec<_> = named.map(|name| name.trim_matches('`')).collect();
        let mut known: Vec<_> = known_features().collect();
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(named, known);
        assert!(row(BINDING_VAR).values.contains(&LEAST_BINDING.to_string()));
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
    fn ranges() {
        assert_eq!([workgroups("8"), workgroups("4096")], [Some(8), Some(4096)]);
        assert_eq!(
            [workgroups("7"), workgroups("4097"), workgroups("x")],
            [None; 3]
        );
        assert_eq!([batch("16"), batch("160")], [Some(16), Some(160)]);
        assert_eq!([batch("15"), batch("161"), batch("")], [None; 3]);
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
        assert_eq!(features_of(DISABLE_VAR, "")?, Vec::<&str>::new());
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
