//! `BackendDevice` for WebGPU.

use candle_webgpu::{AdapterReport, Device as Runtime, Stats};

use super::{webgpu_dtype, WebGpuStorage};
use crate::backend::{BackendDevice, BackendStorage};
use crate::{CpuStorage, DType, DeviceLocation, Result, Shape, WithDType};

/// A WebGPU device: one per adapter and process.
#[derive(Clone)]
pub struct WebGpuDevice {
    runtime: Runtime,
}

impl std::fmt::Debug for WebGpuDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.runtime.fmt(f)
    }
}

impl From<Runtime> for WebGpuDevice {
    fn from(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

impl WebGpuDevice {
    /// [`BackendDevice::new`] without blocking.
    pub async fn new_async(ordinal: usize) -> Result<Self> {
        Ok(Self {
            runtime: Runtime::new_async(ordinal).await?,
        })
    }

    /// [`BackendDevice::synchronize`] without blocking.
    pub async fn synchronize_async(&self) -> Result<()> {
        Ok(self.runtime.synchronize_async().await?)
    }

    /// The runtime's device.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The adapter this device is on.
    pub fn adapter(&self) -> &AdapterReport {
        self.runtime.adapter()
    }

    /// Counters since the device was created.
    pub fn stats(&self) -> Stats {
        self.runtime.stats()
    }

    /// Returns the memory of dropped tensors to the driver, instead of keeping it for later tensors.
    pub fn empty_cache(&self) -> Result<()> {
        Ok(self.runtime.empty_cache()?)
    }

    /// Whether matmuls and attention of f32 may round operands to 11 bits, as
    /// [`set_gemm_reduced_precision_f32`](Self::set_gemm_reduced_precision_f32) sets.
    pub fn gemm_reduced_precision_f32(&self) -> bool {
        self.runtime.gemm_reduced_precision_f32()
    }

    /// Whether later matmuls of f32, and candle-nn's `sdpa`, may round operands to 11 bits, like TF32 on CUDA, where that lets tensor cores
    /// compute them. Sums stay f32. Off by default. Returns the error of an earlier op, if there is one.
    pub fn set_gemm_reduced_precision_f32(&self, reduced: bool) -> Result<()> {
        Ok(self.runtime.set_gemm_reduced_precision_f32(reduced)?)
    }

    fn upload_bytes(&self, bytes: &[u8], dtype: DType, count: usize) -> Result<WebGpuStorage> {
        let value = self.runtime.upload(bytes)?;
        Ok(WebGpuStorage::new(value, self.clone(), dtype, count))
    }
}

/// The bytes of a slice of numbers.
fn bytes_of<T: WithDType>(data: &[T]) -> &[u8] {
    // SAFETY: every Candle element type is a plain number without padding bytes.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), std::mem::size_of_val(data)) }
}

impl BackendDevice for WebGpuDevice {
    type Storage = WebGpuStorage;

    fn new(ordinal: usize) -> Result<Self> {
        Ok(Self {
            runtime: Runtime::new(ordinal)?,
        })
    }

    fn location(&self) -> DeviceLocation {
        DeviceLocation::WebGpu {
            gpu_id: self.runtime.id(),
        }
    }

    fn same_device(&self, rhs: &Self) -> bool {
        self.runtime.id() == rhs.runtime.id()
    }

    fn zeros_impl(&self, shape: &Shape, dtype: DType) -> Result<WebGpuStorage> {
        let count = shape.elem_count();
        let value = self.runtime.fill(count, webgpu_dtype("zeros", dtype)?, 0)?;
        Ok(WebGpuStorage::new(value, self.clone(), dtype, count))
    }

    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<WebGpuStorage> {
        let count = shape.elem_count();
        let value = self
            .runtime
            .output("alloc", count, webgpu_dtype("alloc", dtype)?)?;
        Ok(WebGpuStorage::new(value, self.clone(), dtype, count))
    }

    fn storage_from_slice<T: WithDType>(&self, data: &[T]) -> Result<WebGpuStorage> {
        webgpu_dtype("upload", T::DTYPE)?;
        self.upload_bytes(bytes_of(data), T::DTYPE, data.len())
    }

    fn storage_from_cpu_storage(&self, storage: &CpuStorage) -> Result<WebGpuStorage> {
        match storage {
            CpuStorage::U8(data) => self.storage_from_slice(data),
            CpuStorage::U32(data) => self.storage_from_slice(data),
            CpuStorage::I16(data) => self.storage_from_slice(data),
            CpuStorage::I32(data) => self.storage_from_slice(data),
            CpuStorage::I64(data) => self.storage_from_slice(data),
            CpuStorage::BF16(data) => self.storage_from_slice(data),
            CpuStorage::F16(data) => self.storage_from_slice(data),
            CpuStorage::F32(data) => self.storage_from_slice(data),
            CpuStorage::F64(data) => self.storage_from_slice(data),
            CpuStorage::F8E4M3(data) => self.storage_from_slice(data),
            // Some of these dtypes are narrower than a byte, so their storage counts bytes.
            CpuStorage::F6E2M3(data)
            | CpuStorage::F6E3M2(data)
            | CpuStorage::F4(data)
            | CpuStorage::F8E8M0(data) => self.upload_bytes(data, storage.dtype(), data.len()),
        }
    }

    fn storage_from_cpu_storage_owned(&self, storage: CpuStorage) -> Result<WebGpuStorage> {
        self.storage_from_cpu_storage(&storage)
    }

    fn rand_uniform(&self, shape: &Shape, dtype: DType, lo: f64, up: f64) -> Result<WebGpuStorage> {
        let (count, e) = (shape.elem_count(), webgpu_dtype("rand_uniform", dtype)?);
        let value = self.runtime.rand_uniform(count, e, lo, up)?;
        Ok(WebGpuStorage::new(value, self.clone(), dtype, count))
    }

    fn rand_normal(
        &self,
        shape: &Shape,
        dtype: DType,
        mean: f64,
        std: f64,
    ) -> Result<WebGpuStorage> {
        let (count, e) = (shape.elem_count(), webgpu_dtype("rand_normal", dtype)?);
        let value = self.runtime.rand_normal(count, e, mean, std)?;
        Ok(WebGpuStorage::new(value, self.clone(), dtype, count))
    }

    fn set_seed(&self, seed: u64) -> Result<()> {
        self.runtime.set_seed(seed);
        Ok(())
    }

    fn get_current_seed(&self) -> Result<u64> {
        Ok(self.runtime.seed())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.runtime.synchronize()?)
    }
}
