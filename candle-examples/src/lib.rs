//! What the examples share: choosing a device, finding and checking model files, tokenizers, and the generation loop.
//!
//! The models themselves come unmodified from candle-transformers; nothing here touches a GPU API. A browser (web/) takes
//! the part that knows neither files nor the network.

#[cfg(not(target_arch = "wasm32"))]
pub mod archive;
#[cfg(not(target_arch = "wasm32"))]
pub mod bundle;
#[cfg(not(target_arch = "wasm32"))]
pub mod catalogue;
#[cfg(not(target_arch = "wasm32"))]
pub mod checkpoint;
pub mod conversation;
#[cfg(not(target_arch = "wasm32"))]
pub mod device;
pub mod error;
#[cfg(not(target_arch = "wasm32"))]
pub mod exit;
#[cfg(not(target_arch = "wasm32"))]
pub mod fetch;
#[cfg(not(target_arch = "wasm32"))]
pub mod files;
pub mod generate;
pub mod gguf;
#[cfg(not(target_arch = "wasm32"))]
pub mod hub;
pub mod llama2c;
pub mod model;
#[cfg(not(target_arch = "wasm32"))]
pub mod package;
#[cfg(not(target_arch = "wasm32"))]
pub mod progress;
#[cfg(not(target_arch = "wasm32"))]
pub mod random;
#[cfg(not(target_arch = "wasm32"))]
pub mod spread;
pub mod template;
pub mod tokenizer;

/// Ops are recorded by one thread and let go of by others. With glibc's allocator a seventh of the caller's time of decoding a token
/// went to that (NVIDIA H200), with this one a tenth.
#[cfg(not(target_arch = "wasm32"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use error::{Error, Result};
