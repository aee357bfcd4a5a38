//! Quantized tensors on a WebGPU device: not yet. Making one is a typed error, so that no value exists and
//! the other methods have nothing to do.

use super::{GgmlDType, GgmlType, QStorage};
use crate::{CpuStorage, Layout, Result, Shape, WebGpuDevice, WebGpuStorage};

#[derive(Clone, Copy)]
enum Never {}

pub struct QWebGpuStorage {
    never: Never,
}

fn missing<T>() -> Result<T> {
    let op = "quantized tensors";
    Err(candle_webgpu::Error::UnsupportedOp { op }.into())
}

impl QWebGpuStorage {
    pub fn zeros(_: &WebGpuDevice, _: usize, _: GgmlDType) -> Result<Self> {
        missing()
    }

    pub fn dtype(&self) -> GgmlDType {
        match self.never {}
    }

    pub fn device(&self) -> &WebGpuDevice {
        match self.never {}
    }

    pub fn dequantize(&self, _: usize) -> Result<WebGpuStorage> {
        match self.never {}
    }

    pub fn quantize(&mut self, _: &WebGpuStorage) -> Result<()> {
        match self.never {}
    }

    pub fn quantize_imatrix(&mut self, _: &WebGpuStorage, _: &[f32], _: usize) -> Result<()> {
        match self.never {}
    }

    pub fn quantize_onto(&mut self, _: &CpuStorage) -> Result<()> {
        match self.never {}
    }

    pub fn quantize_imatrix_onto(&mut self, _: &CpuStorage, _: &[f32], _: usize) -> Result<()> {
        match self.never {}
    }

    pub fn storage_size_in_bytes(&self) -> usize {
        match self.never {}
    }

    pub fn embedding(
        &self,
        _: usize,
        _: usize,
        _: &WebGpuStorage,
        _: &Layout,
    ) -> Result<WebGpuStorage> {
        match self.never {}
    }

    pub fn fwd(&self, _: &Shape, _: &WebGpuStorage, _: &Layout) -> Result<(WebGpuStorage, Shape)> {
        match self.never {}
    }

    pub fn data(&self) -> Result<Vec<u8>> {
        match self.never {}
    }
}

pub fn load_quantized<T: GgmlType + Send + Sync + 'static>(
    _: &WebGpuDevice,
    _: &[T],
) -> Result<QStorage> {
    missing()
}
