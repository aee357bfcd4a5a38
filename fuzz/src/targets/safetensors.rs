//! A checkpoint folder. The input is the length of config.json (two bytes), config.json and model.safetensors.

use candle_core::{DType, Device, Tensor};
use candle_examples::checkpoint::{self, Folder};

pub fn run(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (config, weights) = rest.split_at(length);
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    for (name, bytes) in [("config.json", config), ("model.safetensors", weights)] {
        std::fs::write(dir.path().join(name), bytes).expect("room for temporary files");
    }
    let folder = Folder::open(dir.path()).expect("it has a config.json");
    let _ = checkpoint::ends(&folder);
    let Ok((config, _)) = checkpoint::read_config(&folder.config) else {
        return;
    };
    let loaded = checkpoint::load(&folder, &config, DType::F32, &Device::Cpu);
    if let Ok((model, mut cache)) = loaded {
        let ids = Tensor::new(&[[0u32, 1]], &Device::Cpu);
        let _ = ids.and_then(|ids| model.forward(&ids, 0, &mut cache));
    }
}
