//! `--measure-transfer`: how long hidden states take from one device to another, step by step, between rank 0 and rank 1.

use crate::wire;
use crate::world::World;
use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_examples::exit::write;
use candle_examples::spread::Spread;
use std::time::Instant;

const PING: mpi::Tag = 8;
/// Elements of f16: a token of hidden sizes 4096 and 8192, and prompts of 64 and 1024 tokens.
const ELEMENTS: [usize; 4] = [4096, 8192, 64 * 4096, 1024 * 8192];
const REPEATS: usize = 30;
/// Runs that are not counted.
const WARM_UP: usize = 5;

/// Prints a line of JSON for each size.
pub fn run(world: &World, device: &Device, name: &str) -> Result<()> {
    ensure!(world.size >= 2, "a transfer needs at least 2 ranks");
    for elements in ELEMENTS {
        let x = Tensor::zeros((1, 1, elements), DType::F32, device)?.to_dtype(DType::F16)?;
        device.synchronize()?;
        let (mut read_back, mut there, mut upload) = (Vec::new(), Vec::new(), Vec::new());
        let mut staging = Vec::new();
        for repeat in 0..REPEATS + WARM_UP {
            // New values each time, so that the readback cannot be of an older one.
            let y = (&x + repeat as f64)?;
            device.synchronize()?;
            world.barrier("measuring");
            let take = |times: &mut Vec<f64>, since: Instant| {
                if repeat >= WARM_UP {
                    times.push(since.elapsed().as_secs_f64() * 1e6);
                }
            };
            let since = Instant::now();
            wire::with_bytes(&y, |bytes| {
                take(&mut read_back, since);
                let since = Instant::now();
                match world.rank {
                    0 => {
                        world.send(1, PING, bytes);
                        world.receive(Some(1), PING, &mut staging, "measuring");
                        take(&mut there, since);
                    }
                    1 => {
                        world.receive(Some(0), PING, &mut staging, "measuring");
                        world.send(0, PING, bytes);
                    }
                    _ => {}
                }
            })?;
            if world.rank < 2 {
                let since = Instant::now();
                let dtypes = (DType::F16, DType::F16);
                wire::tensor(&staging, dtypes, &[1, 1, elements], device)?;
                device.synchronize()?;
                take(&mut upload, since);
            }
        }
        if world.rank == 0 {
            let line = serde_json::json!({
                "bytes": 2 * elements,
                "device": name,
                "from": world.hosts[0],
                "to": world.hosts[1],
                "readback_us": Spread::of(read_back),
                // One way.
                "mpi_us": Spread::of(there.iter().map(|time| time / 2.)),
                "upload_us": Spread::of(upload),
            });
            write(&format!("{line}\n"))?;
        }
    }
    Ok(())
}
