//! Every op, dtype and layout on the device against the CPU: one named test per case.
//!
//!     cargo test -p candle-webgpu-tests --test conformance [-- FILTER]
//!
//! The environment chooses the device: `CANDLE_WEBGPU_ADAPTER` names an adapter, `CANDLE_WEBGPU_CHECKED=1` turns the
//! runtime checks of shaders on, `CANDLE_WEBGPU_DISABLE=subgroups,f16` forces the portable kernels.
//! `CANDLE_WEBGPU_TEST_VARIANT=checked` or `portable` does so for the cases that it affects; `split` limits binding
//! ranges to 64 KiB. Without a variant, fusion rules are checked, too (`rules.rs`). `CANDLE_WEBGPU_TEST_EVERY=37` runs
//! one of 37 cases of each group.

#[path = "../known.rs"]
mod known;
mod rules;
mod sample;
#[path = "mod.rs"]
mod suite;
mod variant;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::Device;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use suite::*;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // The device is shared: with more threads, a software adapter's workers only wait for one another.
    args.test_threads = args.test_threads.or(Some(2));
    let opened = || Ok((variant::chosen()?, sample::every()?, Device::new_webgpu(0)?));
    let (variant, every, device) = match opened() {
        Ok(opened) => opened,
        Err::<_, anyhow::Error>(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let adapter = match device.as_webgpu_device() {
        Ok(d) => {
            if let (None, Err(error)) = (variant, d.runtime().rewrite_by(&rules::usual())) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
            d.adapter().name.clone()
        }
        Err(_) => String::new(),
    };
    if !args.list {
        println!("adapter: {adapter}");
    }
    let known = Arc::new(AtomicUsize::new(0));
    let tally = Arc::new(Mutex::new(rules::Tally::default()));
    let mut cases = cases();
    sample::thin(&mut cases, every);
    let trials = cases
        .into_iter()
        .filter(|case| variant.is_none_or(|v| (v.keeps)(&case.name)))
        .map(|case| {
            let name = case.name.clone();
            let reason = known::reason(&adapter, &name);
            let (device, known, tally) = (device.clone(), known.clone(), tally.clone());
            let run = move || match variant {
                None => rules::run(&case, &device, &tally),
                Some(_) => case.run(&device),
            };
            Trial::ignorable_test(name, move || match (run(), reason) {
                (Ok(()), None) => Ok(Completion::Completed),
                (Err(_), Some(reason)) => {
                    known.fetch_add(1, Ordering::Relaxed);
                    Ok(Completion::ignored_with(format!("known failure: {reason}")))
                }
                (Ok(()), Some(_)) => Err(Failed::from(
                    "passes now: take it from the list in tests/known.rs",
                )),
                (Err(e), None) => Err(Failed::from(format!("{e:#}"))),
            })
        })
        .collect();
    let whole = args.filter.is_none() && args.skip.is_empty() && variant.is_none() && every == 1;
    let conclusion = libtest_mimic::run(&args, trials);
    if args.list {
        return conclusion.exit_code();
    }
    println!("known failures: {}", known.load(Ordering::Relaxed));
    if variant.is_some() {
        return conclusion.exit_code();
    }
    let tally = tally.lock().unwrap_or_else(|e| e.into_inner());
    tally.print();
    let lacking = tally.lacking(&device).unwrap_or_default();
    if whole && !lacking.is_empty() {
        println!("no case for the rules {}", lacking.join(", "));
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
