//! Times of kernels by the GPU's own clock. While a device is profiled each op is a pass of its own between two timestamps, and a
//! submit's timestamps are copied to where the host can read them.

use crate::buffer::lock;
use crate::device::{Device, Inner};
use crate::error::{Error, Result};
use crate::queue::{Op, MOST_OPS};
use crate::ready::Ready;
use crate::wait::{block_on, may_block, until, Call};

const FINISH: Call = ("Profile::finish", "Profile::finish_async");
/// Bytes of a timestamp.
const TICKS: u64 = 8;

/// A dispatch that was timed.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The label of its pipeline.
    pub kernel: String,
    pub workgroups: [u32; 3],
    /// Nanoseconds from the first dispatch that was timed to this one.
    pub begin: u64,
    /// How long it ran, in nanoseconds.
    pub duration: u64,
}

/// Times all dispatches of a device while it lives. Kernels do not overlap meanwhile, and a dispatch costs the host more.
#[must_use = "it ends when it is dropped"]
pub struct Profile {
    device: Device,
}

/// Timestamps of one submit.
struct Timed {
    ops: Vec<(String, [u32; 3])>,
    queries: wgpu::QuerySet,
    ticks: wgpu::Buffer,
}

/// What the encoder keeps while the device is profiled.
#[derive(Default)]
pub(crate) struct Timer(Vec<Timed>);

impl Timer {
    /// Timestamps for the ops of a submit.
    pub fn open(&mut self, device: &wgpu::Device) {
        // The pass behind the last op has some, too.
        let count = 2 * (MOST_OPS as u32 + 1);
        self.0.push(Timed {
            ops: Vec::new(),
            queries: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count,
            }),
            ticks: device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("profile"),
                size: u64::from(count) * TICKS,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            }),
        });
    }

    /// Where the pass of the next op writes its timestamps.
    pub fn writes(&self) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let timed = self.0.last()?;
        let at = 2 * timed.ops.len() as u32;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &timed.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        })
    }

    /// The pass went to this op.
    pub fn note(&mut self, op: &Op) {
        if let Some(timed) = self.0.last_mut() {
            timed.ops.push((op.spec.name(), op.grid));
        }
    }

    /// Behind the passes of a submit.
    pub fn close(&self, device: &wgpu::Device, commands: &mut wgpu::CommandEncoder) {
        let Some(timed) = self.0.last().filter(|timed| !timed.ops.is_empty()) else {
            return;
        };
        let count = 2 * timed.ops.len() as u32;
        let bytes = u64::from(count) * TICKS;
        let resolved = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("profile"),
            size: bytes,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        commands.resolve_query_set(&timed.queries, 0..count, &resolved, 0);
        commands.copy_buffer_to_buffer(&resolved, 0, &timed.ticks, 0, bytes);
    }
}

impl Device {
    /// Times all dispatches from now on. Needs timestamps of the adapter; one profile at a time.
    pub fn profile(&self) -> Result<Profile> {
        let inner = self.inner();
        let refused = |message: &str| Error::Invalid {
            op: "profile",
            message: format!("{message} ({})", inner.report.name),
        };
        if !inner.features.contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(refused("the adapter has no timestamps"));
        }
        inner.submit_recorded()?;
        let mut encoder = lock(&inner.encoder);
        if encoder.timer.is_some() {
            return Err(refused("the device is being profiled"));
        }
        encoder.timer = Some(Timer::default());
        Ok(Profile {
            device: self.clone(),
        })
    }
}

impl Profile {
    /// Waits for everything recorded so far. Gives its dispatches in the order in which they ran.
    pub fn finish(self) -> Result<Vec<Timing>> {
        may_block(FINISH)?;
        block_on(self.finish_async(), FINISH)?
    }

    /// The same without blocking.
    pub async fn finish_async(self) -> Result<Vec<Timing>> {
        let inner = self.device.inner();
        inner.submit_recorded()?;
        let timer = lock(&inner.encoder).timer.take().unwrap_or_default();
        let period = f64::from(inner.queue.get_timestamp_period());
        let mut timings = Vec::new();
        let mut first = None;
        for timed in timer.0.into_iter().filter(|timed| !timed.ops.is_empty()) {
            let ticks = read(inner, &timed).await?;
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
        lock(&self.device.inner().encoder).timer = None;
    }
}

async fn read(inner: &Inner, timed: &Timed) -> Result<Vec<u64>> {
    let ready = Ready::default();
    let done = ready.clone();
    let slice = timed.ticks.slice(..2 * timed.ops.len() as u64 * TICKS);
    slice.map_async(wgpu::MapMode::Read, move |result| {
        done.finish(result.is_ok())
    });
    let failed = |message: String| Error::Readback {
        adapter: inner.report.name.clone(),
        message,
    };
    if !until(&inner.device, None, ready).await {
        inner.check_lost()?;
        return Err(failed("timestamps could not be mapped".into()));
    }
    let data = slice
        .get_mapped_range()
        .map_err(|e| failed(e.to_string()))?;
    Ok(data
        .chunks_exact(TICKS as usize)
        .map(bytemuck::pod_read_unaligned)
        .collect())
}

#[cfg(test)]
mod tests {
    use crate::rewrite::testing::Bench;

    #[test]
    fn every_dispatch() {
        let b = Bench::new("-all");
        let x = b.floats(&[1000]);
        let before = b.map("uexp", &x);
        let Ok(profile) = b.device.profile() else {
            assert!(!b
                .device
                .features()
                .contains(wgpu::Features::TIMESTAMP_QUERY));
            return;
        };
        assert!(b.device.profile().is_err(), "one at a time");
        let all: Vec<_> = (0..200).map(|_| b.map("uneg", &before)).collect();
        let timings = profile.finish().expect("timings");
        assert_eq!(timings.len(), all.len());
        assert!(timings.iter().all(|t| t.kernel.starts_with("map.uneg")));
        assert!(timings.is_sorted_by_key(|t| t.begin));
        b.device.synchronize().expect("no error");
        drop(b.device.profile().expect("the one before is over"));
    }
}
