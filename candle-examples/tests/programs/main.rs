//! The example programs from their command lines to their output. Tests that download a model are ignored by default.

#[cfg(feature = "webgpu")]
mod ahead;
mod bench;
mod bert;
mod chat;
mod device_map;
mod llama;
mod llama_bench;
mod model_bench;
mod tiny;
mod train;
#[cfg(feature = "webgpu")]
mod webgpu_info;
mod whisper;
