#![no_main]

use candle_webgpu_fuzz::{init, run, targets::safetensors};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(safetensors::run, data));
