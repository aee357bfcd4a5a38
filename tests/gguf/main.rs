//! Quantized models of candle-transformers, from generated GGUF files, on the WebGPU device against the CPU.
//!
//!     cargo test -p candle-webgpu-tests --test gguf [-- FILTER]
//!
//! Each family has a file of random weights in each type. The CPU computes exact logits from a second file, with the
//! quantized tensors unpacked to f32. A test is named `check::family::type`:
//!
//! - `cpu`: the CPU's quantized run against the exact one, to bound its rounding of activations;
//! - `turns`: the CPU in several passes against the CPU in one, since a conversation has several;
//! - `webgpu`: the device, which keeps activations in f32, or in 15 bits for integer dot products, against the exact
//!   run and against the CPU's quantized one.

#[path = "../zoo/compare.rs"]
mod compare;
mod family;
mod file;
#[allow(dead_code)] // Only tests/dispatches counts.
#[path = "../zoo/passes.rs"]
mod passes;
#[path = "../zoo/values.rs"]
mod values;

use std::io::Cursor;
use std::process::ExitCode;

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use candle_examples::gguf::ARCHITECTURES;
use family::{Family, FAMILIES};
use libtest_mimic::{Arguments, Failed, Trial};

/// For sums in another order.
const EXACT: f32 = 1e-5;

/// Integer dot products round activations to 15 bits relative to the largest of a block: 256 times finer than the CPU's
/// rounding, so the bound is 1/256 of the one below.
const INTEGERS: f32 = ROUNDED / 256.;

/// The CPU rounds the activations of each matmul to 8 bits relative to the largest of a block, in steps of amax/127. A
/// matmul is then off by 0.5 to 0.7 % (blocks of 32 and 256 normal values), and two layers by at most 2.5 % here.
const ROUNDED: f32 = 5e-2;

/// The GGUF types that Candle reads, except Q8_1, which is for activations. It does not read Q8K.
#[rustfmt::skip]
const TYPES: &[(&str, GgmlDType, f32)] = &[
    ("f32",  GgmlDType::F32,  EXACT),
    ("f16",  GgmlDType::F16,  EXACT),
    ("bf16", GgmlDType::BF16, EXACT),
    ("q4_0", GgmlDType::Q4_0, ROUNDED),
    ("q4_1", GgmlDType::Q4_1, ROUNDED),
    ("q5_0", GgmlDType::Q5_0, ROUNDED),
    ("q5_1", GgmlDType::Q5_1, ROUNDED),
    ("q8_0", GgmlDType::Q8_0, ROUNDED),
    ("q2k",  GgmlDType::Q2K,  ROUNDED),
    ("q3k",  GgmlDType::Q3K,  ROUNDED),
    ("q4k",  GgmlDType::Q4K,  ROUNDED),
    ("q5k",  GgmlDType::Q5K,  ROUNDED),
    ("q6k",  GgmlDType::Q6K,  ROUNDED),
];

/// Passes of the model: ids, and the number of preceding ones. A prompt, decoding steps, a second prompt that extends
/// the cache, one more step; then another text, which resets the cache.
const PASSES: &[(&[u32], usize)] = &[
    (&[5, 60, 3, 17, 8, 9, 41], 0),
    (&[23], 7),
    (&[1], 8),
    (&[44, 2, 31], 9),
    (&[12], 12),
    (&[7, 7, 30, 2], 0),
    (&[66], 4),
];

/// The logits of each pass.
fn run(
    family: &Family,
    file: &[u8],
    passes: &[(&[u32], usize)],
    device: &Device,
) -> anyhow::Result<Vec<Tensor>> {
    let mut file = Cursor::new(file);
    let content = Content::read(&mut file)?;
    let architecture = ARCHITECTURES.iter().find(|a| a.name == family.architecture);
    let architecture = architecture.ok_or_else(|| anyhow::anyhow!(family.architecture))?;
    let mut forward = (architecture.load)(content, &mut file, device)?;
    let mut all = Vec::new();
    for (ids, at) in passes {
        let ids = Tensor::new(*ids, device)?.unsqueeze(0)?;
        all.push(forward(&ids, *at)?);
    }
    Ok(all)
}

/// Whether the CPU's own run can be compared with.
fn says(family: &Family, tolerance: f32) -> bool {
    family.steady || tolerance == EXACT
}

fn on_cpu(family: &Family, dtype: GgmlDType, tolerance: f32) -> anyhow::Result<()> {
    let files = file::pair(family, dtype)?;
    let exact = run(family, &files.exact, PASSES, &Device::Cpu)?;
    let quantized = run(family, &files.quantized, PASSES, &Device::Cpu)?;
    compare::outputs(&exact, &quantized, tolerance)
}

/// Up to the end of the first text.
fn in_one_pass(family: &Family) -> anyhow::Result<()> {
    let file = file::pair(family, GgmlDType::F32)?.exact;
    let first = PASSES.iter().skip(1).position(|(_, at)| *at == 0);
    let first = &PASSES[..1 + first.unwrap_or(PASSES.len() - 1)];
    let parts = run(family, &file, first, &Device::Cpu)?;
    let ids = first.iter().flat_map(|(ids, _)| *ids).copied();
    let ids: Vec<u32> = ids.collect();
    for ((part, at), logits) in first.iter().zip(parts) {
        let whole = run(family, &file, &[(&ids[..at + part.len()], 0)], &Device::Cpu)?;
        compare::outputs(&whole, &[logits], EXACT)?;
    }
    Ok(())
}

fn on_webgpu(
    family: &Family,
    dtype: GgmlDType,
    tolerance: f32,
    device: &Device,
) -> anyhow::Result<()> {
    let files = file::pair(family, dtype)?;
    let actual = run(family, &files.quantized, PASSES, device)?;
    let exact = run(family, &files.exact, PASSES, &Device::Cpu)?;
    let in_integers = device.as_webgpu_device()?.runtime().dot4();
    let rounded = if in_integers { INTEGERS } else { EXACT };
    compare::outputs(&exact, &actual, rounded)?;
    if !says(family, tolerance) {
        return Ok(());
    }
    let quantized = run(family, &files.quantized, PASSES, &Device::Cpu)?;
    compare::outputs(&quantized, &actual, tolerance)
}

fn trial(
    on: &str,
    family: &Family,
    dtype: &str,
    check: impl Fn() -> anyhow::Result<()> + Send + 'static,
) -> Trial {
    Trial::test(format!("{on}::{}::{dtype}", family.name), move || {
        check().map_err(|e| Failed::from(format!("{e:#}")))
    })
}

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // The device is shared: with more threads, a software adapter's workers only wait for one another.
    args.test_threads = args.test_threads.or(Some(1));
    let device = match Device::new_webgpu(0) {
        Ok(device) => device,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for family in FAMILIES {
        if family.divides {
            trials.push(trial("turns", family, "f32", move || in_one_pass(family)));
        }
        for &(name, dtype, tolerance) in TYPES {
            if says(family, tolerance) {
                let check = move || on_cpu(family, dtype, tolerance);
                trials.push(trial("cpu", family, name, check));
            }
            let device = device.clone();
            let check = move || on_webgpu(family, dtype, tolerance, &device);
            trials.push(trial("webgpu", family, name, check));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}
