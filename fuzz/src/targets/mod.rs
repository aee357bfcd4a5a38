//! What each target does with an input, whoever made it: libFuzzer, or a test that goes through the seeds.

pub mod draw;
pub mod gguf;
pub mod layouts;
pub mod llama2c;
pub mod safetensors;
pub mod tokenizer;

/// A panic is a finding; so is memory beyond the fuzzer's limit, and an input that takes long.
pub type Target = fn(&[u8]);

pub const TARGETS: &[(&str, Target)] = &[
    ("gguf", gguf::run),
    ("layouts", layouts::run),
    ("llama2c", llama2c::run),
    ("safetensors", safetensors::run),
    ("tokenizer", tokenizer::run),
];
