#![no_main]
//! A libFuzzer target: reading tokenizers.

use candle_webgpu_fuzz::{init, run, targets::tokenizer};

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| run(tokenizer::run, data));
