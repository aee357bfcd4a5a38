//! The command line.

use candle_examples::device::{DeviceArgs, Precision};
use candle_examples::random::{self, Preset, Quant};
use clap::{Parser, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    /// Each rank has the whole model and takes prompts as it becomes free.
    Data,
    /// Each rank has consecutive layers; several sequences are on their way at once.
    Pipeline,
    /// Each rank has a part of every layer; all ranks work on the same token.
    Tensor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Continue prompts with a LLaMA.
    Generate,
    /// Embed texts with a BERT; with `--parallel data` only.
    Embed,
}

/// Runs a model on many prompts, spread over the ranks of an MPI job.
///
/// Prompts come from a JSONL file, one object per line with `prompt` or `text`, and `id` if it has one, or from the command line.
/// Decoding is greedy. Results are lines of JSON in the order of the input.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  mpirun -n 2 cluster --parallel data --input prompts.jsonl --output results.jsonl
  mpirun -n 2 cluster --parallel data --task embed --input texts.jsonl --output vectors.jsonl
  mpirun -n 4 --hostfile hosts cluster --parallel pipeline --model llama-70b.gguf --input prompts.jsonl --output results.jsonl
  mpirun -n 2 cluster --parallel tensor --model ./Llama-3.1-8B \"The capital of France is\"
  mpirun -n 2 cluster --parallel pipeline --bench --shape llama-3.1-8b --quant q4_0"
)]
pub struct Args {
    /// Prompts, if there is no --input
    #[arg(value_name = "PROMPT", conflicts_with = "input")]
    pub prompts: Vec<String>,

    /// How the work is spread
    #[arg(long, value_enum, default_value = "data")]
    pub parallel: Parallel,

    /// What is done
    #[arg(long, value_enum, default_value = "generate")]
    pub task: Task,

    /// A model of the examples llama, chat (GGUF) or bert: a name, a hub id, a file or a folder [default: stories15m; all-minilm-l6-v2]
    #[arg(short, long)]
    pub model: Option<String>,

    /// tokenizer.json, or llama2.c's tokenizer.bin [default: that of the model]
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,

    /// JSONL file of prompts; only rank 0 reads it
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// File for the results; only rank 0 writes it [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Go on with an output file: rows that it has are not computed again
    #[arg(long, requires = "output")]
    pub resume: bool,

    #[command(flatten)]
    pub device: DeviceArgs,

    /// Dtype of weights and activations [default: the checkpoint's; f32 on the CPU]
    #[arg(long, value_enum)]
    pub dtype: Option<Precision>,

    /// Send f32 activations as f16: half the bytes, and results that may differ from one process's
    #[arg(long)]
    pub wire_f16: bool,

    /// Maximum tokens to generate; a full context ends the text earlier
    #[arg(short, long, default_value_t = 100)]
    pub tokens: usize,

    /// Texts that a rank embeds at once
    #[arg(long, default_value_t = 16, value_parser = positive)]
    pub batch: usize,

    /// Number of layers per rank [default: in proportion to device memory, or equal]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub layers: Vec<usize>,

    /// Sequences on their way through a pipeline at once [default: two per rank]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub in_flight: Option<usize>,

    /// Add the logits after the prompt to each result (pipeline and tensor)
    #[arg(long)]
    pub logits: bool,

    /// Seconds without progress of a rank after which all ranks end
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// Print a line of JSON with the speed; without prompts, on random tokens
    #[arg(long)]
    pub bench: bool,

    /// Random weights of an architecture; needs --bench
    #[arg(long, requires = "bench", conflicts_with = "model", value_parser = random::shape())]
    pub shape: Option<&'static Preset>,

    /// Quantization of random weights [default: none]
    #[arg(long, requires = "shape", value_parser = random::quant())]
    pub quant: Option<&'static Quant>,

    /// Number of random sequences
    #[arg(long, default_value_t = 8, value_parser = positive)]
    pub sequences: usize,

    /// Tokens of each random prompt
    #[arg(long, default_value_t = 128, value_parser = positive)]
    pub prompt_tokens: usize,

    /// Measure readback, MPI and upload of hidden states instead; needs at least 2 ranks
    #[arg(long)]
    pub measure_transfer: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("not a number of 1 or more".to_string()),
    }
}

impl Args {
    pub fn model(&self) -> &str {
        let default = match self.task {
            Task::Generate => "stories15m",
            Task::Embed => "all-minilm-l6-v2",
        };
        self.model.as_deref().unwrap_or(default)
    }

    /// What must be the same on all ranks, since it decides the results.
    pub fn common(&self) -> serde_json::Value {
        serde_json::json!({
            "parallel": self.parallel,
            "task": self.task,
            "dtype": self.dtype.map(|dtype| dtype.dtype().as_str()),
            "wire_f16": self.wire_f16,
            "tokens": self.tokens,
            "batch": self.batch,
            "layers": self.layers,
            "in_flight": self.in_flight,
            "logits": self.logits,
            "shape": self.shape.map(|shape| shape.name),
            "quant": self.quant.map(|quant| quant.name),
        })
    }
}
