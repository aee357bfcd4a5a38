//! Every op, dtype and layout on the device against the CPU: one named test per case.
//!
//!     cargo test -p candle-webgpu-tests --test conformance [-- FILTER]
//!
//! The environment chooses the device: `CANDLE_WEBGPU_ADAPTER` names an adapter, `CANDLE_WEBGPU_CHECKED=1` turns the
//! runtime checks of shaders on, `CANDLE_WEBGPU_DISABLE=subgroups,f16` forces the portable twins of kernels.
//! `CANDLE_WEBGPU_TEST_VARIANT=checked` or `portable` does so for the cases that it can change; `windows` lets a
//! kernel see 64 KiB of a tensor at most.

#[path = "../known.rs"]
mod known;
#[path = "mod.rs"]
mod suite;
mod variant;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use candle_core::Device;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use suite::*;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // The device is shared; more threads only make a software adapter's workers wait for one another.
    args.test_threads = args.test_threads.or(Some(2));
    let opened = variant::chosen().and_then(|v| Ok((v, Device::new_webgpu(0)?)));
    let (variant, device) = match opened {
        Ok(opened) => opened,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let adapter = match device.as_webgpu_device() {
        Ok(d) => d.adapter().name.clone(),
        Err(_) => String::new(),
    };
    if !args.list {
        println!("adapter: {adapter}");
    }
    let known = Arc::new(AtomicUsize::new(0));
    let trials = cases()
        .into_iter()
        .filter(|case| variant.is_none_or(|v| (v.keeps)(&case.name)))
        .map(|case| {
            let reason = known::reason(&adapter, &case.name);
            let (device, known) = (device.clone(), known.clone());
            Trial::ignorable_test(case.name.clone(), move || {
                match (case.run(&device), reason) {
                    (Ok(()), None) => Ok(Completion::Completed),
                    (Err(_), Some(reason)) => {
                        known.fetch_add(1, Ordering::Relaxed);
                        Ok(Completion::ignored_with(format!("known failure: {reason}")))
                    }
                    (Ok(()), Some(_)) => Err(Failed::from(
                        "passes now: take it from the list in tests/known.rs",
                    )),
                    (Err(e), None) => Err(Failed::from(format!("{e:#}"))),
                }
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&args, trials);
    if !args.list {
        println!("known failures: {}", known.load(Ordering::Relaxed));
    }
    conclusion.exit_code()
}
