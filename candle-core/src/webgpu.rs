//! What [`Device`] offers for WebGPU; the backend itself is [`crate::webgpu_backend`].

use crate::backend::BackendDevice;
use crate::{Device, Result, WebGpuDevice};

impl Device {
    /// The WebGPU device of the adapter with this rank: discrete GPUs come first, software adapters last.
    /// Asking twice for one adapter gives the same device.
    pub fn new_webgpu(ordinal: usize) -> Result<Self> {
        Ok(Self::WebGpu(WebGpuDevice::new(ordinal)?))
    }

    /// The WebGPU device of this rank, or the CPU where there is no adapter.
    pub fn webgpu_if_available(ordinal: usize) -> Result<Self> {
        if crate::utils::webgpu_is_available() {
            Self::new_webgpu(ordinal)
        } else {
            Ok(Self::Cpu)
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
