//! The fused ops behind Candle's custom ops.

use candle_webgpu::kernel::attention::Attention;

use super::debug;
use super::WebGpuStorage;
use crate::backend::{BackendDevice, BackendStorage};
use crate::{DType, Layout, Result, Shape, Storage, Tensor};

type Forward = Result<(WebGpuStorage, Shape)>;

/// A result with the shape and the dtype of `x`.
fn like(x: &WebGpuStorage, l: &Layout, value: candle_webgpu::Value) -> Forward {
    Ok((x.shaped(value, x.dtype(), l), l.shape().clone()))
}

pub fn sigmoid(x: &WebGpuStorage, l: &Layout) -> Forward {
    const OP: &str = "usigmoid";
    let value = x.device().runtime().unary(OP, x.view(OP, l)?, [0.; 2])?;
    like(x, l, value)
}

pub fn softmax_last_dim(x: &WebGpuStorage, l: &Layout) -> Forward {
    let view = x.view("softmax_last_dim", l)?;
    let value = x.device().runtime().softmax_last_dim(view)?;
    like(x, l, value)
}

pub fn rms_norm(
    x: &WebGpuStorage,
    l: &Layout,
    alpha: &WebGpuStorage,
    alpha_l: &Layout,
    eps: f32,
) -> Forward {
    const OP: &str = "rms_norm";
    let (view, alpha) = (x.view(OP, l)?, alpha.view(OP, alpha_l)?);
    let value = x.device().runtime().rms_norm(view, alpha, eps)?;
    like(x, l, value)
}

pub fn layer_norm(
    x: &WebGpuStorage,
    l: &Layout,
    alpha: &WebGpuStorage,
    alpha_l: &Layout,
    beta: &WebGpuStorage,
    beta_l: &Layout,
    eps: f32,
) -> Forward {
    const OP: &str = "layer_norm";
    let (alpha, beta) = (alpha.view(OP, alpha_l)?, beta.view(OP, beta_l)?);
    let value = x
        .device()
        .runtime()
        .layer_norm(x.view(OP, l)?, alpha, beta, eps)?;
    like(x, l, value)
}

macro_rules! rope {
    ($name:ident) => {
        pub fn $name(
            x: &WebGpuStorage,
            l: &Layout,
            cos: &WebGpuStorage,
            cos_l: &Layout,
            sin: &WebGpuStorage,
            sin_l: &Layout,
        ) -> Forward {
            const OP: &str = stringify!($name);
            let (cos, sin) = (cos.view(OP, cos_l)?, sin.view(OP, sin_l)?);
            let value = x.device().runtime().$name(x.view(OP, l)?, cos, sin)?;
            like(x, l, value)
        }
    };
}

rope!(rope);
rope!(rope_i);
rope!(rope_thd);

/// Attention of queries, keys and values, each with its layout. The mask is added to the scores; it may have any shape that
/// broadcasts to (b, heads, queries, keys). If `causal`, the last query sees all keys, the one before it all but the last, and so
/// on, as on Metal. A query that sees no key gives NaN, as softmax does.
pub fn sdpa(
    qkv: [(&WebGpuStorage, &Layout); 3],
    mask: Option<&Tensor>,
    causal: bool,
    scale: f32,
    softcapping: f32,
) -> Forward {
    let how = Attention {
        causal,
        scale,
        softcapping,
    };
    const OP: &str = "sdpa";
    let [(q, lq), (k, lk), (v, lv)] = qkv;
    let views = [q.view(OP, lq)?, k.view(OP, lk)?, v.view(OP, lv)?];
    let mask_view = mask.map(Tensor::storage_and_layout);
    let mask_view = match &mask_view {
        None => None,
        Some((storage, l)) => match &**storage {
            Storage::WebGpu(m) if m.device().same_device(q.device()) => Some(m.view(OP, l)?),
            _ => crate::bail!("{OP}: the mask is not on the device of q"),
        },
    };
    let value = q.device().runtime().sdpa(views, mask_view, how)?;
    // The runtime accepts only tensors of four dims.
    let mut dims = lq.dims().to_vec();
    if let (Some(last), Some(columns)) = (dims.last_mut(), lv.dims().last()) {
        *last = *columns;
    }
    let shape = Shape::from(dims);
    let count = shape.elem_count();
    let y = q.with(value, q.dtype(), count);
    debug::sdpa(qkv, mask, how, &y)?;
    Ok((y, shape))
}

/// The u32 indices that sort each row along the last dim.
pub fn argsort(x: &WebGpuStorage, l: &Layout, asc: bool, last_dim: usize) -> Forward {
    const OP: &str = "argsort";
    let value = x
        .device()
        .runtime()
        .argsort(x.view(OP, l)?, last_dim, asc)?;
    Ok((x.shaped(value, DType::U32, l), l.shape().clone()))
}
