//! The model families of candle-transformers, unmodified, on the WebGPU device against the CPU.
//!
//!     cargo test -p candle-webgpu-tests --test zoo [-- FILTER]
//!
//! Each model is built twice from equal weights, with a small random configuration if the code allows one. A test is
//! named `family::dtype`. The reference is always the CPU in f32, since the weights are exact in f16 and bf16.

mod audio;
mod causal;
mod compare;
mod diffusion;
mod language;
mod mixture;
mod model;
#[allow(dead_code)] // Only tests/dispatches counts.
mod passes;
mod recurrent;
mod sequence;
mod values;
mod vision;
mod weights;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use candle_core::{DType, Device};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use model::Model;

/// Models that cannot run yet. One that passes is an error, so the list stays true.
struct Known {
    test: &'static str,
    reason: &'static str,
}

const KNOWN: &[Known] = &[];

fn reason(test: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|k| test.starts_with(k.test));
    known.map(|k| k.reason)
}

fn check(model: &Model, dtype: DType, device: &Device) -> anyhow::Result<()> {
    let expected = (model.run)(weights::builder(DType::F32, &Device::Cpu))?;
    let actual = (model.run)(weights::builder(dtype, device))?;
    compare::outputs(&expected, &actual, tolerance(dtype))
}

/// The tolerance, relative to the largest value of the output.
fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 5e-3,
        // Three bits fewer than f16.
        DType::BF16 => 4e-2,
        _ => 1e-5,
    }
}

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // The device is shared: with more threads, a software adapter's workers only wait for one another.
    args.test_threads = args.test_threads.or(Some(1));
    let device = match Device::new_webgpu(0) {
        Ok(device) => device,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let models = [
        language::MODELS,
        causal::MODELS,
        recurrent::MODELS,
        mixture::MODELS,
        sequence::MODELS,
        audio::MODELS,
        vision::MODELS,
        diffusion::MODELS,
    ];
    let known = Arc::new(AtomicUsize::new(0));
    let mut trials = Vec::new();
    for model in models.into_iter().flatten() {
        for &dtype in model.dtypes {
            let name = format!("{}::{}", model.name, dtype.as_str());
            let reason = reason(&name);
            let (device, known) = (device.clone(), known.clone());
            trials.push(Trial::ignorable_test(name, move || {
                match (check(model, dtype, &device), reason) {
                    (Ok(()), None) => Ok(Completion::Completed),
                    (Err(_), Some(reason)) => {
                        known.fetch_add(1, Ordering::Relaxed);
                        Ok(Completion::ignored_with(format!("known failure: {reason}")))
                    }
                    (Ok(()), Some(_)) => Err(Failed::from(
                        "passes now: take it from the list in tests/zoo/main.rs",
                    )),
                    (Err(e), None) => Err(Failed::from(format!("{e:#}"))),
                }
            }));
        }
    }
    let conclusion = libtest_mimic::run(&args, trials);
    if !args.list {
        println!("known failures: {}", known.load(Ordering::Relaxed));
    }
    conclusion.exit_code()
}
