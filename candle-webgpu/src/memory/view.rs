//! Strided views of values.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::buffer::Value;

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
