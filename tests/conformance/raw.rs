//! The dtypes without arithmetic: raw bytes are loaded, moved, copied and read back. Anything else is an error.

use anyhow::{bail, ensure, Result};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};

use crate::case::Cases;

/// Bytes for the shape (2, 8): half a byte, three quarters of one, or one each.
const RAW: [(DType, usize); 4] = [
    (DType::F4, 8),
    (DType::F6E2M3, 12),
    (DType::F6E3M2, 12),
    (DType::F8E8M0, 16),
];

fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    let t = t.to_device(&Device::Cpu)?;
    let (storage, _) = t.storage_and_layout();
    Ok(match &*storage {
        Storage::Cpu(
            CpuStorage::F4(v)
            | CpuStorage::F6E2M3(v)
            | CpuStorage::F6E3M2(v)
            | CpuStorage::F8E8M0(v),
        ) => v.clone(),
        _ => bail!("not on the CPU as {:?}", t.dtype()),
    })
}

pub fn add(cases: &mut Cases) {
    for (dtype, n) in RAW {
        cases.add(format!("raw/{}", dtype.as_str()), move |d| {
            let data: Vec<u8> = (0..n as u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
            let here = Tensor::from_raw_buffer(&data, dtype, &[2, 8], d)?;
            ensure!(here.device().is_webgpu() && here.dtype() == dtype);
            ensure!(bytes(&here)? == data, "loading changes the bytes");
            ensure!(bytes(&here.copy()?)? == data, "a copy differs");
            let moved = Tensor::from_raw_buffer(&data, dtype, &[2, 8], &Device::Cpu)?;
            ensure!(
                bytes(&moved.to_device(d)?)? == data,
                "moving changes the bytes"
            );
            ensure!(here.add(&here).is_err() && here.to_dtype(DType::F32).is_err());
            ensure!(Tensor::zeros((2, 8), dtype, d).is_err());
            Ok(())
        });
    }
}
