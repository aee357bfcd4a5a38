//! The WebGPU methods of [`Device`]. The backend is [`crate::webgpu_backend`].

mod readback;

use crate::backend::BackendDevice;
use crate::op::BackpropOp;
use crate::tensor::from_storage;
use crate::{CpuStorage, DType, Device, Error, Result, Storage, Tensor, WebGpuDevice};

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
