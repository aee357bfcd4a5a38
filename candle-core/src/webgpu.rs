//! The WebGPU methods of [`Device`]. The backend is [`crate::webgpu_backend`].

mod grouped_conv;
mod readback;

use crate::backend::BackendDevice;
use crate::{CpuStorage, DType, Device, Error, Result, Storage, WebGpuDevice};
pub(crate) use grouped_conv::grouped_conv;

/// Uploads the bytes of a dtype without arithmetic, as read from a file.
pub(crate) fn raw_storage(device: &WebGpuDevice, dtype: DType, bytes: &[u8]) -> Result<Storage> {
    let storage = match dtype {
        DType::F6E2M3 => CpuStorage::F6E2M3(bytes.to_vec()),
        DType::F6E3M2 => CpuStorage::F6E3M2(bytes.to_vec()),
        DType::F4 => CpuStorage::F4(bytes.to_vec()),
        DType::F8E8M0 => CpuStorage::F8E8M0(bytes.to_vec()),
        dtype => return Err(Error::UnsupportedDTypeForOp(dtype, "load raw bytes").bt()),
    };
    Ok(Storage::WebGpu(
        device.storage_from_cpu_storage_owned(storage)?,
    ))
}

impl Device {
    /// The WebGPU device of the adapter with this index. Discrete GPUs come first, software adapters last.
    /// Repeated calls for one adapter return the same device.
    pub fn new_webgpu(ordinal: usize) -> Result<Self> {
        Ok(Self::WebGpu(WebGpuDevice::new(ordinal)?))
    }

    /// The WebGPU device with this index, or the CPU if there is no adapter.
    pub fn webgpu_if_available(ordinal: usize) -> Result<Self> {
        if crate::utils::webgpu_is_available() {
            Self::new_webgpu(ordinal)
        } else {
            Ok(Self::Cpu)
        }
    }

    /// [`Device::new_webgpu`] without blocking, as browsers require.
    pub async fn new_webgpu_async(ordinal: usize) -> Result<Self> {
        Ok(Self::WebGpu(WebGpuDevice::new_async(ordinal).await?))
    }

    /// [`Device::webgpu_if_available`] without blocking.
    pub async fn webgpu_if_available_async(ordinal: usize) -> Result<Self> {
        match crate::webgpu_backend::is_available_async().await {
            true => Self::new_webgpu_async(ordinal).await,
            false => Ok(Self::Cpu),
        }
    }

    /// [`Device::synchronize`] without blocking.
    pub async fn synchronize_async(&self) -> Result<()> {
        match self {
            Self::WebGpu(device) => device.synchronize_async().await,
            device => device.synchronize(),
        }
    }

    pub fn is_webgpu(&self) -> bool {
        matches!(self, Self::WebGpu(_))
    }

    pub fn as_webgpu_device(&self) -> Result<&WebGpuDevice> {
        match self {
            Self::WebGpu(device) => Ok(device),
            other => {
                crate::bail!(
                    "expected a webgpu device, got one at {:?}",
                    other.location()
                )
            }
        }
    }
}
