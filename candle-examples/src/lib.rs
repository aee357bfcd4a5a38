//! What the examples share: choosing a device, finding and checking model files, tokenizers, and the generation loop.
//!
//! The models themselves come unmodified from candle-transformers; nothing here touches a GPU API.

pub mod archive;
pub mod bundle;
pub mod catalogue;
pub mod checkpoint;
pub mod conversation;
pub mod device;
pub mod error;
pub mod exit;
pub mod fetch;
pub mod generate;
pub mod gguf;
pub mod hub;
pub mod llama2c;
pub mod model;
pub mod package;
pub mod progress;
pub mod random;
pub mod spread;
pub mod template;
pub mod tokenizer;

pub use error::{Error, Result};
