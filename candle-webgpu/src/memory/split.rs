//! Splits an op whose operands exceed one binding: halves its loops until the part of each operand fits.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::Result;
use crate::memory::buffer::Value;
use crate::memory::pool::{Pool, GRAIN};
use crate::memory::view::View;

pub(crate) type Dims = SmallVec<[usize; 8]>;

/// Strides of a contiguous layout.
pub(crate) fn contiguous_strides(dims: &[usize]) -> Dims {
    let mut strides = Dims::from_elem(1, dims.len());
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    strides
}

/// A view that owns its dims and strides. As an operand of a split op, its first dims are the op's loops; a loop along which the operand is
/// broadcast has stride 0.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub value: &'a Value,
    pub dtype: DType,
    pub dims: Dims,
    pub strides: Dims,
    pub offset: usize,
}

impl<'a> From<View<'a>> for Part<'a> {
    fn from(v: View<'a>) -> Self {
        Part {
            value: v.value,
            dtype: v.dtype,
            dims: v.dims.into(),
            strides: v.strides.into(),
            offset: v.offset,
        }
    }
}

impl<'a> Part<'a> {
    /// All of a contiguous value.
    pub fn all(value: &'a Value, dtype: DType, dims: &[usize]) -> Self {
        Part {
            value,
            dtype,
            dims: dims.into(),
            strides: contiguous_strides(dims),
            offset: 0,
        }
    }

    pub fn view(&self) -> View<'_> {
        View {
            value: self.value,
            dtype: self.dtype,
            dims: &self.dims,
            strides: &self.strides,
            offset: self.offset,
        }
    }

    pub fn narrow(mut self, dim: usize, from: usize, size: usize) -> Self {
        self.dims[dim] = size;
        self.offset += from * self.strides[dim];
        self
    }

    /// Inserts a loop along which the operand is broadcast.
    pub fn repeat(mut self, dim: usize, size: usize) -> Self {
        self.dims.insert(dim, size);
        self.strides.insert(dim, 0);
        self
    }

    /// Removes a loop along which the operand is broadcast.
    pub fn without(mut self, dim: usize) -> Self {
        self.dims.remove(dim);
        self.strides.remove(dim);
        self
    }

    /// Swaps the last two dims.
    pub fn transpose(mut self) -> Self {
        let rank = self.dims.len();
        self.dims.swap(rank - 2, rank - 1);
        self.strides.swap(rank - 2, rank - 1);
        self
    }

    /// Bytes from the first to the last element along a dim.
    pub fn reach(&self, dim: usize) -> usize {
        let steps = (self.dims[dim].saturating_sub(1)).saturating_mul(self.strides[dim]);
        steps.saturating_mul(self.dtype.size())
    }

    /// Flattens a contiguous part to one dim.
    pub fn flatten(self) -> Self {
        let dims = [self.dims.iter().product()];
        Part {
            dims: dims[..].into(),
            strides: [1][..].into(),
            ..self
        }
    }
}

/// The loops along which an op may be split.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loops {
    /// All loops: the op is elementwise.
    Elements,
    /// This many first dims.
    First(usize),
}

/// An op split in two along one loop.
pub(crate) struct Halves<'a> {
    pub dim: usize,
    /// Size of the first half along `dim`.
    pub mid: usize,
    pub parts: [Vec<Part<'a>>; 2],
}

impl<'a> Halves<'a> {
    pub fn new(parts: &[Part<'a>], dim: usize, mid: usize) -> Self {
        let half = |from, size| {
            let narrow = |part: &Part<'a>| part.clone().narrow(dim, from, size);
            parts.iter().map(narrow).collect()
        };
        let size = parts[0].dims[dim];
        Halves {
            dim,
            mid,
            parts: [half(0, mid), half(mid, size - mid)],
        }
    }
}

impl Pool {
    /// Halves an op whose operands do not fit in one binding. Splits along the dim of largest reach among the first `loops` dims, which all
    /// parts share.
    pub(crate) fn halve<'a>(
        &self,
        op: &'static str,
        parts: &[Part<'a>],
        loops: usize,
    ) -> Result<Halves<'a>> {
        let too_large = parts.iter().filter(|part| !self.fits(part.view()));
        let reaches = too_large.flat_map(|part| (0..loops).map(|d| (part.reach(d), d)));
        let Some((1.., dim)) = reaches.max_by_key(|(reach, d)| (*reach, loops - d)) else {
            let bytes = parts.iter().map(|part| {
                let reach: usize = (0..part.dims.len()).map(|d| part.reach(d)).sum();
                (reach + part.dtype.size()) as u64
            });
            return Err(self.too_wide(op, bytes.max().unwrap_or(0)));
        };
        let size = parts[0].dims[dim];
        // Keep the halves of contiguous operands at valid binding offsets.
        let mut mid = size / 2;
        if mid >= GRAIN as usize {
            mid -= mid % GRAIN as usize;
        }
        Ok(Halves::new(parts, dim, mid))
    }

    /// Splits a dim into ranges `(from, size)` that each fit in one binding, provided that a single index fits. An empty dim gives one
    /// empty range, so that a kernel still checks its ids.
    pub(crate) fn ranges(
        &self,
        part: &Part<'_>,
        dim: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let size = part.dims[dim];
        let most = if self.fits(part.view()) {
            size
        } else {
            let (first, end) = part.clone().narrow(dim, 0, 1).view().span();
            let room = (self.binding - GRAIN).saturating_sub(end - first);
            room as usize / (part.strides[dim] * part.dtype.size()).max(1) + 1
        };
        (0..size.max(1))
            .step_by(most.max(1))
            .map(move |from| (from, most.min(size - from)))
    }
}
