//! `Device::WebGpu`: a thin layer between Candle and the runtime crate candle-webgpu. It maps a [`DType`] to a [`WebGpuDType`],
//! a storage with its layout to a [`View`](runtime::View), and each op to one runtime call.

pub mod custom;
pub(crate) mod debug;
mod device;
pub mod nn;
mod storage;

pub use candle_webgpu as runtime;
pub use candle_webgpu::Error as WebGpuError;
pub use device::WebGpuDevice;
pub use storage::WebGpuStorage;

use crate::{DType, Error, Result};
use runtime::DType as WebGpuDType;

/// Whether this machine has a WebGPU adapter.
pub fn is_available() -> bool {
    runtime::adapters().is_ok_and(|a| !a.is_empty())
}

/// [`is_available`] without blocking.
pub async fn is_available_async() -> bool {
    !runtime::adapters_async().await.is_empty()
}

/// The runtime's dtype; an error for dtypes without arithmetic.
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

/// The runtime's dtype for copies. Dtypes without arithmetic are copied as bytes.
pub(crate) fn bits_dtype(op: &'static str, dtype: DType) -> Result<WebGpuDType> {
    match dtype {
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => Ok(WebGpuDType::U8),
        dtype => webgpu_dtype(op, dtype),
    }
}
