//! Bad input gives a clear error. Cases that depend on environment variables run in a child process: this program
//! again, with the variables set.
//!
//!     cargo test -p candle-webgpu-tests --test errors

use std::process::{Command, ExitCode};

use anyhow::{bail, ensure, Context, Result};
use candle_core::backend::BackendDevice;
use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CustomOp1, DType, Device, InplaceOp1, Layout, Shape, Storage, Tensor,
};
use libtest_mimic::{Arguments, Failed, Trial};

/// Names the role of a child process.
const ROLE: &str = "CANDLE_WEBGPU_TEST_ROLE";

fn gpu() -> Result<Device> {
    Ok(Device::new_webgpu(0)?)
}

/// The error's text, which must contain all `parts`.
fn refused<T>(result: candle_core::Result<T>, parts: &[&str]) -> Result<()> {
    let Err(error) = result else {
        bail!("no error");
    };
    says(&error.to_string(), parts)
}

fn says(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "{text:?} does not say {part:?}");
    }
    Ok(())
}

/// Doubles its input on the CPU; no other device implements it.
struct Doubled;

impl CustomOp1 for Doubled {
    fn name(&self) -> &'static str {
        "doubled"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let x = s.as_slice::<f32>()?;
        let (from, to) = l.contiguous_offsets().unwrap_or((0, x.len()));
        let y = x[from..to].iter().map(|v| v * 2.).collect();
        Ok((CpuStorage::F32(y), l.shape().clone()))
    }
}

impl InplaceOp1 for Doubled {
    fn name(&self) -> &'static str {
        "doubled_in_place"
    }

    fn cpu_fwd(&self, s: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        if let CpuStorage::F32(x) = s {
            x.iter_mut().for_each(|v| *v *= 2.);
        }
        Ok(())
    }
}

type Test = fn() -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("bad_ordinal", bad_ordinal),
    ("unknown_adapter", unknown_adapter),
    ("unknown_feature", unknown_feature),
    ("no_adapter", no_adapter),
    ("if_available", if_available),
    ("adapter_by_name", adapter_by_name),
    ("unsupported_dtypes", unsupported_dtypes),
    ("out_of_memory", out_of_memory),
    ("too_large", too_large),
    ("storage_too_small", storage_too_small),
    ("binding_limit", binding_limit),
    ("shapes", shapes),
    ("mixed_devices", mixed_devices),
    ("custom_op", custom_op),
    ("custom_op_fallback", custom_op_fallback),
    ("nothing_is_left_behind", nothing_is_left_behind),
];

fn bad_ordinal() -> Result<()> {
    let found = gpu()?;
    let name = found.as_webgpu_device()?.adapter().name.clone();
    refused(Device::new_webgpu(99), &["99", &name])
}

/// Runs this program as `role` and returns its output.
fn child(role: &str, vars: &[(&str, &str)]) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ROLE, role).envs(vars.iter().copied());
    let out = command.output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let log = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success(),
        "{role} ended with {}: {text} {log}",
        out.status
    );
    Ok(text)
}

fn unknown_adapter() -> Result<()> {
    let name = gpu()?.as_webgpu_device()?.adapter().name.clone();
    let said = child("open", &[("CANDLE_WEBGPU_ADAPTER", "no such adapter")])?;
    says(&said, &["error", "no such adapter", &name])?;
    let said = child("open", &[("CANDLE_WEBGPU_ADAPTER", "77")])?;
    says(&said, &["error", "77", &name])
}

fn adapter_by_name() -> Result<()> {
    let name = gpu()?.as_webgpu_device()?.adapter().name.to_uppercase();
    for adapter in [name.as_str(), "0", ""] {
        let said = child("open", &[("CANDLE_WEBGPU_ADAPTER", adapter)])?;
        says(&said, &["opened"])?;
    }
    Ok(())
}

fn unknown_feature() -> Result<()> {
    let said = child("open", &[("CANDLE_WEBGPU_DISABLE", "f16,subgroup")])?;
    says(&said, &["error", "\"subgroup\"", "subgroups"])?;
    for known in ["", "f16, subgroups", "f16,"] {
        let said = child("open", &[("CANDLE_WEBGPU_DISABLE", known)])?;
        says(&said, &["opened"])?;
    }
    Ok(())
}

/// Only Vulkan's loader can easily be told that there are no drivers.
const NO_DRIVERS: &[(&str, &str)] = &[
    ("WGPU_BACKEND", "vulkan"),
    ("VK_DRIVER_FILES", "/nonexistent.json"),
    ("VK_ICD_FILENAMES", "/nonexistent.json"),
];

fn no_adapter() -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let said = child("open", NO_DRIVERS)?;
    says(&said, &["error", "no WebGPU adapter", "vulkan", "Install"])
}

fn if_available() -> Result<()> {
    ensure!(candle_core::utils::webgpu_is_available());
    ensure!(Device::webgpu_if_available(0)?.is_webgpu());
    if cfg!(target_os = "linux") {
        says(
            &child("if_available", NO_DRIVERS)?,
            &["Cpu", "available: false"],
        )?;
    }
    Ok(())
}

fn unsupported_dtypes() -> Result<()> {
    let d = &gpu()?;
    let words = |op: &'static str, dtype: &'static str| [op, dtype, "not implemented", "WebGPU"];
    let x = Tensor::zeros((2, 2), DType::I64, d)?;
    refused(x.exp(), &words("uexp", "i64"))?;
    refused(x.matmul(&x), &words("matmul", "i64"))?;
    refused(x.powf(2.), &words("powf", "i64"))?;
    let x = Tensor::zeros((2, 2), DType::U8, d)?;
    refused(x.neg(), &words("uneg", "u8"))?;
    refused(Tensor::zeros(3, DType::U8, d)?.rand_like(0., 1.), &[])
}

fn out_of_memory() -> Result<()> {
    let d = &gpu()?;
    refused(Tensor::zeros(1usize << 40, DType::F32, d), &["bytes"])?;
    refused(Tensor::zeros((1usize << 33, 2), DType::U8, d), &["bytes"])?;
    // The product of the sizes overflows.
    refused(Tensor::zeros((1usize << 40, 1 << 22), DType::F32, d), &[])?;
    refused(
        Tensor::ones(4, DType::F32, d)?
            .broadcast_as((1 << 38, 4))?
            .contiguous(),
        &[],
    )?;
    let x = Tensor::ones(4, DType::F32, d)?
        .affine(2., 0.)?
        .to_vec1::<f32>()?;
    ensure!(x == [2.; 4]);
    Ok(())
}

/// A tensor may be larger than a binding, but not larger than a buffer.
fn too_large() -> Result<()> {
    let d = &gpu()?;
    let most = d.as_webgpu_device()?.adapter().max_buffer_size;
    let needed = (most + 1).to_string();
    refused(
        Tensor::zeros(most as usize + 1, DType::U8, d),
        &["fill", &needed, "bytes in one buffer"],
    )
}

/// A shape with more elements than its storage: kernels would access other tensors' memory.
fn storage_too_small() -> Result<()> {
    let d = &gpu()?;
    let storage = d.as_webgpu_device()?.zeros_impl(&4.into(), DType::F32)?;
    let x = Tensor::from_storage(Storage::WebGpu(storage), (3, 4), BackpropOp::none(), false);
    for done in [
        x.sqrt(),
        x.sum_all(),
        x.matmul(&x.t()?),
        x.t()?.contiguous(),
    ] {
        refused(done, &["reach past 4 elements"])?;
    }
    Ok(())
}

/// The environment lowers the binding size. Ops that cannot be split say so.
fn binding_limit() -> Result<()> {
    let var = candle_webgpu::BINDING_VAR;
    for wrong in ["much", "-1", "100"] {
        let said = child("open", &[(var, wrong)])?;
        says(&said, &["error", var, wrong, "bytes"])?;
    }
    let said = child("narrow", &[(var, "32768")])?;
    says(&said, &["limit: 32768", "sum: 32768"])?;
    says(
        &said,
        &["upsample_nearest2d", "in one binding", "32768", "split"],
    )
}

fn shapes() -> Result<()> {
    let d = &gpu()?;
    let (a, b) = (
        Tensor::zeros((2, 3), DType::F32, d)?,
        Tensor::zeros((2, 4), DType::F32, d)?,
    );
    refused(a.add(&b), &["[2, 3]", "[2, 4]"])?;
    refused(a.matmul(&b), &["[2, 3]", "[2, 4]"])?;
    refused(a.add(&a.to_dtype(DType::F16)?), &["F32", "F16"])?;
    refused(a.sum(5), &["5"])?;
    refused(a.max(2), &["2"])?;
    refused(Tensor::cat(&[&a, &b], 0), &["[2, 3]", "[2, 4]"])?;
    refused(a.index_select(&b, 0), &[])?;
    let ids = Tensor::zeros(2, DType::F32, d)?;
    refused(
        a.index_select(&ids, 0).and_then(|y| y.to_vec2::<f32>()),
        &["index"],
    )?;
    refused(a.where_cond(&a, &a).and_then(|y| y.to_vec2::<f32>()), &[])
}

fn mixed_devices() -> Result<()> {
    let d = &gpu()?;
    let (here, there) = (
        Tensor::zeros(3, DType::F32, d)?,
        Tensor::zeros(3, DType::F32, &Device::Cpu)?,
    );
    refused(here.add(&there), &["Cpu", "WebGpu"])?;
    refused(there.add(&here), &["Cpu", "WebGpu"])?;
    refused(Tensor::cat(&[&here, &there], 0), &["Cpu", "WebGpu"])?;
    let mask = Tensor::zeros(3, DType::U8, &Device::Cpu)?;
    refused(mask.where_cond(&here, &here), &["Cpu", "WebGpu"])
}

fn custom_op() -> Result<()> {
    let x = Tensor::new(&[1f32, 2.], &gpu()?)?;
    let words = ["webgpu_fwd", "CANDLE_WEBGPU_CPU_FALLBACK"];
    refused(x.apply_op1(Doubled), &["doubled", words[0], words[1]])?;
    refused(
        x.inplace_op1(&Doubled),
        &["doubled_in_place", words[0], words[1]],
    )
}

fn custom_op_fallback() -> Result<()> {
    let said = child("fallback", &[("CANDLE_WEBGPU_CPU_FALLBACK", "1")])?;
    says(&said, &["[2.0, 4.0] [4.0, 8.0]", "fallbacks: 2"])
}

/// After all the errors above, the device still computes and has no error left to report.
fn nothing_is_left_behind() -> Result<()> {
    let d = gpu()?;
    d.synchronize()?;
    let x = Tensor::new(&[1f32, 2.], &d)?;
    ensure!((x.sqr()? + 1.)?.to_vec1::<f32>()? == [2., 5.]);
    Ok(())
}

/// What a child does; its parent checks the output.
fn play(role: &str) -> Result<()> {
    match role {
        "open" => match Device::new_webgpu(0) {
            Ok(d) => println!("opened {d:?}"),
            Err(e) => println!("error: {e}"),
        },
        "if_available" => {
            let available = candle_core::utils::webgpu_is_available();
            println!(
                "{:?} available: {available}",
                Device::webgpu_if_available(0)?
            );
        }
        "fallback" => {
            let d = gpu()?;
            let x = Tensor::new(&[1f32, 2.], &d)?;
            let y = x.apply_op1(Doubled)?;
            let z = y.copy()?;
            z.inplace_op1(&Doubled)?;
            let fallbacks = d.as_webgpu_device()?.stats().cpu_fallbacks;
            println!(
                "{:?} {:?} fallbacks: {fallbacks}",
                y.to_vec1::<f32>()?,
                z.to_vec1::<f32>()?
            );
        }
        "narrow" => {
            let d = gpu()?;
            let limit = d.as_webgpu_device()?.runtime().binding_limit();
            let x = Tensor::ones((1, 1, 128, 256), DType::F32, &d)?;
            let sum = x.sum_all()?.to_scalar::<f32>()?;
            let Err(error) = x.upsample_nearest2d(64, 64) else {
                bail!("no error");
            };
            println!("limit: {limit} sum: {sum} {error}");
        }
        other => bail!("no role {other}"),
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        return match play(&role).with_context(|| role.clone()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e:#}");
                ExitCode::FAILURE
            }
        };
    }
    let trial = |&(name, test): &(&'static str, Test)| {
        Trial::test(name, move || {
            test().map_err(|e| Failed::from(format!("{e:#}")))
        })
    };
    // One by one; the check of the device is last.
    let mut args = Arguments::from_args();
    args.test_threads = Some(1);
    libtest_mimic::run(&args, TESTS.iter().map(trial).collect()).exit_code()
}
