//! A row of the zoo.

use candle_core::{DType, Tensor};
use candle_nn::VarBuilder;

/// One family: its name, the dtypes in which its code runs on any device, and the outputs to compare.
pub struct Model {
    pub name: &'static str,
    pub dtypes: &'static [DType],
    pub run: fn(VarBuilder<'static>) -> anyhow::Result<Vec<Tensor>>,
}

pub const F32: &[DType] = &[DType::F32];
pub const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];
