//! Text from a LLaMA model whose layers are distributed over several devices.

mod load;
mod model;
mod place;

use candle_examples::device::{describe, Precision};
use candle_examples::exit::{self, write};
use candle_examples::files;
use candle_examples::generate::{sampling, Chooser, Options, Sequence, Writer};
use clap::Parser;
use place::Place;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Continues a prompt with a LLaMA model whose layers are distributed over several devices.
///
/// The first device has the embedding and the first layers, the last one the last layers and the output projection; hidden states pass from
/// one device to the next through the host. Decoding is greedy.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Devices:
  cpu        the processor
  webgpu     the best WebGPU adapter, or the one that CANDLE_WEBGPU_ADAPTER names
  webgpu:N   the adapter of this number (see webgpu-info); named twice, it is two devices on one adapter
  cuda:N, metal:N   with those features

Examples:
  device-map --devices webgpu:0,webgpu:1 \"Once upon a time\"
  device-map --devices webgpu,cpu --layers 5,1 \"Once upon a time\"
  device-map --model TinyLlama/TinyLlama-1.1B-Chat-v1.0 --devices webgpu:0,webgpu:0 --json \"The capital of France is\""
)]
struct Args {
    /// The text to continue
    #[arg(value_name = "PROMPT", default_value = "Once upon a time")]
    prompt: String,

    /// Devices, in the order of the layers
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "webgpu,cpu"
    )]
    devices: Vec<Place>,

    /// Number of layers per device [default: equal, the first devices one more]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    layers: Vec<usize>,

    /// stories15m, stories42m, stories110m, smollm2-135m, tinyllama-1.1b; a hub id (org/name); a folder; a llama2.c .bin
    #[arg(short, long, default_value = "stories15m")]
    model: String,

    /// tokenizer.json, or llama2.c's tokenizer.bin [default: next to the model]
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// Dtype of weights and activations [default: the checkpoint's; f32 if one device is the CPU]
    #[arg(long, value_enum)]
    dtype: Option<Precision>,

    /// Maximum tokens to generate; a full context ends the text earlier
    #[arg(short = 'n', long, default_value_t = 100)]
    tokens: usize,

    /// Print only one line of JSON, at the end
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let devices = place::open(&args.devices)?;
    let files = files::locate(&args.model, args.tokenizer.as_deref())?;
    let dtype = args.dtype.map(Precision::dtype);
    let mut loaded = load::load(&files, dtype, &devices, &args.layers)?;
    if !args.json {
        for part in &loaded.parts {
            let (from, to) = (part.layers.start, part.layers.end - 1);
            eprintln!("layers {from} to {to}: {}", describe(&part.device));
        }
    }
    let options = Options {
        tokens: args.tokens,
        sampling: sampling(0., None, None),
        seed: 0,
        repeat_penalty: 1.,
        repeat_last: 0,
    };
    let prompt = loaded.tokenizer.encode(&args.prompt)?;
    let mut writer = Writer {
        model: &mut loaded.model,
        tokenizer: &loaded.tokenizer,
        ends: &loaded.ends,
        context: loaded.context,
        device: &devices[0],
    };
    let show = |text: &str| match args.json || write(text).is_ok() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let _ = show(&args.prompt);
    let mut sequence = Sequence::default();
    let output = writer.extend(&mut sequence, prompt, &mut Chooser::new(&options), show)?;
    if args.json {
        let part = |part: &model::Part| {
            let (device, layers) = (describe(&part.device), &part.layers);
            serde_json::json!({
                "device": device.device,
                "adapter": device.adapter,
                "layers": [layers.start, layers.end],
            })
        };
        let line = serde_json::json!({
            "model": args.model,
            "dtype": loaded.dtype.as_str(),
            "parts": loaded.parts.iter().map(part).collect::<Vec<_>>(),
            "ids": output.ids,
            "text": output.text,
            "stop": output.stop,
            "decode_tok_s": output.decode_rate(),
        });
        writeln!(io::stdout(), "{line}")?;
        return Ok(());
    }
    write("\n")?;
    if let Some(rate) = output.decode_rate() {
        let (tokens, dtype) = (output.ids.len(), loaded.dtype);
        eprintln!("\n{tokens} tokens in {dtype:?}, {rate:.1} tok/s");
    }
    Ok(())
}
