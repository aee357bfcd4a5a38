//! `Device::profile` and `Device::stopwatch`: GPU times of kernels and submits, from timestamp queries.

use std::time::Duration;

use crate::debug::profile::{Grain, Timed, Timer, Timing, TICKS};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::executor::wait::until;
use crate::executor::Executor;
use crate::util::block::{block_on, may_block, Call};
use crate::util::lock;
use crate::util::ready::Ready;

const FINISH: Call = ("Profile::finish", "Profile::finish_async");

/// Times every dispatch of a device until dropped. While it exists, kernels do not overlap, and dispatches take more host time.
#[must_use = "profiling ends on drop"]
pub struct Profile {
    device: Device,
}

/// Times every submit of a device, from its first dispatch to its last, until dropped. Does not change how the GPU executes kernels.
#[must_use = "timing ends on drop"]
pub struct Stopwatch(Profile);

impl Device {
    /// Starts to time each dispatch. An error if the adapter has no timestamps or another profile or stopwatch is running.
    pub fn profile(&self) -> Result<Profile> {
        self.timing("profile", Grain::Op)
    }

    /// Starts to time each submit. An error if the adapter has no timestamps or another profile or stopwatch is running.
    pub fn stopwatch(&self) -> Result<Stopwatch> {
        self.timing("stopwatch", Grain::Submit).map(Stopwatch)
    }

    fn timing(&self, op: &'static str, grain: Grain) -> Result<Profile> {
        let executor = self.executor();
        let refused = |message: &str| Error::Invalid {
            op,
            message: format!("{message} ({})", self.adapter().name),
        };
        if !self.features.contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(refused("the adapter has no timestamps"));
        }
        self.submit_recorded()?;
        let mut encoder = lock(&executor.encoder);
        if encoder.timer.is_some() {
            return Err(refused("another profile or stopwatch is running"));
        }
        encoder.timer = Some(Timer::new(grain));
        Ok(Profile {
            device: self.clone(),
        })
    }
}

impl Stopwatch {
    /// Waits for everything recorded so far. Returns the GPU time of its submits, without the gaps between them.
    pub fn finish(self) -> Result<Duration> {
        let submits = self.0.finish()?;
        Ok(Duration::from_nanos(
            submits.iter().map(|s| s.duration).sum(),
        ))
    }
}

impl Profile {
    /// Waits for everything recorded so far. Returns its dispatches in execution order.
    pub fn finish(self) -> Result<Vec<Timing>> {
        may_block(FINISH)?;
        block_on(self.finish_async(), FINISH)?
    }

    /// [`Profile::finish`] without blocking.
    pub async fn finish_async(self) -> Result<Vec<Timing>> {
        let executor = self.device.executor();
        self.device.submit_recorded()?;
        let timer = lock(&executor.encoder).timer.take();
        let period = f64::from(executor.queue.get_timestamp_period());
        let mut timings = Vec::new();
        let mut first = None;
        for timed in timer.into_iter().flat_map(|timer| timer.timed) {
            if timed.ops.is_empty() {
                continue;
            }
            let ticks = read(executor, &timed).await?;
            for ((kernel, workgroups), ticks) in timed.ops.into_iter().zip(ticks.chunks(2)) {
                let nanoseconds =
                    |from: u64, to: u64| (to.saturating_sub(from) as f64 * period) as u64;
                let first = *first.get_or_insert(ticks[0]);
                timings.push(Timing {
                    kernel,
                    workgroups,
                    begin: nanoseconds(first, ticks[0]),
                    duration: nanoseconds(ticks[0], ticks[1]),
                });
            }
        }
        Ok(timings)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        lock(&self.device.executor().encoder).timer = None;
    }
}

async fn read(executor: &Executor, timed: &Timed) -> Result<Vec<u64>> {
    let count = 2 * timed.ops.len() as u32;
    let (ticks, index) = executor.resolve_timestamps(&timed.queries, count);
    let (ready, done) = Ready::new();
    done.set_index(Some(index));
    let slice = ticks.slice(..);
    slice.map_async(wgpu::MapMode::Read, move |result| {
        done.finish(result.is_ok())
    });
    if !until(executor, ready).await {
        return Err(executor.unread("timestamps could not be mapped"));
    }
    let data = slice
        .get_mapped_range()
        .map_err(|e| executor.unread(&e.to_string()))?;
    Ok(data
        .chunks_exact(TICKS as usize)
        .map(bytemuck::pod_read_unaligned)
        .collect())
}
