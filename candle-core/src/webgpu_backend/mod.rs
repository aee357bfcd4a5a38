//! `Device::WebGpu`: the thin layer between Candle and the runtime (the crate candle-webgpu). It turns a
//! [`DType`] into an [`WebGpuDType`], a storage and its layout into a [`View`], and each trait method into one call.

pub mod custom;
mod device;
pub mod nn;
mod storage;
pub(crate) mod twin;
mod verify;

pub use candle_webgpu as runtime;
pub use candle_webgpu::Error as WebGpuError;
pub use device::WebGpuDevice;
pub use storage::WebGpuStorage;

use crate::{DType, Error, Result};
use runtime::DType as WebGpuDType;

/// Whether this machine has an adapter.
pub fn is_available() -> bool {
    runtime::adapters().is_ok_and(|a| !a.is_empty())
}

/// The same without blocking.
pub async fn is_available_async() -> bool {
    !runtime::adapters_async().await.is_empty()
}

/// The element type of a dtype.
pub(crate) fn webgpu_dtype(op: &'static str, dtype: DType) -> Result<WebGpuDType> {
    Ok(match dtype {
        DType::U8 => WebGpuDType::U8,
        DType::U32 => WebGpuDType::U32,
        DType::I16 => WebGpuDType::I16,
        DType::I32 => WebGpuDType::I32,
        DType::I64 => WebGpuDType::I64,
        DType::BF16 => WebGpuDType::Bf16,
        DType::F16 => WebGpuDType::F16,
        DType::F32 => WebGpuDType::F32,
        DType::F64 => WebGpuDType::F64,
        DType::F8E4M3 => WebGpuDType::F8E4M3,
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => {
            return Err(Error::UnsupportedDTypeForOp(dtype, op).bt())
        }
    })
}

/// The element type that moves a dtype: those without arithmetic are raw bytes.
pub(crate) fn bits_dtype(op: &'static str, dtype: DType) -> Result<WebGpuDType> {
    match dtype {
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => Ok(WebGpuDType::U8),
        dtype => webgpu_dtype(op, dtype),
    }
}
