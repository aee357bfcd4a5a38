//! Replaces `webgpu.rs` if the feature `webgpu` is off. The types are uninhabited.

use super::{GgmlDType, GgmlType, QStorage, QTensor};
use crate::{CpuStorage, Error, Layout, Result, Shape, WebGpuDevice, WebGpuStorage};

pub struct QWebGpuStorage {
    device: WebGpuDevice,
}

impl QWebGpuStorage {
    pub fn dtype(&self) -> GgmlDType {
        self.device.never()
    }

    pub fn device(&self) -> &WebGpuDevice {
        &self.device
    }

    pub fn dequantize(&self, _: usize) -> Result<WebGpuStorage> {
        self.device.never()
    }

    pub fn dequantize_f16(&self, _: usize) -> Result<WebGpuStorage> {
        self.device.never()
    }

    pub fn quantize(&mut self, _: &WebGpuStorage) -> Result<()> {
        self.device.never()
    }

    pub fn quantize_imatrix(&mut self, _: &WebGpuStorage, _: &[f32], _: usize) -> Result<()> {
        self.device.never()
    }

    pub fn quantize_onto(&mut self, _: &CpuStorage) -> Result<()> {
        self.device.never()
    }

    pub fn quantize_imatrix_onto(&mut self, _: &CpuStorage, _: &[f32], _: usize) -> Result<()> {
        self.device.never()
    }

    pub fn storage_size_in_bytes(&self) -> usize {
        self.device.never()
    }

    pub fn embedding(
        &self,
        _: usize,
        _: usize,
        _: &WebGpuStorage,
        _: &Layout,
    ) -> Result<WebGpuStorage> {
        self.device.never()
    }

    pub fn fwd(&self, _: &Shape, _: &WebGpuStorage, _: &Layout) -> Result<(WebGpuStorage, Shape)> {
        self.device.never()
    }

    pub fn indexed_moe_forward(
        &self,
        _: &Shape,
        _: &WebGpuStorage,
        _: &Layout,
        _: &WebGpuStorage,
        _: &Layout,
    ) -> Result<(WebGpuStorage, Shape)> {
        self.device.never()
    }

    pub fn data(&self) -> Result<Vec<u8>> {
        self.device.never()
    }
}

impl QTensor {
    /// [`QTensor::data`] without blocking.
    pub async fn data_async(&self) -> Result<std::borrow::Cow<'_, [u8]>> {
        self.data()
    }
}

pub(super) fn zeros(_: &WebGpuDevice, _: usize, _: GgmlDType) -> Result<QStorage> {
    Err(Error::NotCompiledWithWebGpuSupport)
}

pub(super) fn load(_: &WebGpuDevice, _: &[u8], _: GgmlDType) -> Result<QStorage> {
    Err(Error::NotCompiledWithWebGpuSupport)
}

pub(super) fn read<R>(_: &WebGpuDevice, _: &mut R, _: usize, _: GgmlDType) -> Result<QStorage> {
    Err(Error::NotCompiledWithWebGpuSupport)
}

pub fn load_quantized<T: GgmlType + Send + Sync + 'static>(
    _: &WebGpuDevice,
    _: &[T],
) -> Result<QStorage> {
    Err(Error::NotCompiledWithWebGpuSupport)
}
