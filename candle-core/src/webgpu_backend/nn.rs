//! The fused ops behind Candle's custom ops, one dispatch each.

use super::WebGpuStorage;
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, Shape};

type Forward = Result<(WebGpuStorage, Shape)>;

/// A result with the shape and the dtype of `x`.
fn like(x: &WebGpuStorage, l: &Layout, value: candle_webgpu::Value) -> Forward {
    Ok((x.shaped(value, x.dtype(), l), l.shape().clone()))
}

pub fn sigmoid(x: &WebGpuStorage, l: &Layout) -> Forward {
    const OP: &str = "usigmoid";
    let value = x.device().runtime().map(OP, x.view(OP, l)?, [0.; 2])?;
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

/// Positions, u32, that sort each row of the last dim.
pub fn argsort(x: &WebGpuStorage, l: &Layout, asc: bool, last_dim: usize) -> Forward {
    const OP: &str = "argsort";
    let value = x
        .device()
        .runtime()
        .argsort(x.view(OP, l)?, last_dim, asc)?;
    Ok((x.shaped(value, DType::U32, l), l.shape().clone()))
}
