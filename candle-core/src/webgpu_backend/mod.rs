//! `Device::WebGpu`: a thin layer between Candle and its runtime, the crate candle-webgpu. It turns a [`DType`] into an [`Elem`], a
//! storage with its layout into a [`View`](runtime::View), and each op into one call of the runtime.

pub mod custom;
mod debug;
mod device;
mod dispatch;
pub mod nn;
mod storage;

pub use candle_webgpu as runtime;
pub use candle_webgpu::Error as WebGpuError;
pub use device::WebGpuDevice;
pub use dispatch::sdpa;
pub use storage::WebGpuStorage;

use crate::{DType, Error, Result};
use runtime::Elem;

/// Whether this machine has a WebGPU adapter.
pub fn is_available() -> bool {
    runtime::adapters().is_ok_and(|a| !a.is_empty())
}

/// [`is_available`] without blocking.
pub async fn is_available_async() -> bool {
    !runtime::adapters_async().await.is_empty()
}

/// The element type of a dtype.
pub(crate) fn elem(op: &'static str, dtype: DType) -> Result<Elem> {
    Ok(match dtype {
        DType::U8 => Elem::U8,
        DType::U32 => Elem::U32,
        DType::I16 => Elem::I16,
        DType::I32 => Elem::I32,
        DType::I64 => Elem::I64,
        DType::BF16 => Elem::Bf16,
        DType::F16 => Elem::F16,
        DType::F32 => Elem::F32,
        DType::F64 => Elem::F64,
        DType::F8E4M3 => Elem::F8E4M3,
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => {
            return Err(Error::UnsupportedDTypeForOp(dtype, op).bt())
        }
    })
}

/// The element type that copies a dtype. Dtypes without arithmetic are copied as raw bytes.
pub(crate) fn moved(op: &'static str, dtype: DType) -> Result<Elem> {
    match dtype {
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => Ok(Elem::U8),
        dtype => elem(op, dtype),
    }
}
