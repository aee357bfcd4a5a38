//! Layouts in kernel parameters: adjacent dims are merged, and at most eight remain.

use crate::error::{Error, Result};

/// Maximum dims of a layout in kernel parameters. A Candle tensor may have more dims if they merge.
pub const MAX_RANK: usize = 8;

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
