#![no_main]
//! A libFuzzer target: reading GGUF files.

use candle_webgpu_fuzz::{init, run, targets::gguf};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(gguf::run, data));
