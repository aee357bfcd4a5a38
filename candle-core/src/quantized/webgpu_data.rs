//! From the bytes of a file to blocks on a WebGPU device.

use std::borrow::Cow;

use half::{bf16, f16};

use super::k_quants::*;
use super::{webgpu, GgmlDType, QStorage};
use crate::{Result, WebGpuDevice};

pub(super) fn load(device: &WebGpuDevice, bytes: &[u8], dtype: GgmlDType) -> Result<QStorage> {
    match dtype {
        GgmlDType::F32 => load_as::<f32>(device, bytes),
        GgmlDType::F16 => load_as::<f16>(device, bytes),
        GgmlDType::BF16 => load_as::<bf16>(device, bytes),
        GgmlDType::Q4_0 => load_as::<BlockQ4_0>(device, bytes),
        GgmlDType::Q4_1 => load_as::<BlockQ4_1>(device, bytes),
        GgmlDType::Q5_0 => load_as::<BlockQ5_0>(device, bytes),
        GgmlDType::Q5_1 => load_as::<BlockQ5_1>(device, bytes),
        GgmlDType::Q8_0 => load_as::<BlockQ8_0>(device, bytes),
        GgmlDType::Q8_1 => load_as::<BlockQ8_1>(device, bytes),
        GgmlDType::Q2K => load_as::<BlockQ2K>(device, bytes),
        GgmlDType::Q3K => load_as::<BlockQ3K>(device, bytes),
        GgmlDType::Q4K => load_as::<BlockQ4K>(device, bytes),
        GgmlDType::Q5K => load_as::<BlockQ5K>(device, bytes),
        GgmlDType::Q6K => load_as::<BlockQ6K>(device, bytes),
        GgmlDType::Q8K => load_as::<BlockQ8K>(device, bytes),
    }
}

fn load_as<T: GgmlType + Clone + Send + Sync + 'static>(
    device: &WebGpuDevice,
    bytes: &[u8],
) -> Result<QStorage> {
    webgpu::load_quantized(device, &blocks::<T>(bytes)?)
}

/// The bytes as blocks. A file may hold them at any address, so they are copied where the alignment is wrong.
fn blocks<T: GgmlType + Clone>(bytes: &[u8]) -> Result<Cow<'_, [T]>> {
    let size = std::mem::size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        crate::bail!(
            "{} bytes are not a whole number of {:?} blocks, of {size} bytes each",
            bytes.len(),
            T::DTYPE
        )
    }
    let count = bytes.len() / size;
    if bytes.as_ptr().cast::<T>().is_aligned() {
        // SAFETY: the pointer is aligned, `count` blocks fill the slice, and any bits make a block.
        let blocks = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), count) };
        return Ok(Cow::Borrowed(blocks));
    }
    let mut blocks = Vec::<T>::with_capacity(count);
    // SAFETY: room for `count` blocks was made, they do not overlap the source, and any bits make a block.
    unsafe {
        let into = blocks.as_mut_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len());
        blocks.set_len(count);
    }
    Ok(Cow::Owned(blocks))
}
