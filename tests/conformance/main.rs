//! Every op, dtype and layout on the device against the CPU: one named test per case.
//!
//!     cargo test -p candle-webgpu-tests --test conformance [-- FILTER]
//!
//! The environment chooses the device: `CANDLE_WEBGPU_ADAPTER` names an adapter, `CANDLE_WEBGPU_CHECKED=1` turns the
//! runtime checks of shaders on, `CANDLE_WEBGPU_DISABLE=subgroups,f16` forces the portable twins of kernels.
//! `CANDLE_WEBGPU_TEST_VARIANT=checked` or `portable` does so for the cases that it can change; `windows` lets a
//! kernel see 64 KiB of a tensor at most.

mod attention;
mod bound;
mod case;
mod cast;
mod conv;
mod copy;
mod elementwise;
mod grid;
mod index;
mod input;
#[path = "../known.rs"]
mod known;
mod large;
mod large_nn;
mod matmul;
mod nn;
mod peers;
mod pool;
mod quant;
mod random;
mod ranks;
mod raw;
mod reduce;
mod rewrite;
mod sort;
mod upstream;
mod variant;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use candle_core::Device;
use case::{Case, Cases};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

fn cases() -> Vec<Case> {
    let mut all = Cases::default();
    bound::add(&mut all);
    elementwise::add(&mut all);
    cast::add(&mut all);
    copy::add(&mut all);
    reduce::add(&mut all);
    index::add(&mut all);
    matmul::add(&mut all);
    sort::add(&mut all);
    random::add(&mut all);
    raw::add(&mut all);
    nn::add(&mut all);
    attention::add(&mut all);
    rewrite::add(&mut all);
    conv::add(&mut all);
    pool::add(&mut all);
    quant::add(&mut all);
    peers::add(&mut all);
    upstream::add(&mut all);
    grid::add(&mut all);
    ranks::add(&mut all);
    large::add(&mut all);
    large_nn::add(&mut all);
    all.0
}

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
