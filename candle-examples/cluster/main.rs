//! Models on several GPUs and machines: prompts spread over the ranks of an MPI job, or a model split over them.

mod agree;
mod args;
mod data;
mod device;
mod items;
mod local;
mod model;
mod monitor;
mod pipeline;
mod results;
mod sequence;
mod share;
mod source;
mod stage;
mod stats;
mod tensor;
mod transfer;
mod wire;
mod world;

use agree::{agree, Report};
use anyhow::{bail, ensure, Result};
use args::{Args, Parallel, Task};
use candle_core::{DType, Device};
use candle_examples::device::{describe, memory_limits};
use clap::Parser;
use items::hash;
use local::Local;
use model::{Model, Parts};
use monitor::Monitor;
use mpi::Threading;
use results::Results;
use stage::Loaded;
use stats::{collect, with_ranks, Meter, Transfer};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use world::World;

fn main() -> ExitCode {
    let args = Args::parse();
    match start(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", explain(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes on one line. Some errors repeat their cause.
fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(|cause| cause.to_string()) {
        if !text.contains(&cause) {
            let colon = if text.is_empty() { "" } else { ": " };
            text += &format!("{colon}{cause}");
        }
    }
    text
}

/// Starts MPI, runs, and ends MPI in step with the other ranks.
fn start(args: &Args) -> Result<ExitCode> {
    let started = mpi::initialize_with_threading(Threading::Multiple);
    let Some((universe, threading)) = started else {
        bail!("MPI does not start");
    };
    ensure!(
        threading == Threading::Multiple,
        "this MPI library supports {threading:?} at most, not MPI_THREAD_MULTIPLE"
    );
    let world = Arc::new(World::new(universe.world())?);
    let monitor = Monitor::start(&world, Duration::from_secs(args.timeout));
    let ready = match catch_unwind(AssertUnwindSafe(|| prepare(args, &world))) {
        Ok(ready) => ready,
        Err(_) => fail(&world, &anyhow::anyhow!("a panic, see above")),
    };
    let code = match ready {
        Ok(ready) => {
            let done = catch_unwind(AssertUnwindSafe(|| run(args, &world, ready)));
            match done {
                Ok(Ok(())) => ExitCode::SUCCESS,
                // The other ranks wait for this one.
                Ok(Err(error)) => fail(&world, &error),
                Err(_) => fail(&world, &anyhow::anyhow!("a panic, see above")),
            }
        }
        // All ranks have the same error.
        Err(error) => {
            if world.rank == 0 {
                for line in error.to_string().lines() {
                    eprintln!("error: {line}");
                }
            }
            ExitCode::FAILURE
        }
    };
    world.barrier("ending");
    monitor.stop();
    Ok(code)
}

/// Ends all ranks with an error that names this one.
fn fail(world: &World, error: &anyhow::Error) -> ! {
    let name = world.name(world.rank);
    eprintln!("error: {name}: {}", explain(error));
    world.abort()
}

/// What a rank has when all ranks agree to begin.
struct Ready {
    device: Device,
    /// None where nothing but transfers is measured.
    model: Option<Model>,
    /// Of the modes that split a model.
    parts: Option<Parts>,
    reports: Vec<Report>,
}

/// Opens the device and the model's files, and compares notes with the other ranks. The same error on all ranks.
fn prepare(args: &Args, world: &World) -> Result<Ready> {
    let mut report = Report::new(args.common());
    let model = locate(args, world);
    let opened = model.and_then(|model| open(args, world, model, &mut report));
    report.error = opened.as_ref().err().map(explain);
    let reports = agree(world, &report)?;
    let (device, model, parts) = opened?;
    Ok(Ready {
        device,
        model,
        parts,
        reports,
    })
}

/// Finds the model's files. The first rank of a node downloads missing ones before the others look for them. None where nothing but
/// transfers is measured.
fn locate(args: &Args, world: &World) -> Result<Option<Model>> {
    world.progress.long("finding the model");
    let find = || {
        if args.measure_transfer {
            return Ok(None);
        }
        ensure!(
            args.task == Task::Generate || args.parallel == Parallel::Data,
            "a BERT is not split: use --parallel data"
        );
        Model::locate(args).map(Some)
    };
    let first = (world.local.0 == 0).then(find);
    world.barrier("waiting for downloads");
    first.unwrap_or_else(find)
}

fn open(
    args: &Args,
    world: &World,
    model: Option<Model>,
    report: &mut Report,
) -> Result<(Device, Option<Model>, Option<Parts>)> {
    world.progress.tick("opening the device");
    let device = device::open(&args.device, world)?;
    report.device = describe(&device).to_string();
    report.memory = memory_limits(&device).and_then(|(_, free)| free);
    let Some(model) = model else {
        return Ok((device, None, None));
    };
    world.progress.tick("opening the model");
    report.model = model.fingerprint()?;
    let parts = match args.parallel {
        Parallel::Data => None,
        Parallel::Pipeline | Parallel::Tensor => Some(Parts::open(&model, args.dtype, &device)?),
    };
    if let Some(parts) = &parts {
        report.dtype = wire::dtype(parts.dtype, args.wire_f16).as_str().to_string();
    }
    world.progress.tick("opened");
    Ok((device, Some(model), parts))
}

fn run(args: &Args, world: &World, ready: Ready) -> Result<()> {
    let Ready {
        device,
        model,
        parts,
        reports,
    } = ready;
    let name = reports[world.rank].device.clone();
    let Some(model) = model else {
        return transfer::run(world, &device, &name);
    };
    // What decides results; another job's rows do not count for this one.
    let job = hash(&[
        &reports[0].model.to_le_bytes(),
        args.tokens.to_string().as_bytes(),
        format!("{:?} {:?} {}", args.task, args.dtype, args.wire_f16).as_bytes(),
        format!("{} {}", args.parallel == Parallel::Tensor, args.logits).as_bytes(),
    ]);
    let items = |vocab: usize| items::read(args, vocab, job);
    let open_results = |vocab: usize| match args.bench && args.output.is_none() {
        true => Ok(Results::counted(items(vocab)?)),
        false => Results::open(items(vocab)?, args.output.as_deref(), args.resume),
    };
    let leads = world.rank == 0;
    // Before what is measured, the same once more: devices compile kernels when they first run.
    let warmup = |vocab: usize| {
        let items = leads.then(|| items(vocab)).transpose()?;
        anyhow::Ok(items.map(Results::counted))
    };
    let Some(parts) = parts else {
        let vocab = args.shape.map_or(0, |shape| shape.config().vocab_size);
        let results = leads.then(|| open_results(vocab)).transpose()?;
        // candle-transformers loads a whole model in one step.
        world.progress.long("loading");
        let tick = || world.progress.long("loading");
        let mut local = Local::load(&model, args, &device, &tick)?;
        if args.bench {
            data::run(world, args, warmup(vocab)?, &mut local, (&device, &name))?;
        }
        let line = data::run(world, args, results, &mut local, (&device, &name))?;
        return print(args, line);
    };
    let vocab = parts.config.vocab_size;
    let results = leads.then(|| open_results(vocab)).transpose()?;
    let memory: Vec<_> = reports.iter().map(|report| report.memory).collect();
    let wire = wire::dtype(parts.dtype, args.wire_f16);
    let loaded = stage::load(parts, args, world, &memory, &device)?;
    if args.bench {
        split(args, world, &loaded, wire, warmup(vocab)?)?;
    }
    let (line, transfer) = split(args, world, &loaded, wire, results)?;
    let layers = (loaded.layers.start, loaded.layers.end);
    let ranks = collect(world, &transfer.stats(world, name, (layers, loaded.part)))?;
    let line = line.map(|mut line| {
        line["dtype"] = loaded.dtype.as_str().into();
        with_ranks(line, &ranks)
    });
    print(args, line.transpose()?)
}

/// One run of a mode that splits the model; `results` on rank 0 only, which gets the line for `--bench`.
fn split(
    args: &Args,
    world: &World,
    loaded: &Loaded,
    wire: DType,
    mut results: Option<Results>,
) -> Result<(Option<serde_json::Value>, Transfer)> {
    world.barrier("starting");
    let slots = stage::in_flight(args, world);
    let mut meter = match &results {
        Some(results) => Meter::new(results.count(), results.items().len()),
        None => Meter::new(0, 0),
    };
    let mut job = results.as_mut().map(|results| pipeline::Job {
        queue: results.missing().into(),
        results,
        meter: &mut meter,
    });
    let transfer = match args.parallel {
        Parallel::Tensor => tensor::run(world, args, loaded, wire, job.as_mut())?,
        _ => pipeline::run(world, args, loaded, (slots, wire), job.as_mut())?,
    };
    let line = results.is_some().then(|| meter.line(args, slots));
    meter.clear();
    if let Some(results) = results {
        results.finish()?;
    }
    Ok((line, transfer))
}

/// Prints the figures of a run if they are asked for.
fn print(args: &Args, line: Option<serde_json::Value>) -> Result<()> {
    if let Some(line) = line.filter(|_| args.bench) {
        candle_examples::exit::write(&format!("{line}\n"))?;
    }
    Ok(())
}
