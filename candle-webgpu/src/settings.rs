//! What the environment says of a device, read once, when the device is made. A value that means nothing is an error.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::kernel::catalogue;

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
/// Kernels to do without, separated by commas: their twins are used, and an op that has no other kernel is an error.
pub const DENY_VAR: &str = "CANDLE_WEBGPU_DENY";

/// Seconds of [`TIMEOUT_VAR`] where it is not set. An adapter that computes in software takes its time, so there is none for it.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Settings {
    /// Bytes of [`MEMORY_VAR`].
    pub memory: Option<u64>,
    pub timeout: Option<Duration>,
    pub check_nan: bool,
    pub verify: bool,
    pub cpu_fallback: bool,
    /// Names of kernels.
    pub denied: Vec<&'static str>,
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
        })
    }
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

fn denied() -> Result<Vec<&'static str>> {
    let Some(value) = set(DENY_VAR) else {
        return Ok(Vec::new());
    };
    let names = value.split(',').map(str::trim).filter(|n| !n.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known: BTreeSet<&'static str> = catalogue().iter().map(|spec| spec.kernel.name).collect();
    let all: Option<Vec<_>> = names
        .iter()
        .map(|name| known.iter().find(|k| *k == name).copied())
        .collect();
    all.ok_or_else(|| {
        let known: Vec<_> = known.into_iter().collect();
        Error::BadVariable {
            variable: DENY_VAR,
            wants: format!("a list of kernels; there are {}", known.join(", ")),
            value: value.clone(),
        }
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
}
