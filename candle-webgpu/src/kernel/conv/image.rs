//! Views of images and lines for convolution, pooling and upsampling.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::view::View;
use crate::recorder::Recorder;

/// A view with dims (b, c, h, w); (b, c, w) becomes (b, c, 1, w).
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub value: &'a Value,
    pub dtype: DType,
    pub dims: [usize; 4],
    pub strides: [usize; 4],
    pub offset: usize,
}

impl<'a> Image<'a> {
    pub fn new(op: &'static str, v: View<'a>) -> Result<Self> {
        let four = |s: &[usize]| match *s {
            [b, c, w] => Some([b, c, 1, w]),
            [b, c, h, w] => Some([b, c, h, w]),
            _ => None,
        };
        let (Some(dims), Some(strides)) = (four(v.dims), four(v.strides)) else {
            return Err(Error::Invalid {
                op,
                message: format!("takes three or four dims, not {:?}", v.dims),
            });
        };
        Ok(Image {
            value: v.value,
            dtype: v.dtype,
            dims,
            strides,
            offset: v.offset,
        })
    }

    /// The same elements, or some of them, in other dims.
    pub fn view<'v>(&'v self, dims: &'v [usize], strides: &'v [usize]) -> View<'v> {
        View {
            value: self.value,
            dtype: self.dtype,
            dims,
            strides,
            offset: self.offset,
        }
    }

    /// The binding range, and the image's offset and strides in it as [`steps`](Self::steps).
    pub fn bind(
        &self,
        device: &Recorder,
        op: &'static str,
    ) -> Result<(BindingRange<'_>, (u32, [u32; 4]))> {
        let view = self.view(&self.dims, &self.strides);
        let (range, View { offset, .. }) = device.binding_range(op, view)?;
        Ok((range, Image { offset, ..*self }.steps(op)?))
    }

    /// The offset and the strides for a kernel, which addresses with 32 bits.
    pub fn steps(&self, op: &'static str) -> Result<(u32, [u32; 4])> {
        let mut strides = [0; 4];
        let mut last = self.offset;
        for (d, step) in strides.iter_mut().enumerate() {
            // The stride of a dim of size 1 is arbitrary.
            if self.dims[d] > 1 {
                last = last.saturating_add((self.dims[d] - 1).saturating_mul(self.strides[d]));
                *step = to_u32(op, self.strides[d])?;
            }
        }
        to_u32(op, last)?;
        Ok((self.offset as u32, strides))
    }
}

/// The number of elements of an output, or an error if 32 bits cannot address it.
pub(crate) fn count(op: &'static str, dims: [usize; 4]) -> Result<usize> {
    let n = dims
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d))
        .unwrap_or(usize::MAX);
    to_u32(op, n)?;
    Ok(n)
}

/// The most positions along a padded dim: kernels treat greater values as negative.
const MOST: usize = i32::MAX as usize;

/// One dim of a convolution.
pub(crate) struct Ends {
    pub size: usize,
    pub taps: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl Ends {
    /// The distance from the first to the last tap, plus one.
    fn span(&self) -> Option<usize> {
        let steps = self.taps.checked_sub(1)?.checked_mul(self.dilation)?;
        let span = steps.checked_add(1)?;
        (self.stride > 0 && self.stride.max(span) <= MOST).then_some(span)
    }

    pub fn plain(&self) -> Option<usize> {
        let padded = self.padding.checked_mul(2)?.checked_add(self.size)?;
        let room = padded.checked_sub(self.span()?)?;
        (padded <= MOST).then(|| room / self.stride + 1)
    }

    pub fn transposed(&self, more: usize) -> Option<usize> {
        let first = self.size.checked_sub(1)?.checked_mul(self.stride)?;
        let all = first.checked_add(self.span()?)?.checked_add(more)?;
        (all <= MOST).then(|| all.checked_sub(self.padding.checked_mul(2)?))?
    }
}
