//! Times candle-transformers' LLaMA on a device, with random weights of a named shape.

mod beside;
mod check;
mod measure;
mod report;

use anyhow::Context as _;
use beside::Program;
use candle_core::{DType, Device};
use candle_examples::device::{describe, fired, DeviceArgs, Fired, Precision};
use candle_examples::exit;
use candle_examples::gguf::Gguf;
use candle_examples::memory::usage;
use candle_examples::profile;
use candle_examples::random::{self, llama, weights, Preset, Quant, Requested};
use candle_examples::warm_up::warm_up;
use check::Reference;
use clap::Parser;
use measure::{Bench, Pass, Sample};
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Times prefill and decode of a LLaMA model with random weights.
///
/// Prefill is one forward pass over --prefill tokens of each sequence. Decode is a real greedy loop after a prompt of --context tokens:
/// the next token of each sequence is sampled, read back and fed to the next pass. With --sample ahead, the next pass takes it on the
/// device, and its id is read back while that pass is recorded.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Architecture of the model; its context is extended if necessary
    #[arg(long, default_value = "tinyllama-1.1b", value_parser = random::shape())]
    shape: &'static Preset,

    /// Measure the model of a GGUF file instead
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["shape", "dtype", "quant"])]
    model: Option<PathBuf>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Dtype of weights and activations
    #[arg(long, value_enum, default_value = "f32")]
    dtype: Precision,

    /// Quantize the weights, for example to q4_0 or q6_k; activations are then f32
    #[arg(long, value_parser = random::quant(), conflicts_with = "dtype")]
    quant: Option<&'static Quant>,

    /// Tokens of the prefill pass; 0 skips it
    #[arg(long, default_value_t = 512)]
    prefill: usize,

    /// Tokens to decode; 0 skips decode
    #[arg(long, default_value_t = 128)]
    decode: usize,

    /// Prompt tokens before the decoded ones; several are measured in turn: 128,2048
    #[arg(long, value_delimiter = ',', default_value = "128")]
    context: Vec<usize>,

    /// Sequences that are run together; several counts are measured in turn: 1,8,32
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = sequences)]
    batch: Vec<usize>,

    /// Where argmax runs
    #[arg(long, value_enum, default_value_t = Sample::Device)]
    sample: Sample,

    /// Measured runs; the median is reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    reps: u32,

    /// Warm-up runs before those, and more until half a second has passed since the first; 0 for none
    #[arg(long, default_value_t = 1)]
    warmup: u32,

    /// Print device counters per prefill and per decoded token
    #[arg(long)]
    stats: bool,

    /// Print the fusion rules and how often each fired per run
    #[arg(long)]
    explain: bool,

    /// Print the GPU's utilization, and the GPU time of each kernel in one pass, slowest first
    #[arg(long, conflicts_with = "json")]
    profile: bool,

    /// Write a trace of all dispatches to a file for chrome://tracing and ui.perfetto.dev: of the decoded tokens, or of the prefill if none
    /// are decoded
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    trace: Option<PathBuf>,

    /// Compare the logits of each pass, of the first decoded token if there is one, with those of the same weights in f32 on the CPU
    #[arg(long, conflicts_with = "model")]
    check: bool,

    /// Print only how long this process took to its first tokens. For a first run, set CANDLE_WEBGPU_CACHE to an empty folder; drivers may
    /// have their own shader caches
    #[arg(long, conflicts_with_all = ["stats", "explain", "profile", "check"])]
    startup: bool,

    /// Print one line of JSON per measurement instead of the table
    #[arg(long)]
    json: bool,

    /// Run this program with its other options and COMMAND in turn, and print the ratios of their speeds; may be repeated. COMMAND is a
    /// llama-bench with --json, such as an older or a CUDA build of this one, or llama.cpp's with `-o jsonl`
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["explain", "profile", "trace", "startup"])]
    beside: Vec<String>,

    /// How often --beside runs each program
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..), requires = "beside")]
    rounds: u32,
}

fn sequences(text: &str) -> Result<usize, String> {
    let count = text.parse().map_err(|e| format!("{e}"))?;
    match count {
        0 => Err("no sequence".into()),
        _ => Ok(count),
    }
}

fn main() -> ExitCode {
    exit::report(run(&Args::parse()))
}

/// The longest context of quantized_llama (0.11.1).
const QUANTIZED_CONTEXT: usize = 4096;

fn run(args: &Args) -> anyhow::Result<()> {
    if !args.beside.is_empty() {
        let mut programs = vec![Program::this()?];
        for line in &args.beside {
            programs.push(Program::parse(line)?);
        }
        return beside::run(&programs, args.rounds, args.json);
    }
    let context = args.context.iter().max().copied().unwrap_or(0);
    let longest = args.prefill.max(context + args.decode);
    let sequences = args.batch.iter().max().copied().unwrap_or(1);
    let file = args.model.as_deref().map(Gguf::open).transpose()?;
    let most = match (&file, args.quant) {
        (Some(file), _) => file.context()?,
        (None, Some(_)) => QUANTIZED_CONTEXT,
        (None, None) => usize::MAX,
    };
    anyhow::ensure!(
        longest <= most,
        "{longest} tokens: the model takes up to {most}"
    );
    let shape = args.shape.with_room(longest);
    anyhow::ensure!(
        args.decode == 0 || !args.context.contains(&0),
        "--context must be above 0"
    );
    anyhow::ensure!(
        sequences == 1 || args.quant.is_none() && file.is_none(),
        "--batch {sequences}: the models of GGUF files take one sequence at a time"
    );

    let start = Instant::now();
    let device = args.device.open()?;
    let opened = start.elapsed();
    let description = describe(&device);
    let dtype: DType = args.dtype.dtype();
    eprintln!("device: {description}");

    let start = Instant::now();
    let name = match &args.model {
        Some(path) => path.display().to_string(),
        None => shape.name.to_string(),
    };
    let vocab = file.as_ref().and_then(Gguf::vocabulary);
    let requested = args.check.then(Requested::default);
    let model = match (file, args.quant) {
        (Some(file), _) => {
            file.needs().check(file.path.display(), longest, &device)?;
            file.forward(&device)?
        }
        (None, Some(quant)) => llama::quantized(&shape, quant, &device, |needs| {
            needs.check(shape.name, longest, &device)
        })?,
        (None, None) => {
            let weights = match &requested {
                Some(requested) => requested.weights(dtype, &device),
                None => weights(dtype, &device),
            };
            llama::dense(&shape, weights, |needs| {
                needs.check(shape.name, longest * sequences, &device)
            })?
        }
    };
    device.synchronize()?;
    let made = start.elapsed();
    eprintln!(
        "weights of {name} ready in {:.1} s; {}",
        made.as_secs_f64(),
        usage(&device)
    );

    let mut bench = Bench {
        model,
        device,
        vocab: vocab.unwrap_or(shape.config().vocab_size),
        sample: args.sample,
    };
    let quant = args.quant;
    let reference = requested.map(|requested| {
        Reference::new(move || match quant {
            Some(quant) => llama::quantized(&shape, quant, &Device::Cpu, |_| anyhow::Ok(())),
            None => llama::dense(&shape, requested.on_cpu(), |_| anyhow::Ok(())),
        })
    });
    let report = Report {
        shape: name,
        description,
        dtype,
        quant: args.quant,
        sample: args.sample,
        json: args.json,
        stats: args.stats,
    };
    if args.startup {
        let (first, second) = bench.first_tokens(args.prefill.max(1))?;
        report.startup([opened, made, first, second], &bench.device);
        return Ok(());
    }
    report.head();
    for &batch in &args.batch {
        let prefill = (args.prefill > 0).then_some(Pass {
            batch,
            prompt: args.prefill,
            tokens: 0,
        });
        let decode = args.context.iter().map(|&prompt| Pass {
            batch,
            prompt,
            tokens: args.decode,
        });
        let decode = decode.filter(|pass| pass.tokens > 0);
        for pass in prefill.into_iter().chain(decode) {
            warm_up(args.warmup, || bench.run(pass).map(drop))?;
            let before = fired(&bench.device);
            let runs = (0..args.reps)
                .map(|_| bench.run(pass))
                .collect::<anyhow::Result<Vec<_>>>()?;
            report.row(pass, &runs);
            if let Some(reference) = &reference {
                report.logits(pass, reference.compare(&mut bench, pass)?);
            }
            explain(args, before, &bench.device);
            profile(args, &mut bench, pass)?;
        }
    }
    let Bench { model, device, .. } = bench;
    drop(model);
    device.synchronize()?;
    eprintln!("model dropped; {}", usage(&device));
    Ok(())
}

/// If requested, profiles one more pass with GPU timestamps.
fn profile(args: &Args, bench: &mut Bench, pass: Pass) -> anyhow::Result<()> {
    let last = pass.tokens > 0 || args.decode == 0;
    let trace = args.trace.as_ref().filter(|_| last);
    if !args.profile && trace.is_none() {
        return Ok(());
    }
    if args.profile {
        report::busy(bench.busy(pass)?, pass.steps());
    }
    let profile = bench.profile(pass)?;
    if args.profile {
        profile::print(&profile.kernels, pass.steps());
    }
    if let Some(path) = trace {
        let context = || path.display().to_string();
        std::fs::write(path, profile.trace).with_context(context)?;
    }
    Ok(())
}

/// Prints how often each rule fired per run since `before`.
fn explain(args: &Args, before: Vec<Fired>, device: &Device) {
    if !args.explain || args.json {
        return;
    }
    for (before, now) in before.into_iter().zip(fired(device)) {
        let per_run = (now.times - before.times) as f64 / f64::from(args.reps);
        let off = if now.on { "" } else { " (off)" };
        println!("  {:<10} {per_run:>8.1}  {}{off}", now.rule, now.about);
    }
}
