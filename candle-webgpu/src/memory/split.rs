//! Cutting an op whose operands are larger than one binding: its loops are halved until the part of each
//! operand fits in a window.

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

/// A view with dims and strides of its own. As an operand of an op that is cut, its first dims are the op's
/// loops: the stride is 0 along one that the operand does not move in.
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

    /// Takes a place in a loop that it does not move in.
    pub fn repeat(mut self, dim: usize, size: usize) -> Self {
        self.dims.insert(dim, size);
        self.strides.insert(dim, 0);
        self
    }

    /// Leaves a loop that it does not move in.
    pub fn without(mut self, dim: usize) -> Self {
        self.dims.remove(dim);
        self.strides.remove(dim);
        self
    }

    /// The last two dims change places.
    pub fn transpose(mut self) -> Self {
        let rank = self.dims.len();
        self.dims.swap(rank - 2, rank - 1);
        self.strides.swap(rank - 2, rank - 1);
        self
    }

    /// The way from the first to the last element along a dim, in bytes.
    pub fn reach(&self, dim: usize) -> usize {
        let steps = (self.dims[dim].saturating_sub(1)).saturating_mul(self.strides[dim]);
        steps.saturating_mul(self.dtype.size())
    }

    /// Row-major parts without gaps are lines: nothing is lost by seeing one dim.
    pub fn line(self) -> Self {
        let dims = [self.dims.iter().product()];
        Part {
            dims: dims[..].into(),
            strides: [1][..].into(),
            ..self
        }
    }
}

/// What an op may be cut along.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loops {
    /// Each element is on its own, whatever the dims.
    Elements,
    /// The first dims.
    First(usize),
}

/// An op in two, with the loop that was cut.
pub(crate) struct Halves<'a> {
    pub dim: usize,
    /// Size of the first half along it.
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
    /// Cuts in two what does not fit, along the widest of the first `loops` dims, which all parts share.
    pub(crate) fn halve<'a>(
        &self,
        op: &'static str,
        parts: &[Part<'a>],
        loops: usize,
    ) -> Result<Halves<'a>> {
        let wide = parts.iter().filter(|part| !self.fits(part.view()));
        let reaches = wide.flat_map(|part| (0..loops).map(|d| (part.reach(d), d)));
        let Some((1.., dim)) = reaches.max_by_key(|(reach, d)| (*reach, loops - d)) else {
            let bytes = parts.iter().map(|part| {
                let reach: usize = (0..part.dims.len()).map(|d| part.reach(d)).sum();
                (reach + part.dtype.size()) as u64
            });
            return Err(self.too_wide(op, bytes.max().unwrap_or(0)));
        };
        let size = parts[0].dims[dim];
        // Pieces of a line start where a window may.
        let mut mid = size / 2;
        if mid >= GRAIN as usize {
            mid -= mid % GRAIN as usize;
        }
        Ok(Halves::new(parts, dim, mid))
    }

    /// Runs of a dim, as `(from, size)`, that each fit in a window, if one index does. One where there is no index: a kernel has to
    /// see the ids that ask for some.
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
