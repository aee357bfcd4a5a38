//! The device is lost, wgpu refuses a submit, or a kernel does not end: the device takes no more work and says why, and
//! another one can be created.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_webgpu::inject_fault;

use crate::{gpu, refused, works, Case};

const TIMEOUT: &str = candle_webgpu::TIMEOUT_VAR;

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "lost/destroyed",             vars: &[],                  run: destroyed },
    Case { name: "lost/destroyed_in_flight",   vars: &[],                  run: destroyed_in_flight },
    Case { name: "lost/destroyed_by_another",  vars: &[],                  run: destroyed_by_another },
    Case { name: "lost/invalid_dispatch",      vars: &[],                  run: invalid_dispatch },
    Case { name: "lost/invalid_in_flight",     vars: &[],                  run: invalid_in_flight },
    Case { name: "lost/time_limit",            vars: &[(TIMEOUT, "0.25")], run: time_limit },
    Case { name: "lost/time_limit_awaited",    vars: &[(TIMEOUT, "0.25")], run: time_limit_awaited },
    Case { name: "lost/no_time_limit",         vars: &[(TIMEOUT, "0")],    run: no_time_limit },
    Case { name: "lost/time_limit_negative",   vars: &[(TIMEOUT, "-1")],   run: bad_time_limit },
    Case { name: "lost/time_limit_nan",        vars: &[(TIMEOUT, "nan")],  run: bad_time_limit },
    Case { name: "lost/time_limit_infinite",   vars: &[(TIMEOUT, "inf")],  run: bad_time_limit },
    Case { name: "lost/time_limit_word",       vars: &[(TIMEOUT, "soon")], run: bad_time_limit },
];

/// Every use of the device and of `x`, which is on it, gives an error that contains `parts`; another device works.
fn gone(d: &Device, x: &Tensor, parts: &[&str]) -> Result<()> {
    let cause = refused(d.synchronize(), parts)?;
    let same = |said: String| {
        ensure!(said == cause, "{said:?} is not {cause:?}");
        Ok(())
    };
    same(refused(x.exp(), parts)?)?;
    same(refused(x.to_vec1::<f32>(), parts)?)?;
    same(refused(
        pollster::block_on(x.to_vec1_async::<f32>()),
        parts,
    )?)?;
    same(refused(pollster::block_on(d.synchronize_async()), parts)?)?;
    same(refused(Tensor::new(&[1f32], d), parts)?)?;
    same(refused(Tensor::zeros(3, DType::F32, d), parts)?)?;
    same(refused(x.to_device(&Device::Cpu), parts)?)?;
    same(refused(d.synchronize(), parts)?)?;
    let other = &gpu()?;
    ensure!(!other.same_device(d), "the same device again");
    same(refused(x.to_device(other), parts)?)?;
    works(other)?;
    same(refused(x.exp(), parts)?)?;
    ensure!(gpu()?.same_device(other), "a third device");
    Ok(())
}

fn tensor(d: &Device) -> Result<Tensor> {
    let x = Tensor::new(&[1f32, 2., 3.], d)?;
    ensure!(x.to_vec1::<f32>()? == [1., 2., 3.]);
    Ok(x)
}

fn destroyed() -> Result<()> {
    let d = &gpu()?;
    let x = tensor(d)?;
    inject_fault::destroy(d.as_webgpu_device()?.runtime());
    gone(d, &x, &["lost", "Device::new_webgpu"])
}

fn destroyed_in_flight() -> Result<()> {
    let d = &gpu()?;
    let x = tensor(d)?;
    let mut y = Tensor::ones((256, 256), DType::F32, d)?;
    for i in 0..300 {
        let next = y.matmul(&y).and_then(|y| y / 256.);
        if i == 200 {
            inject_fault::destroy(d.as_webgpu_device()?.runtime());
        }
        match next {
            Ok(next) => y = next,
            Err(error) => ensure!(error.to_string().contains("lost"), "{error}"),
        }
    }
    gone(d, &x, &["lost"])
}

/// Waiting callers get the error.
fn destroyed_by_another() -> Result<()> {
    let d = &gpu()?;
    let x = &tensor(d)?;
    std::thread::scope(|scope| -> Result<()> {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || loop {
                    if let Err(error) = x.sqr().and_then(|y| y.to_vec1::<f32>()) {
                        return error.to_string();
                    }
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(50));
        inject_fault::destroy(d.as_webgpu_device()?.runtime());
        for reader in readers {
            let said = reader.join();
            let said = said.map_err(|_| anyhow::anyhow!("a reader panicked"))?;
            ensure!(said.contains("lost"), "{said}");
        }
        Ok(())
    })?;
    gone(d, x, &["lost"])
}

fn invalid_dispatch() -> Result<()> {
    let d = &gpu()?;
    let x = tensor(d)?;
    let y = x.sqr()?;
    inject_fault::invalid_dispatch(d.as_webgpu_device()?.runtime())?;
    // It was in the submit that wgpu refused.
    refused(y.to_vec1::<f32>(), &["validation"])?;
    gone(d, &x, &["validation"])
}

/// The same while the encoding thread is busy.
fn invalid_in_flight() -> Result<()> {
    let d = &gpu()?;
    let x = tensor(d)?;
    inject_fault::invalid_dispatch(d.as_webgpu_device()?.runtime())?;
    let start = std::time::Instant::now();
    let mut failed = None;
    while failed.is_none() && start.elapsed().as_secs() < 20 {
        failed = x.sqr().err().map(|error| error.to_string());
    }
    let said = failed.unwrap_or_default();
    ensure!(said.contains("validation"), "{said:?}");
    gone(d, &x, &["validation"])
}

/// One submit that takes longer than the limit. Adapters differ, so the work grows eightfold until it does.
fn overworked(
    d: &Device,
    finish: impl Fn(&Tensor) -> candle_core::Result<Vec<f32>>,
) -> Result<String> {
    for n in [1024, 2048, 4096, 8192, 16384] {
        let a = Tensor::rand(0f32, 1. / 512., (n, n), d)?;
        let mut y = a.clone();
        for _ in 0..8 {
            match y.matmul(&a) {
                Ok(next) => y = next,
                Err(error) => return Ok(error.to_string()),
            }
        }
        if let Err(error) = y.narrow(0, 0, 1)?.flatten_all().and_then(|y| finish(&y)) {
            return Ok(error.to_string());
        }
    }
    anyhow::bail!("eight products of 16,384 rows and columns within the limit")
}

fn time_limit() -> Result<()> {
    let d = &gpu()?;
    let x = tensor(d)?;
    let said = overworked(d, |y| y.to_vec1())?;
    for part in ["did not finish", "0.25 s", "gemm", TIMEOUT] {
        ensure!(said.contains(part), "{said:?} does not say {part:?}");
    }
    refused(d.synchronize(), &["did not finish"])?;
    refused(x.exp(), &["did not finish", "gemm"])?;
    let other = &gpu()?;
    ensure!(!other.same_device(d));
    inject_fault::drain(d.as_webgpu_device()?.runtime());
    Ok(())
}

fn time_limit_awaited() -> Result<()> {
    let d = &gpu()?;
    let said = overworked(d, |y| pollster::block_on(y.to_vec1_async()))?;
    ensure!(
        said.contains("did not finish") && said.contains("gemm"),
        "{said:?}"
    );
    refused(d.synchronize(), &["did not finish"])?;
    inject_fault::drain(d.as_webgpu_device()?.runtime());
    Ok(())
}

fn no_time_limit() -> Result<()> {
    works(&gpu()?)
}

fn bad_time_limit() -> Result<()> {
    let value = std::env::var(TIMEOUT)?;
    refused(Device::new_webgpu(0), &[TIMEOUT, &value, "seconds"]).map(|_| ())
}
