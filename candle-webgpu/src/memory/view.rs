//! Strided views of values, and their layouts in kernel parameters: adjacent dims are merged, and at most eight remain.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::buffer::Value;

/// Maximum dims of a layout in kernel parameters. A Candle tensor may have more dims if they merge.
pub const MAX_RANK: usize = 8;

/// A strided view of a value. `dims`, `strides` and `offset` are in elements; stride 0 broadcasts.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) value: &'a Value,
    pub(crate) dtype: DType,
    pub(crate) dims: &'a [usize],
    pub(crate) strides: &'a [usize],
    pub(crate) offset: usize,
}

impl<'a> View<'a> {
    /// Creates a view. Returns [`Error::Invalid`] if the view exceeds the value: kernels run without bounds checks.
    pub fn new(
        op: &'static str,
        value: &'a Value,
        dtype: DType,
        (dims, strides, offset): (&'a [usize], &'a [usize], usize),
    ) -> Result<Self> {
        let empty = dims.contains(&0);
        let view = View {
            value,
            dtype,
            dims,
            strides,
            offset: if empty { 0 } else { offset },
        };
        // Count zeros as ones, so that the product of no subset of the dims can overflow.
        let mut sizes = dims.iter().map(|d| (*d).max(1));
        let counted = sizes.try_fold(1usize, |n, d| n.checked_mul(d)).is_some();
        if counted && dims.len() == strides.len() && view.span().1 <= value.bytes() {
            return Ok(view);
        }
        let there = value.bytes() / dtype.size() as u64;
        Err(Error::Invalid {
            op,
            message: format!(
                "dims {dims:?} with strides {strides:?} and offset {offset} reach past {there} elements"
            ),
        })
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// The stride along a dim, or 0 for a dim of size 0 or 1, whose stride is arbitrary.
    pub(crate) fn step(&self, dim: usize) -> usize {
        match self.dims[dim] {
            0 | 1 => 0,
            _ => self.strides[dim],
        }
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether the view is row-major without gaps, ignoring dims of size 1.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&dim, &stride) in self.dims.iter().zip(self.strides).rev() {
            if dim > 1 && stride != expected {
                return false;
            }
            expected *= dim;
        }
        true
    }

    /// Reinterprets the bytes as another dtype of the same size.
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }
}

/// The dims shared by `N` operands and the strides of each, as in a kernel's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged<const N: usize> {
    pub rank: usize,
    pub dims: [u32; MAX_RANK],
    pub strides: [[u32; MAX_RANK]; N],
}

/// Drops dims of size 1 and merges adjacent dims that are contiguous in every operand.
pub fn merge<const N: usize>(
    op: &'static str,
    dims: &[usize],
    strides: [&[usize]; N],
) -> Result<Merged<N>> {
    let mut out = Merged {
        rank: 0,
        dims: [1; MAX_RANK],
        strides: [[0; MAX_RANK]; N],
    };
    for (d, &size) in dims.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let continues =
            |last: usize| (0..N).all(|k| out.strides[k][last] as usize == strides[k][d] * size);
        if !out.rank.checked_sub(1).is_some_and(continues) {
            if out.rank == MAX_RANK {
                return Err(Error::Invalid {
                    op,
                    message: format!("the layout has more than {MAX_RANK} dims that do not merge"),
                });
            }
            out.rank += 1;
        }
        let last = out.rank - 1;
        out.dims[last] = to_u32(op, out.dims[last] as usize * size)?;
        for (merged, stride) in out.strides.iter_mut().zip(strides) {
            merged[last] = to_u32(op, stride[d])?;
        }
    }
    out.rank = out.rank.max(1);
    Ok(out)
}

/// Converts an element count to `u32`, or returns [`Error::Invalid`]: kernels index with 32 bits.
pub fn to_u32(op: &'static str, n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::Invalid {
        op,
        message: format!("{n} elements exceed the 32-bit index of a kernel"),
    })
}
