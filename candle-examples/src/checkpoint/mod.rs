//! LLaMA checkpoints in the transformers layout: config.json, *.safetensors (with or without an index), tokenizer.json.
//!
//! candle-transformers panics if a tensor is missing or has another shape, so all tensors are loaded and checked first.

mod config;
#[cfg(not(target_arch = "wasm32"))]
mod folder;
mod shards;

pub use config::{end_ids, needs, parse_config, tensors};
#[cfg(not(target_arch = "wasm32"))]
pub use folder::{ends, load, mapped, read_config, weights, Folder};
pub use shards::Shards;
