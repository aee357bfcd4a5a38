//! Two adapters in one program: two GPUs if the machine has them, else llvmpipe and the SwiftShader of an installed
//! Chromium.

use anyhow::{ensure, Context, Result};
use candle_core::{Device, Tensor};

use crate::{refused, works, Case};

/// Chromium's Vulkan driver, as a second driver for the loader.
const DRIVERS: &str = "VK_ADD_DRIVER_FILES";
const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";
const BOTH: &[(&str, &str)] = &[(DRIVERS, SWIFTSHADER), (candle_webgpu::ADAPTER_VAR, "")];

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "adapters/two_compute", vars: BOTH, run: two_compute },
    Case { name: "adapters/no_third",    vars: BOTH, run: no_such },
];

/// Whether this machine has two adapters.
pub fn has_two() -> bool {
    std::path::Path::new(SWIFTSHADER).exists()
        || candle_webgpu::adapters().is_ok_and(|adapters| adapters.len() > 1)
}

/// A matmul, a sum and a softmax, on the device of `x`.
fn some_work(x: &Tensor) -> candle_core::Result<Tensor> {
    let y = candle_nn::ops::softmax_last_dim(&x.matmul(&x.t()?)?)?;
    y.matmul(x)? + 1.
}

fn two_compute() -> Result<()> {
    let (a, b) = (Device::new_webgpu(0)?, Device::new_webgpu(1)?);
    let name = |d: &Device| -> Result<String> {
        let adapter = d.as_webgpu_device()?.adapter();
        Ok(format!("{} {}", adapter.ordinal, adapter.name))
    };
    let (first, second) = (name(&a)?, name(&b)?);
    ensure!(first != second, "both are {first}");
    ensure!(!a.same_device(&b));
    ensure!(a.same_device(&Device::new_webgpu(0)?) && b.same_device(&Device::new_webgpu(1)?));

    let x = Tensor::arange(0f32, 96. * 64., &Device::Cpu)?;
    let x = (x.reshape((96, 64))?.sin()? / 8.)?;
    let (on_a, on_b) = (x.to_device(&a)?, x.to_device(&b)?);
    refused(on_a.add(&on_b), &["device mismatch"])?;
    // Half on each, one after the other, there and back.
    let through = some_work(&some_work(&on_a)?.to_device(&b)?)?;
    let back = some_work(&some_work(&on_b)?.to_device(&a)?)?;
    ensure!(through.device().same_device(&b) && back.device().same_device(&a));
    let expected = some_work(&some_work(&x)?)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    for (got, adapters) in [(through, [&first, &second]), (back, [&second, &first])] {
        let got = got.flatten_all()?.to_vec1::<f32>()?;
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let off = (got - expected).abs();
            ensure!(
                off <= 1e-5 * expected.abs(),
                "{i}: {got}, not {expected} on {adapters:?}"
            );
        }
    }
    works(&a)?;
    works(&b)
}

/// The error for an ordinal beyond the last names the existing adapters.
fn no_such() -> Result<()> {
    let adapters = candle_webgpu::adapters()?;
    let last = adapters.last().context("adapters")?;
    refused(Device::new_webgpu(adapters.len()), &[&last.name]).map(|_| ())
}
