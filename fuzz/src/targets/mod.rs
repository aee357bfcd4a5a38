//! The code of each target. libFuzzer runs it on generated inputs, a test on the seeds.

pub mod draw;
pub mod gguf;
pub mod layouts;
pub mod llama2c;
pub mod safetensors;
pub mod tokenizer;

/// Findings are panics, inputs that exceed the fuzzer's memory limit, and slow inputs.
pub type Target = fn(&[u8]);

pub const TARGETS: &[(&str, Target)] = &[
    ("gguf", gguf::run),
    ("layouts", layouts::run),
    ("llama2c", llama2c::run),
    ("safetensors", safetensors::run),
    ("tokenizer", tokenizer::run),
];
