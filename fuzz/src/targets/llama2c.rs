//! A llama2.c checkpoint: header, weights, and a forward pass.

use std::io::Cursor;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_examples::llama2c::Checkpoint;

pub fn run(data: &[u8]) {
    let (path, bytes) = (Path::new("model.bin"), data.len() as u64);
    let Ok(file) = Checkpoint::open(path, Cursor::new(data), bytes) else {
        return;
    };
    let Ok((model, mut cache)) = file.load(DType::F32, &Device::Cpu) else {
        return;
    };
    let ids = Tensor::new(&[[0u32, 1]], &Device::Cpu);
    let _ = ids.and_then(|ids| model.forward(&ids, 0, &mut cache));
}
