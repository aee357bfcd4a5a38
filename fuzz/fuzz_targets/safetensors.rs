#![no_main]
//! A libFuzzer target: reading safetensors.

use candle_webgpu_fuzz::{init, run, targets::safetensors};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(safetensors::run, data));
