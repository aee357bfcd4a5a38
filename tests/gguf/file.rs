//! GGUF files in memory, with weights generated from their names.

use std::io::Cursor;

use anyhow::Result;
use candle_core::quantized::gguf_file;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

use crate::family::{Family, Spec};
use crate::values::values;

/// A file, and one with the same numbers in f32.
pub struct Pair {
    pub quantized: Vec<u8>,
    pub exact: Vec<u8>,
}

/// Matrices have type `dtype`; everything else is f32, as in published files.
pub fn pair(family: &Family, dtype: GgmlDType) -> Result<Pair> {
    let (mut quantized, mut exact) = (Vec::new(), Vec::new());
    for (name, dims) in family.tensors() {
        let dtype = match dims.len() {
            1 => GgmlDType::F32,
            _ if name.contains("ffn_gate_inp") => GgmlDType::F32,
            _ => dtype,
        };
        let tensor = QTensor::quantize(&weight(&name, dims)?, dtype)?;
        let same = tensor.dequantize(&Device::Cpu)?;
        exact.push((name.clone(), QTensor::quantize(&same, GgmlDType::F32)?));
        quantized.push((name, tensor));
    }
    Ok(Pair {
        quantized: write(family, &quantized)?,
        exact: write(family, &exact)?,
    })
}

fn write(family: &Family, tensors: &[(String, QTensor)]) -> Result<Vec<u8>> {
    let metadata = family.metadata();
    let metadata: Vec<_> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

/// Weights of norms are about 1, and the norm of a matrix's row is about that of a vector of ones.
fn weight(name: &str, dims: Spec) -> Result<Tensor> {
    let (centre, spread) = match dims {
        _ if name.contains("norm") => (1., 0.2),
        [_] => (0., 0.1),
        _ if name.contains("embd") => (0., 1.),
        [.., columns] => (0., (3. / *columns as f32).sqrt()),
        [] => (0., 0.),
    };
    let mut values = values(name, dims.iter().product());
    values.iter_mut().for_each(|v| *v = centre + spread * *v);
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}
