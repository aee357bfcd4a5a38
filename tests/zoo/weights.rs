//! Weights generated from their names: equal on every device, and exact in f16 and bf16, so that all dtypes share one
//! reference.

use candle_core::{bail, DType, Device, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use half::{bf16, f16};

use crate::values::values;

pub fn builder(dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(ByName), dtype, device.clone())
}

/// An input of a model, for example an image.
pub fn input(name: &str, shape: impl Into<Shape>, vb: &VarBuilder) -> Result<Tensor> {
    let shape = shape.into();
    let values = round(values(name, shape.elem_count()));
    Tensor::from_vec(values, shape, &Device::Cpu)?
        .to_device(vb.device())?
        .to_dtype(vb.dtype())
}

fn round(values: Vec<f32>) -> Vec<f32> {
    // In this order, subnormals of f16 stay exact.
    let round = |v: f32| bf16::from_f32(f16::from_f32(v).to_f32()).to_f32();
    values.into_iter().map(round).collect()
}

struct ByName;

impl SimpleBackend for ByName {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, dev: &Device) -> Result<Tensor> {
        // llama2_c computes its angles if a checkpoint has none.
        if name.ends_with("freq_cis_real") || name.ends_with("freq_cis_imag") {
            bail!("no {name}");
        }
        let dims = shape.dims();
        let is_scale = name.ends_with("weight") || name.ends_with("gamma");
        let (centre, spread) = match dims {
            _ if name.ends_with("running_var") => (1., 0.5),
            // A norm's weights; any other tensor of rank 1 is a bias.
            [] | [_] if is_scale => (1., 0.2),
            [] | [_] => (0., 0.1),
            _ if name.contains("embed") || name.contains("shared") => (0., 1.),
            [_, rest @ ..] => (0., (3. / rest.iter().product::<usize>() as f32).sqrt()),
        };
        let mut values = values(name, shape.elem_count());
        values.iter_mut().for_each(|v| *v = centre + spread * *v);
        // Half of it is the logarithm of a variance, which is made so small that samples are not random.
        if name == "quant_conv.bias" {
            let half = values.len() / 2;
            values[half..].iter_mut().for_each(|v| *v -= 40.);
        }
        Tensor::from_vec(round(values), shape, &Device::Cpu)?
            .to_dtype(dtype)?
            .to_device(dev)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        bail!("weights made from their names need the shape of {name}")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
