//! Binding ranges: the part of a value that one binding covers. A value may be larger than the adapter's largest binding.

use crate::error::{Error, Result};
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::pool::{Pool, GRAIN};
use crate::memory::view::View;

/// Kernels use 32-bit element indices and add to an index before comparing it. Half of the range is safe even for one-byte elements.
const MAX_BYTES: u64 = 1 << 31;
/// The smallest allowed `CANDLE_WEBGPU_MAX_BINDING`: large enough for the kernels' tables, and for several blocks of a row being sorted.
pub(crate) const LEAST: u64 = 1 << 15;

/// The most bytes of one binding: the adapter's limit, lowered to `requested` (`CANDLE_WEBGPU_MAX_BINDING`).
pub(crate) fn binding_limit(limits: &wgpu::Limits, requested: Option<u64>) -> u64 {
    let most = limits
        .max_storage_buffer_binding_size
        .min(limits.max_buffer_size)
        .min(MAX_BYTES);
    requested.map_or(most, |requested| requested.min(most)) & !(GRAIN - 1)
}

/// Bytes of a value from `start`, a multiple of 256.
#[derive(Debug, Clone, Copy)]
pub struct BindingRange<'a> {
    pub(crate) value: &'a Value,
    pub(crate) start: u64,
    /// Bytes that the op uses. The binding may be larger.
    pub(crate) bytes: u64,
}

impl<'a> From<&'a Value> for BindingRange<'a> {
    fn from(value: &'a Value) -> Self {
        BindingRange {
            value,
            start: 0,
            bytes: value.bytes(),
        }
    }
}

impl BindingRange<'_> {
    /// The operand as a recorded op stores it.
    pub(crate) fn bound(&self) -> (Value, u64) {
        (self.value.bound(), self.start)
    }

    /// An error if one binding cannot cover the range, because the op was not split.
    pub(crate) fn check(&self, op: &'static str, pool: &Pool) -> Result<()> {
        if self.bytes <= pool.binding {
            return Ok(());
        }
        Err(pool.too_wide(op, self.bytes))
    }
}

impl View<'_> {
    /// The byte range of the view: start and end.
    pub(crate) fn span(&self) -> (u64, u64) {
        if self.dims.contains(&0) {
            return (0, 0);
        }
        let steps = self.dims.iter().zip(self.strides);
        let last = steps.fold(self.offset, |at, (d, s)| {
            at.saturating_add((d - 1).saturating_mul(*s))
        });
        let size = self.dtype.size() as u64;
        let end = (last as u64).saturating_add(1).saturating_mul(size);
        ((self.offset as u64).saturating_mul(size), end)
    }
}

impl Pool {
    /// Whether a view fits in one binding, wherever it starts.
    pub(crate) fn fits(&self, v: View<'_>) -> bool {
        v.value.bytes() <= self.binding || {
            let (first, end) = v.span();
            end - first <= self.binding - GRAIN
        }
    }

    /// The range to bind for a view, and the view relative to it.
    pub(crate) fn binding_range<'a>(
        &self,
        op: &'static str,
        v: View<'a>,
    ) -> Result<(BindingRange<'a>, View<'a>)> {
        let limit = self.binding;
        if v.value.bytes() <= limit {
            to_u32(op, v.offset)?;
            return Ok((v.value.into(), v));
        }
        let (first, end) = v.span();
        // Prefer coarse starts: few distinct starts make bind groups reusable.
        let coarse = (limit / 2).next_multiple_of(GRAIN);
        let start = [coarse, GRAIN]
            .map(|step| first / step * step)
            .into_iter()
            .find(|start| end - start <= limit)
            .ok_or_else(|| self.too_wide(op, end - first))?;
        let range = BindingRange {
            value: v.value,
            start,
            bytes: end - start,
        };
        let offset = v.offset - start as usize / v.dtype.size();
        Ok((range, View { offset, ..v }))
    }

    pub(crate) fn too_wide(&self, op: &'static str, bytes: u64) -> Error {
        Error::TooLarge {
            op,
            bytes,
            of: "one binding",
            limit: self.binding,
            adapter: self.adapter.clone(),
            advice: ": split the tensor before this op, or use a smaller dtype",
        }
    }
}
