//! Whether the device has the memory that a model needs.

use crate::device::{counters, describe, memory_limits};
use crate::error::{Error, Result};
pub use crate::needs::Needs;
use candle_core::Device;
use indicatif::BinaryBytes;
use std::fmt::Display;

impl Needs {
    /// An error if `model` with a KV cache of `tokens` tokens does not fit on `device`, as far as its memory is known.
    pub fn check(&self, model: impl Display, tokens: usize, device: &Device) -> Result<()> {
        let Some((buffer, limit)) = memory_limits(device) else {
            return Ok(());
        };
        let does_not_fit = |reason| {
            Err(Error::DoesNotFit {
                model: model.to_string(),
                device: describe(device).to_string(),
                reason,
            })
        };
        if self.largest > buffer {
            return does_not_fit(format!(
                "its largest tensor has {}, a buffer at most {}",
                BinaryBytes(self.largest),
                BinaryBytes(buffer)
            ));
        }
        let cache = self.per_token.saturating_mul(tokens as u64);
        let all = self.weights.saturating_add(cache);
        match limit {
            Some(limit) if all > limit => does_not_fit(format!(
                "it needs {} ({} for weights, {} for a KV cache of {tokens} tokens), and {} are available",
                BinaryBytes(all),
                BinaryBytes(self.weights),
                BinaryBytes(cache),
                BinaryBytes(limit)
            )),
            _ => Ok(()),
        }
    }
}

/// The device memory in use, its peak, and the peak of host memory if the system tells. With a software adapter, the latter includes the
/// device memory.
pub fn usage(device: &Device) -> String {
    let mut parts = Vec::new();
    if let Some(counters) = counters(device) {
        parts.push(format!(
            "device memory {}, peak {}",
            BinaryBytes(counters.allocated_bytes),
            BinaryBytes(counters.peak_bytes)
        ));
    }
    if let Some(bytes) = host_peak() {
        parts.push(format!("host memory peak {}", BinaryBytes(bytes)));
    }
    parts.join("; ")
}

/// The peak of this process's resident memory, in bytes; `None` if the system is not Linux.
fn host_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_known_limits_takes_any_model() -> Result<()> {
        Needs::of([u64::MAX], u64::MAX).check("it", usize::MAX, &Device::Cpu)
    }
}
