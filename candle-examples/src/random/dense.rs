//! Random weights, generated on the device.

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use half::{bf16, f16};

/// A builder that generates each tensor on `device` in `dtype` when the model requests it.
pub fn weights(dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(Random), dtype, device.clone())
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
