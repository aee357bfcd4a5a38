//! Random weights, generated on the device.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use half::{bf16, f16};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A builder that generates each tensor on `device` in `dtype` when the model requests it.
pub fn weights(dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(Random), dtype, device.clone())
}

/// The tensors that a model requested, by name.
#[derive(Clone, Default)]
pub struct Requested(Arc<Mutex<HashMap<String, Tensor>>>);

impl Requested {
    /// The same as [`weights`]; the tensors are kept here as well.
    pub fn weights(&self, dtype: DType, device: &Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), dtype, device.clone())
    }

    /// The kept tensors, converted to f32 on the CPU when a model requests them.
    pub fn on_cpu(self) -> VarBuilder<'static> {
        let tensors = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
    }
}

impl SimpleBackend for Requested {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        dev: &Device,
    ) -> Result<Tensor> {
        let tensor = Random.get(shape, name, init, dtype, dev)?;
        let mut tensors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tensors.insert(name.into(), tensor.clone());
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, dev: &Device) -> Result<Tensor> {
        Random.get_unchecked(name, dtype, dev)
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

struct Random;

impl SimpleBackend for Random {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, dev: &Device) -> Result<Tensor> {
        // Norm weights are 1, as in a new model; the standard deviation is that of transformers' initializer.
        if name.to_lowercase().contains("norm") {
            return Tensor::ones(shape, dtype, dev);
        }
        match dtype {
            DType::F16 => Tensor::randn(f16::ZERO, f16::from_f32(0.02), shape, dev),
            DType::BF16 => Tensor::randn(bf16::ZERO, bf16::from_f32(0.02), shape, dev),
            _ => Tensor::randn(0f32, 0.02, shape, dev)?.to_dtype(dtype),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        candle_core::bail!("random weights require a shape for {name}")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
