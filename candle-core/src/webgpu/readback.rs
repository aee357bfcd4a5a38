//! Readbacks without blocking, as browsers require. The first poll records a copy of the tensor's elements only, and no lock
//! is held while the copy is awaited. On other devices, these methods do the same as those without `_async`.

use crate::op::{BackpropOp, Op};
use crate::{Device, Result, Storage, Tensor, WithDType};

impl Tensor {
    /// The tensor on the CPU, if it is on a WebGPU device.
    async fn read_back(&self) -> Result<Option<Tensor>> {
        if !self.device().is_webgpu() {
            return Ok(None);
        }
        let dense = self.contiguous()?;
        let reading = {
            let (storage, layout) = dense.storage_and_layout();
            match &*storage {
                Storage::WebGpu(storage) => storage.read_async(layout)?,
                _ => return Ok(None),
            }
        };
        let storage = Storage::Cpu(reading.await?);
        let op = BackpropOp::new1(self, Op::ToDevice);
        let tensor = crate::tensor::from_storage(storage, self.shape().clone(), op, false);
        Ok(Some(tensor))
    }

    /// [`Tensor::to_device`] without blocking.
    pub async fn to_device_async(&self, device: &Device) -> Result<Tensor> {
        if self.device().same_device(device) {
            return Ok(self.clone());
        }
        match self.read_back().await? {
            Some(tensor) => tensor.to_device(device),
            None => self.to_device(device),
        }
    }

    /// [`Tensor::to_scalar`] without blocking.
    pub async fn to_scalar_async<S: WithDType>(&self) -> Result<S> {
        match self.read_back().await? {
            Some(tensor) => tensor.to_scalar(),
            None => self.to_scalar(),
        }
    }

    /// [`Tensor::to_vec0`] without blocking.
    pub async fn to_vec0_async<S: WithDType>(&self) -> Result<S> {
        self.to_scalar_async().await
    }

    /// [`Tensor::to_vec1`] without blocking.
    pub async fn to_vec1_async<S: WithDType>(&self) -> Result<Vec<S>> {
        match self.read_back().await? {
            Some(tensor) => tensor.to_vec1(),
            None => self.to_vec1(),
        }
    }

    /// [`Tensor::to_vec2`] without blocking.
    pub async fn to_vec2_async<S: WithDType>(&self) -> Result<Vec<Vec<S>>> {
        match self.read_back().await? {
            Some(tensor) => tensor.to_vec2(),
            None => self.to_vec2(),
        }
    }

    /// [`Tensor::to_vec3`] without blocking.
    pub async fn to_vec3_async<S: WithDType>(&self) -> Result<Vec<Vec<Vec<S>>>> {
        match self.read_back().await? {
            Some(tensor) => tensor.to_vec3(),
            None => self.to_vec3(),
        }
    }
}
