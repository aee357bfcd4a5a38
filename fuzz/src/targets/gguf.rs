//! A GGUF file: metadata, tokenizer, chat template, weights, and a forward pass if the model is small.

use std::io::Cursor;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use candle_core::Device;
use candle_examples::generate::Causal;
use candle_examples::gguf::Gguf;
use candle_examples::tokenizer::Tokenizer;

/// Models with more positions do not run, since their caches may be too large.
const CONTEXT: usize = 4096;

pub fn run(data: &[u8]) {
    let Ok(file) = Gguf::read(Path::new("model.gguf"), Cursor::new(data.to_vec())) else {
        return;
    };
    let Ok(tokenizer) = Tokenizer::from_gguf(&file) else {
        return;
    };
    if let Ok(ids) = tokenizer.encode("Once upon a time, 12 \u{e9}") {
        // Decoding must not panic, whatever the ids mean.
        let _ = tokenizer.decode(&ids);
    }
    let _ = file.template(&tokenizer, None);
    let device = Device::Cpu;
    if let Ok(mut loaded) = file.load(tokenizer, &device) {
        if loaded.context <= CONTEXT {
            // Candle's CPU matmuls panic on some row lengths. That is no fault of the loader.
            let pass = || loaded.network.forward(&[0, 1], 0, &device);
            let _ = catch_unwind(AssertUnwindSafe(pass));
        }
    }
}
