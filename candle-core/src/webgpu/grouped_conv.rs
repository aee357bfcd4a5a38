//! Grouped convolutions as one op. candle-core convolves each group separately.

use crate::op::BackpropOp;
use crate::tensor::from_storage;
use crate::{Result, Storage, Tensor};

/// A grouped convolution as one op. `out` returns the output dims of one group; `moves` are padding, stride and dilation.
/// Returns `None` where candle-core should convolve each group separately: on other devices, for wide groups, and where gradients
/// may be needed, since the backward pass of a convolution does not support groups.
pub(crate) fn grouped_conv(
    x: &Tensor,
    w: &Tensor,
    groups: usize,
    out: impl FnOnce() -> Vec<usize>,
    moves: [usize; 3],
) -> Result<Option<Tensor>> {
    let whole = groups > 1 && w.dim(0)?.is_multiple_of(groups);
    let same = x.device().same_device(w.device()) && x.dtype() == w.dtype();
    if !whole || !same || x.track_op() || w.track_op() {
        return Ok(None);
    }
    let (Storage::WebGpu(x_storage), Storage::WebGpu(w_storage)) = (&*x.storage(), &*w.storage())
    else {
        return Ok(None);
    };
    let kernel = (w_storage, w.layout());
    let y = x_storage.grouped_conv(x.layout(), kernel, groups, moves)?;
    Ok(y.map(|y| {
        let mut dims = out();
        dims[1] *= groups;
        from_storage(Storage::WebGpu(y), dims, BackpropOp::none(), false)
    }))
}
