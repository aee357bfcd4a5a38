//! Activations as bytes. A tensor is read back once and sent from there; a received buffer is uploaded as it is.

use candle_core::{bail, CpuStorage, DType, Device, Result, Storage, Tensor};
use half::slice::HalfFloatSliceExt;

/// The dtype of activations in messages: their own, or f16 if that is asked for.
pub fn dtype(activations: DType, wire_f16: bool) -> DType {
    match activations {
        DType::F32 if wire_f16 => DType::F16,
        other => other,
    }
}

/// Reads `x` back and passes its bytes on. f32, f16 and bf16.
pub fn with_bytes<R>(x: &Tensor, send: impl FnOnce(&[u8]) -> R) -> Result<R> {
    let x = x.contiguous()?.to_device(&Device::Cpu)?;
    let (storage, layout) = x.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("a tensor that was read back is not contiguous")
    };
    let Storage::Cpu(storage) = &*storage else {
        bail!("a tensor that was read back is not on the CPU")
    };
    let bytes = match storage {
        CpuStorage::F32(data) => bytemuck::cast_slice(&data[start..end]),
        CpuStorage::F16(data) => bytemuck::cast_slice(data[start..end].reinterpret_cast()),
        CpuStorage::BF16(data) => bytemuck::cast_slice(data[start..end].reinterpret_cast()),
        _ => bail!("{:?} is not sent between ranks", x.dtype()),
    };
    Ok(send(bytes))
}

/// The tensor of a received buffer, in the dtype of activations.
pub fn tensor(
    bytes: &[u8],
    (wire, dtype): (DType, DType),
    dims: &[usize],
    device: &Device,
) -> Result<Tensor> {
    let expected = dims.iter().product::<usize>() * wire.size_in_bytes();
    if bytes.len() != expected {
        bail!(
            "a message has {} bytes, {dims:?} in {wire:?} has {expected}",
            bytes.len()
        )
    }
    Tensor::from_raw_buffer(bytes, wire, dims, device)?.to_dtype(dtype)
}

/// The f32 of a received buffer.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_the_wire() -> Result<()> {
        let x = Tensor::randn(0f32, 1., (2, 3), &Device::Cpu)?;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            // A view with an offset and strides.
            let x = x.to_dtype(dtype)?.t()?.narrow(0, 1, 2)?;
            let bytes = with_bytes(&x, <[u8]>::to_vec)?;
            let y = tensor(&bytes, (dtype, DType::F32), &[2, 2], &Device::Cpu)?;
            let x = x.to_dtype(DType::F32)?;
            assert_eq!(x.to_vec2::<f32>()?, y.to_vec2::<f32>()?);
            assert!(tensor(&bytes, (dtype, dtype), &[2, 3], &Device::Cpu).is_err());
        }
        Ok(())
    }
}
