//! Memory runs out: a budget, and the adapter's own.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

use crate::{gpu, refused, works, Case};

const VAR: &str = candle_webgpu::MEMORY_VAR;
const BUDGET: u64 = 64 << 20;
/// Needs an adapter with its own memory: otherwise the whole machine would run out.
pub const FULL: &str = "memory/adapter_is_full";
const LIMITED: &[(&str, &str)] = &[(VAR, "64M")];

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "memory/device_goes_on",        vars: LIMITED,          run: device_goes_on },
    Case { name: "memory/dependents_fail",       vars: LIMITED,          run: dependents_fail },
    Case { name: "memory/pool_is_emptied",       vars: LIMITED,          run: pool_is_emptied },
    Case { name: "memory/finished_work_frees",   vars: LIMITED,          run: finished_work_frees },
    Case { name: "memory/dropped_is_returned",   vars: &[],              run: dropped_is_returned },
    Case { name: "memory/in_use_is_kept",        vars: &[],              run: in_use_is_kept },
    Case { name: "memory/cache_is_emptied",      vars: &[],              run: cache_is_emptied },
    Case { name: "memory/uploads",               vars: LIMITED,          run: uploads },
    Case { name: "memory/threads",               vars: LIMITED,          run: threads },
    Case { name: "memory/limit_negative",        vars: &[(VAR, "-1")],   run: bad_limit },
    Case { name: "memory/limit_word",            vars: &[(VAR, "much")], run: bad_limit },
    Case { name: "memory/limit_infinite",        vars: &[(VAR, "inf")],  run: bad_limit },
    Case { name: "memory/limit_of_nothing",      vars: &[(VAR, "0")],    run: no_room_at_all },
    Case { name: "memory/limit_empty",           vars: &[(VAR, "")],     run: no_limit },
    Case { name: FULL,                           vars: &[(VAR, "")],     run: adapter_is_full },
];

/// MiB of f32 ones.
fn ones(mib: usize, d: &Device) -> candle_core::Result<Tensor> {
    Tensor::ones(mib << 18, DType::F32, d)
}

/// Fills the budget with computed tensors of 8 MiB.
fn fill(d: &Device) -> Result<Vec<Tensor>> {
    let mut held = Vec::new();
    loop {
        let next = ones(8, d)?;
        if d.synchronize().is_err() {
            return Ok(held);
        }
        held.push(next);
        ensure!(held.len() < 9, "{} of 8 MiB in 64 MiB", held.len());
    }
}

fn device_goes_on() -> Result<()> {
    let d = &gpu()?;
    let live = Tensor::arange(0f32, 1e6, d)?;
    let held = fill(d)?;
    ensure!(held.len() >= 6, "only {} of 8 MiB in 64 MiB", held.len());
    let big = ones(32, d)?;
    let said = refused(
        d.synchronize(),
        &["out of memory", "33554432 bytes", "in use", "67108864"],
    )?;
    // A failed result stays failed for every caller, and says why.
    ensure!(refused(big.to_vec1::<f32>(), &["out of memory"])? == said);
    ensure!(refused(big.to_vec1::<f32>(), &["out of memory"])? == said);
    works(d)?;
    ensure!(live.to_vec1::<f32>()? == (0..1_000_000).map(|i| i as f32).collect::<Vec<_>>());
    for tensor in &held {
        ensure!(tensor.sum_all()?.to_scalar::<f32>()? == (8 << 18) as f32);
    }
    drop(held);
    let big = ones(32, d)?;
    ensure!(big.sum_all()?.to_scalar::<f32>()? == (32 << 18) as f32);
    let stats = d.as_webgpu_device()?.stats();
    ensure!(stats.peak_bytes <= BUDGET, "{stats:?}");
    Ok(())
}

fn dependents_fail() -> Result<()> {
    let d = &gpu()?;
    let cache = ones(8, d)?;
    let held = fill(d)?;
    let (big, small) = (ones(32, d)?, ones(1, d)?);
    // Recorded before the failure is known.
    let dependent = (big.narrow(0, 0, 100)? + 1.)?;
    let other = (small.narrow(0, 0, 100)? + 1.)?;
    let joined = Tensor::cat(&[&dependent, &other], 0)?;
    let sum = big.sum_all()?;
    cache.slice_set(&dependent, 0, 0)?;
    refused(d.synchronize(), &["out of memory"])?;
    for lost in [&dependent, &joined, &cache] {
        refused(lost.to_vec1::<f32>(), &["out of memory"])?;
    }
    refused(sum.to_scalar::<f32>(), &["out of memory"])?;
    // Recorded after it.
    let late = (&dependent * 2.)?;
    refused(late.to_vec1::<f32>(), &["out of memory"])?;
    ensure!(other.to_vec1::<f32>()? == [2.; 100]);
    drop(held);
    works(d)
}

/// Pooled blocks of other sizes are freed.
fn pool_is_emptied() -> Result<()> {
    let d = &gpu()?;
    for mib in [1, 2, 3, 5, 7, 11, 13] {
        let tensor = ones(mib, d)?;
        ensure!(tensor.sum_all()?.to_scalar::<f32>()? == (mib << 18) as f32);
    }
    let idle = d.as_webgpu_device()?.stats().allocated_bytes;
    ensure!(idle > 40 << 20, "{idle} bytes are held");
    let big = ones(48, d)?;
    ensure!(big.sum_all()?.to_scalar::<f32>()? == (48 << 18) as f32);
    let upload = Tensor::from_vec(vec![1f32; 10 << 18], 10 << 18, d);
    ensure!(upload?.sum_all()?.to_scalar::<f32>()? == (10 << 18) as f32);
    works(d)
}

fn allocated(d: &Device) -> Result<u64> {
    Ok(d.as_webgpu_device()?.stats().allocated_bytes)
}

/// The memory of a dropped model, uploaded or computed, is returned to the driver once other work has run, at the next readback or upload.
fn dropped_is_returned() -> Result<()> {
    let d = &gpu()?;
    let before = allocated(d)?;
    let model = (
        Tensor::from_vec(vec![1f32; 16 << 18], 16 << 18, d)?,
        ones(8, d)?,
    );
    d.synchronize()?;
    ensure!(allocated(d)? >= before + (24 << 20));
    // More batches than those after which memory is stale.
    for _ in 0..300 {
        works(d)?;
    }
    drop(model);
    works(d)?;
    let after = allocated(d)?;
    ensure!(after < before + (1 << 20), "{after} bytes, {before} before");
    Ok(())
}

/// Work that repeats keeps its memory, though most of it is idle between two steps.
fn in_use_is_kept() -> Result<()> {
    let d = &gpu()?;
    let step = || -> Result<u64> {
        let x = (ones(8, d)? + 1.)?;
        ensure!(x.sum_all()?.to_scalar::<f32>()? == (16 << 18) as f32);
        drop(x);
        d.synchronize()?;
        allocated(d)
    };
    step()?;
    let first = step()?;
    for _ in 0..300 {
        let now = step()?;
        ensure!(now == first, "{now} bytes, {first} at first");
    }
    Ok(())
}

fn cache_is_emptied() -> Result<()> {
    let d = &gpu()?;
    let before = allocated(d)?;
    let live = ones(8, d)?;
    drop((
        ones(16, d)?.exp()?,
        Tensor::from_vec(vec![1f32; 4 << 18], 4 << 18, d)?,
    ));
    d.as_webgpu_device()?.empty_cache()?;
    let after = allocated(d)?;
    ensure!(after < before + (9 << 20), "{after} bytes, {before} before");
    ensure!(live.sum_all()?.to_scalar::<f32>()? == (8 << 18) as f32);
    works(d)
}

/// More intermediate results in one batch than fit.
fn finished_work_frees() -> Result<()> {
    let d = &gpu()?;
    let x = ones(4, d)?;
    let mut sums = Vec::new();
    for i in 0..40 {
        // Each needs sizes that differ from those before.
        let part = x.narrow(0, 0, (1 << 20) - 4096 * i)?;
        let y = (part.exp()? + i as f64)?.sqr()?;
        sums.push((y.sum_all()? / y.elem_count() as f64)?);
    }
    for (i, sum) in sums.iter().enumerate() {
        let expected = (1f32.exp() + i as f32).powi(2);
        let got = sum.to_scalar::<f32>()?;
        ensure!((got / expected - 1.).abs() < 1e-4, "{got}, not {expected}");
    }
    works(d)
}

fn uploads() -> Result<()> {
    let d = &gpu()?;
    let too_much = vec![1f32; 65 << 18];
    refused(
        Tensor::from_slice(&too_much, too_much.len(), d),
        &["out of memory", "68157440 bytes", "67108864"],
    )?;
    works(d)?;
    // Recorded ops whose operands can be freed run first.
    let y = {
        let x = Tensor::from_slice(&too_much[..40 << 18], 40 << 18, d)?;
        x.sum_all()?
    };
    let x = Tensor::from_slice(&too_much[..50 << 18], 50 << 18, d)?;
    ensure!(y.to_scalar::<f32>()? == (40 << 18) as f32);
    ensure!(x.sum_all()?.to_scalar::<f32>()? == (50 << 18) as f32);
    works(d)
}

/// Some fail, but none give wrong numbers.
fn threads() -> Result<()> {
    let d = &gpu()?;
    let run = |n: usize| -> Result<(usize, usize)> {
        let (mut well, mut failed) = (0, 0);
        for round in 0..20 {
            let value = (n * 100 + round) as f64;
            let sum = (ones(5 + n, d)? * value)
                .and_then(|x| x.affine(1., 0.5))
                .and_then(|x| Tensor::stack(&[&x, &x, &x], 0))
                .and_then(|x| x.max(1))
                .and_then(|x| x.to_vec1::<f32>());
            match sum {
                Ok(max) => {
                    ensure!(max == [value as f32 + 0.5; 3], "{max:?}");
                    well += 1;
                }
                Err(error) => {
                    ensure!(error.to_string().contains("out of memory"), "{error}");
                    failed += 1;
                }
            }
        }
        Ok((well, failed))
    };
    let counts = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|n| scope.spawn(move || run(n))).collect();
        let joined = all.into_iter().map(|t| t.join());
        joined.collect::<std::thread::Result<Result<Vec<_>>>>()
    });
    let counts = counts.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    ensure!(counts.iter().any(|(well, _)| *well > 0), "{counts:?}");
    // The last error may be of an op whose result was not read.
    let _ = d.synchronize();
    works(d)
}

fn bad_limit() -> Result<()> {
    let value = std::env::var(VAR)?;
    refused(Device::new_webgpu(0), &[VAR, &value, "number of bytes"]).map(|_| ())
}

fn no_room_at_all() -> Result<()> {
    refused(Device::new_webgpu(0), &["out of memory"]).map(|_| ())
}

fn no_limit() -> Result<()> {
    works(&gpu()?)
}

/// Takes all of the adapter's memory, without a budget.
fn adapter_is_full() -> Result<()> {
    const EACH: usize = 1024;
    let d = &gpu()?;
    let kind = &d.as_webgpu_device()?.adapter().kind;
    ensure!(kind == "discrete", "memory that is the host's: {kind}");
    let live = Tensor::arange(0f32, 1e6, d)?;
    let mut held = Vec::new();
    let error = loop {
        let next = ones(EACH, d)?;
        match d.synchronize() {
            Ok(()) => held.push(next),
            Err(error) => break error.to_string(),
        }
        ensure!(held.len() < 1024, "a TiB without an error");
    };
    eprintln!("{} GiB, then: {error}", held.len());
    for part in ["out of memory", "1073741824 bytes", "in use"] {
        ensure!(error.contains(part), "{error:?} does not say {part:?}");
    }
    // The device continues, and live tensors keep their numbers.
    works(d)?;
    ensure!(live.to_vec1::<f32>()? == (0..1_000_000).map(|i| i as f32).collect::<Vec<_>>());
    for tensor in &held {
        let rows = tensor.reshape((EACH, 1 << 18))?.sum(1)?;
        ensure!(rows.to_vec1::<f32>()? == vec![(1 << 18) as f32; EACH]);
    }
    let count = held.len();
    held.truncate(count / 2);
    for _ in held.len()..count - 1 {
        held.push(ones(EACH, d)?);
        d.synchronize()?;
    }
    drop(held);
    works(d)
}
