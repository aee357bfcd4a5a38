//! Windows: what one binding shows of a value, which may be larger than an adapter lets one binding be.

use crate::error::{Error, Result};
use crate::memory::buffer::Value;
use crate::memory::pool::{Pool, GRAIN};
use crate::memory::view::{to_u32, View};

/// Kernels count elements in 32 bits. Half of that leaves room for what they add before they compare, even
/// where elements are bytes.
const MOST: u64 = 1 << 31;
/// The least that `CANDLE_WEBGPU_MAX_BINDING` may ask for: the tables that kernels take beside tensors fit, and some blocks
/// of a row that is sorted.
pub(crate) const LEAST: u64 = 1 << 15;

/// Bytes that one binding shows: the adapter's limit, or `asked` (see `CANDLE_WEBGPU_MAX_BINDING`) where that is less.
pub(crate) fn binding_limit(limits: &wgpu::Limits, asked: Option<u64>) -> u64 {
    let most = limits
        .max_storage_buffer_binding_size
        .min(limits.max_buffer_size)
        .min(MOST);
    asked.map_or(most, |asked| asked.min(most)) & !(GRAIN - 1)
}

/// A part of a value, from a multiple of 256 bytes on.
#[derive(Debug, Clone, Copy)]
pub struct BindingRange<'a> {
    pub(crate) value: &'a Value,
    pub(crate) start: u64,
    /// Bytes that are in use; the binding shows more where there is more.
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
    /// What the recorder keeps.
    pub(crate) fn bound(&self) -> (Value, u64) {
        (self.value.bound(), self.start)
    }

    /// Refuses what a binding cannot show: the op should have been cut.
    pub(crate) fn check(&self, op: &'static str, pool: &Pool) -> Result<()> {
        if self.bytes <= pool.binding {
            return Ok(());
        }
        Err(pool.too_wide(op, self.bytes))
    }
}

impl View<'_> {
    /// The first byte of the view, and the first behind it.
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
    /// Whether one binding shows all of a view, wherever it starts.
    pub(crate) fn fits(&self, v: View<'_>) -> bool {
        v.value.bytes() <= self.binding || {
            let (first, end) = v.span();
            end - first <= self.binding - GRAIN
        }
    }

    /// What to bind for a view, and the view as seen from there.
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
        // Windows that start at a few places only meet the same bind groups again.
        let coarse = (limit / 2).next_multiple_of(GRAIN);
        let start = [coarse, GRAIN]
            .map(|step| first / step * step)
            .into_iter()
            .find(|start| end - start <= limit)
            .ok_or_else(|| self.too_wide(op, end - first))?;
        let window = BindingRange {
            value: v.value,
            start,
            bytes: end - start,
        };
        let offset = v.offset - start as usize / v.dtype.size();
        Ok((window, View { offset, ..v }))
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
