//! Many threads, and two devices: each thread gets its own numbers, and nothing hangs.

use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{anyhow, ensure, Result};
use candle_core::{DType, Device, IndexOp, Tensor, WebGpuDevice};
use candle_webgpu::{inject_fault, Device as Runtime};

use crate::{gpu, refused, works, Case};

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "threads/ops",                 vars: &[], run: ops },
    Case { name: "threads/tensors_move",        vars: &[], run: tensors_move },
    Case { name: "threads/slices_of_one",       vars: &[], run: slices_of_one },
    Case { name: "threads/readbacks_at_once",   vars: &[], run: readbacks_at_once },
    Case { name: "threads/dropped_in_flight",   vars: &[], run: dropped_in_flight },
    Case { name: "threads/synchronize_at_once", vars: &[], run: synchronize_at_once },
    Case { name: "threads/two_devices",         vars: &[], run: two_devices },
    Case { name: "threads/one_of_two_is_lost",  vars: &[], run: one_of_two_is_lost },
    Case { name: "threads/none_is_left",        vars: &[], run: none_is_left },
];

/// The time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs `work` on `count` threads, with the index of each.
fn together(
    count: usize,
    work: impl Fn(usize) -> Result<()> + Clone + Send + 'static,
) -> Result<()> {
    let (done, results) = channel();
    for n in 0..count {
        let (done, work) = (done.clone(), work.clone());
        std::thread::spawn(move || done.send(work(n)));
    }
    drop(done);
    for _ in 0..count {
        let result = results.recv_timeout(PATIENCE);
        result.map_err(|e| anyhow!("a thread panicked or hangs: {e}"))??;
    }
    Ok(())
}

/// A mix of uploads, elementwise ops, matmuls, reductions, indexing and readbacks.
fn some_work(d: &Device, n: usize, round: usize) -> Result<()> {
    let size = 16 + 7 * n + round;
    let values: Vec<f32> = (0..size * 8).map(|i| (i + n) as f32 / 64.).collect();
    let x = Tensor::from_slice(&values, (size, 8), d)?;
    let ids = Tensor::new(&[(n % 8) as u32, 0, 7], d)?;
    let on = |x: &Tensor, ids: &Tensor| -> candle_core::Result<Vec<f32>> {
        let square = x.t()?.matmul(x)?;
        let picked = (square.index_select(ids, 0)? + 1.)?;
        let y = picked.broadcast_add(&x.i(0)?)?.sqrt()?;
        y.sum(1)?.to_vec1()
    };
    let got = on(&x, &ids)?;
    let cpu = &Device::Cpu;
    let expected = on(&x.to_device(cpu)?, &ids.to_device(cpu)?)?;
    for (a, b) in got.iter().zip(&expected) {
        ensure!((a - b).abs() <= 1e-4 * b.abs(), "{got:?}, not {expected:?}");
    }
    Ok(())
}

fn ops() -> Result<()> {
    let d = gpu()?;
    let device = d.clone();
    together(8, move |n| {
        (0..25).try_for_each(|round| some_work(&device, n, round))
    })?;
    works(&d)
}

/// A chain of threads; each changes the tensor that the one before sent.
fn tensors_move() -> Result<()> {
    let d = gpu()?;
    let (first, mut from) = channel::<Tensor>();
    for n in 0..6 {
        let (to, next) = channel();
        let inputs = std::mem::replace(&mut from, next);
        std::thread::spawn(move || -> Result<()> {
            for x in inputs {
                let y = (x + n as f64)?;
                // Some are read on the way.
                if n % 2 == 0 {
                    ensure!(y.to_vec1::<f32>()?.len() == 1000);
                }
                to.send(y.affine(2., 0.)?)?;
            }
            Ok(())
        });
    }
    for i in 0..40 {
        first.send(Tensor::full(i as f32, 1000, &d)?)?;
    }
    drop(first);
    for i in 0..40 {
        let got = from.recv_timeout(PATIENCE)?.to_vec1::<f32>()?;
        let expected = (0..6).fold(i as f32, |x, n| (x + n as f32) * 2.);
        ensure!(got == [expected; 1000], "{} not {expected}", got[0]);
    }
    works(&d)
}

/// Threads write parts of one tensor that share words.
fn slices_of_one() -> Result<()> {
    let d = gpu()?;
    const EACH: usize = 33;
    let whole = Tensor::zeros(8 * EACH, DType::U8, &d)?;
    let shared = whole.clone();
    together(8, move |n| {
        for round in 1..=20u8 {
            let part = Tensor::full(round * 8 + n as u8, EACH, shared.device())?;
            shared.slice_set(&part, 0, n * EACH)?;
        }
        Ok(())
    })?;
    let expected: Vec<u8> = (0..8).flat_map(|n| [160 + n as u8; EACH]).collect();
    ensure!(whole.to_vec1::<u8>()? == expected);
    Ok(())
}

/// Of one tensor and of several, blocking and async: huggingface/candle#3595.
fn readbacks_at_once() -> Result<()> {
    let d = gpu()?;
    let shared = Tensor::arange(0u32, 50_000, &d)?;
    let expected: Vec<u32> = (0..50_000).collect();
    let one = shared.clone();
    together(8, move |n| {
        for round in 0..20 {
            let own = one.i(n * 100..n * 100 + 64)?.contiguous()?;
            let (own, all) = match (n + round) % 2 {
                0 => (own.to_vec1::<u32>()?, one.to_vec1::<u32>()?),
                _ => pollster::block_on(async {
                    let all = one.to_vec1_async::<u32>();
                    candle_core::Result::Ok((own.to_vec1_async::<u32>().await?, all.await?))
                })?,
            };
            ensure!(all == expected && own == expected[n * 100..n * 100 + 64]);
        }
        Ok(())
    })?;
    works(&d)
}

fn dropped_in_flight() -> Result<()> {
    together(6, |n| {
        for round in 0..8 {
            let d = gpu()?;
            let mut x = Tensor::full(1f32, (64 + n, 64 + n), &d)?;
            for _ in 0..60 {
                x = (x.matmul(&x)? / (64 + n) as f64)?;
            }
            if round % 4 == 3 {
                ensure!(x.i((0, 0))?.to_scalar::<f32>()? == 1.);
            }
            // Tensors, unawaited readbacks and handles of the device are dropped at any time.
            drop(x.to_vec2_async::<f32>());
            drop(d);
            drop(x);
        }
        Ok(())
    })?;
    works(&gpu()?)
}

fn synchronize_at_once() -> Result<()> {
    let d = gpu()?;
    let device = d.clone();
    together(6, move |n| {
        for round in 0..20 {
            if n % 2 == 0 {
                device.synchronize()?;
            } else {
                some_work(&device, n, round)?;
            }
        }
        Ok(())
    })?;
    works(&d)
}

/// Two devices of one adapter.
fn pair() -> Result<[Device; 2]> {
    let other = WebGpuDevice::from(Runtime::separate(0)?);
    Ok([gpu()?, Device::WebGpu(other)])
}

fn two_devices() -> Result<()> {
    let both = pair()?;
    let [a, b] = &both;
    ensure!(!a.same_device(b));
    let (x, y) = (Tensor::new(&[1f32, 2.], a)?, Tensor::new(&[3f32, 4.], b)?);
    refused(x.add(&y), &["device mismatch"])?;
    let sum = (x.to_device(b)? + y)?;
    ensure!(sum.device().same_device(b));
    ensure!(sum.to_device(a)?.to_vec1::<f32>()? == [4., 6.]);
    let devices = both.clone();
    together(6, move |n| {
        for round in 0..15 {
            some_work(&devices[n % 2], n, round)?;
            let x = Tensor::full(n as f32, 500, &devices[n % 2])?;
            let moved = (x.to_device(&devices[1 - n % 2])? + 1.)?;
            ensure!(moved.to_vec1::<f32>()? == [n as f32 + 1.; 500]);
        }
        Ok(())
    })?;
    both.iter().try_for_each(works)
}

fn one_of_two_is_lost() -> Result<()> {
    let [a, b] = pair()?;
    let (x, y) = (Tensor::new(&[1f32], &a)?, Tensor::new(&[2f32], &b)?);
    inject_fault::destroy(b.as_webgpu_device()?.runtime());
    refused(y.to_vec1::<f32>(), &["lost"])?;
    refused(y.to_device(&a), &["lost"])?;
    refused(x.to_device(&b), &["lost"])?;
    ensure!(x.to_vec1::<f32>()? == [1.]);
    ensure!(gpu()?.same_device(&a));
    works(&a)
}

/// A device joins its threads when it is dropped, busy or not: a thread in the driver can crash a program that ends.
fn none_is_left() -> Result<()> {
    for round in 0..12 {
        let d = Device::WebGpu(WebGpuDevice::from(Runtime::separate(0)?));
        let mut x = Tensor::full(1f32, (64 + round, 64), &d)?;
        for _ in 0..10 * round {
            x = (x.sin()? + 1.)?;
        }
        match round % 3 {
            0 => d.synchronize()?,
            1 => inject_fault::destroy(d.as_webgpu_device()?.runtime()),
            _ => {}
        }
        drop(d);
        drop(x);
        let left = ours()?;
        ensure!(left.is_empty(), "round {round}: {left:?}");
    }
    Ok(())
}

/// The names of the backend's threads, if the system lists them.
fn ours() -> Result<Vec<String>> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for task in tasks {
        // A thread that has just ended has no name.
        let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        names.push(name.trim().to_string());
    }
    names.retain(|name| name.starts_with("candle-"));
    Ok(names)
}
