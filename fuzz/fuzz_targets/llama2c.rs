#![no_main]
//! A libFuzzer target: reading llama2.c checkpoints.

use candle_webgpu_fuzz::{init, run, targets::llama2c};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(llama2c::run, data));
