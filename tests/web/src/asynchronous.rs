//! Readbacks without suspension, for pages without JSPI. tests/readback.rs does the same natively.

use anyhow::{ensure, Context, Result};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, IndexOp, Tensor};
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(inline_js = r#"
// The next pipeline is not compiled.
export function reject_next_pipeline() {
    const prototype = GPUDevice.prototype;
    const original = prototype.createComputePipelineAsync;
    prototype.createComputePipelineAsync = function () {
        prototype.createComputePipelineAsync = original;
        return Promise.reject(new Error("rejected by the test"));
    };
}
"#)]
extern "C" {
    fn reject_next_pipeline();
}

pub async fn check(device: &Device) -> Result<()> {
    let again = Device::new_webgpu_async(0).await?;
    ensure!(device.same_device(&again), "another device");
    let here = Tensor::arange(0u32, 120, &Device::Cpu)?.reshape((4, 5, 6))?;
    let x = here.to_device(device)?;
    let scalar = x.i((3, 4, 5))?.to_scalar_async::<u32>().await?;
    ensure!(scalar == 119, "to_scalar_async: {scalar}");
    let scalar = x.i((1, 2, 3))?.to_vec0_async::<u32>().await?;
    ensure!(scalar == 45, "to_vec0_async: {scalar}");
    let view = |t: &Tensor| t.i((.., 2, 1));
    let row = view(&x)?.to_vec1_async::<u32>().await?;
    ensure!(
        row == view(&here)?.to_vec1::<u32>()?,
        "to_vec1_async: {row:?}"
    );
    let view = |t: &Tensor| t.i(3)?.t();
    let rows = view(&x)?.to_vec2_async::<u32>().await?;
    ensure!(
        rows == view(&here)?.to_vec2::<u32>()?,
        "to_vec2_async: {rows:?}"
    );
    let all = x.transpose(0, 2)?.to_vec3_async::<u32>().await?;
    let expected = here.transpose(0, 2)?.to_vec3::<u32>()?;
    ensure!(all == expected, "to_vec3_async: {all:?}");
    let back = x.i(1..3)?.to_device_async(&Device::Cpu).await?;
    let expected = here.i(1..3)?.flatten_all()?.to_vec1::<u32>()?;
    let got = back.flatten_all()?.to_vec1::<u32>()?;
    ensure!(
        back.device().is_cpu() && got == expected,
        "to_device_async: {got:?}"
    );

    let source = Tensor::arange(0f32, 512., &Device::Cpu)?.reshape((2, 256))?;
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q6K] {
        let blocks = QTensor::quantize(&source, dtype)?;
        let there = QTensor::quantize_onto(&source, dtype, device)?;
        let same = there.data_async().await? == blocks.data()?;
        ensure!(same, "data_async of {dtype:?}");
    }

    // Whichever readback is next reports a fault, once.
    let wrong = x.index_select(&Tensor::new(&[9u32], device)?, 0)?;
    let error = wrong.to_device_async(&Device::Cpu).await.err();
    let error = error
        .context("no error for an id out of range")?
        .to_string();
    ensure!(error.contains('9'), "{error}");
    device.synchronize_async().await?;

    // A pipeline that a browser does not compile: an error of its op only, and only once.
    let y = source.to_device(device)?;
    let (bad, good) = (y.erf()?, y.neg()?);
    reject_next_pipeline();
    let error = bad.to_vec2_async::<f32>().await.err();
    let error = error.context("no error for a rejected pipeline")?;
    let error = error.to_string();
    ensure!(error.contains("rejected by the test"), "{error}");
    let negated = good.to_vec2_async::<f32>().await?;
    ensure!(
        negated == source.neg()?.to_vec2::<f32>()?,
        "neg: {negated:?}"
    );
    let erf = y.erf()?.to_vec2_async::<f32>().await?;
    ensure!(erf[1][255] == 1., "erf: {erf:?}");

    // The error of a blocking call names the async one.
    let refused = |error: Option<candle_core::Error>, name: &str| {
        let error = error.map(|e| e.to_string()).unwrap_or_default();
        ensure!(error.contains(name), "{error:?} does not name {name}");
        Ok(())
    };
    refused(x.to_vec3::<u32>().err(), "to_vec3_async")?;
    refused(x.to_device(&Device::Cpu).err(), "to_device_async")?;
    refused(device.synchronize().err(), "synchronize_async")?;
    refused(Device::new_webgpu(0).err(), "new_webgpu_async")?;
    let blocks = QTensor::quantize_onto(&source, GgmlDType::Q4_0, device)?;
    refused(blocks.data().map(|_| ()).err(), "data_async")?;
    // It has no other effect.
    ensure!(x.i((0, 0, 1))?.to_scalar_async::<u32>().await? == 1);
    Ok(())
}
