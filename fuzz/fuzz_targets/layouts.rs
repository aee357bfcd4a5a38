#![no_main]
//! A libFuzzer target: kernels on layouts of every kind.

use candle_webgpu_fuzz::{init, run, targets::layouts};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(layouts::run, data));
