//! Times by the GPU's own clock, of each kernel or of each submit. Passes write timestamps, which are copied to where the host can
//! read them when the profile is finished.

use std::time::Duration;

use std::fmt::Write as _;

use crate::device::{Device, Inner};
use crate::error::{Error, Result};
use crate::executor::ready::Ready;
use crate::executor::wait::{block_on, may_block, until, Call};
use crate::recorder::op::Op;
use crate::recorder::queue::MOST_OPS;
use crate::util::lock;

const FINISH: Call = ("Profile::finish", "Profile::finish_async");
/// Bytes of a timestamp.
pub(crate) const TICKS: u64 = 8;
/// The most timestamps that WebGPU allows a query set.
const MOST_QUERIES: u32 = 4096;

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

/// The trace that chrome://tracing and ui.perfetto.dev show, as JSON: one complete event a dispatch, in microseconds.
pub fn chrome_trace(timings: &[Timing]) -> String {
    let mut text = String::from("{\"traceEvents\":[");
    for (i, timing) in timings.iter().enumerate() {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        // The label as a string of JSON.
        let name = timing.kernel.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(
            text,
            "{}\n{{\"name\":\"{name}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":0,\"tid\":0,\"args\":{{\"workgroups\":{:?}}}}}",
            if i > 0 { "," } else { "" },
            us(timing.begin),
            us(timing.duration),
            timing.workgroups,
        );
    }
    text.push_str("\n],\"displayTimeUnit\":\"ns\"}\n");
    text
}

/// Times all dispatches of a device while it lives. Kernels do not overlap meanwhile, and a dispatch costs the host more.
#[must_use = "it ends when it is dropped"]
pub struct Profile {
    device: Device,
}

/// Times what a device does while it lives, from the first dispatch of each submit to the end of its last: nothing runs otherwise
/// than it would without.
#[must_use = "it ends when it is dropped"]
pub struct Stopwatch(Profile);

/// What has its own pass between two timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    Op,
    Submit,
}

/// Timestamps, two for each pass.
struct Timed {
    queries: wgpu::QuerySet,
    /// The op of a pass, or the first of it.
    ops: Vec<(String, [u32; 3])>,
}

/// What the encoder keeps while the device is profiled.
pub(crate) struct Timer {
    grain: Grain,
    timed: Vec<Timed>,
    /// The pass of this submit, if it has only one, has an op.
    begun: bool,
}

impl Timer {
    fn new(grain: Grain) -> Self {
        Timer {
            grain,
            timed: Vec::new(),
            begun: false,
        }
    }

    /// Makes room for the timestamps of a submit.
    pub fn open(&mut self, device: &wgpu::Device) {
        self.begun = false;
        // The pass behind the last op has some, too.
        let passes = match self.grain {
            Grain::Op => MOST_OPS + 1,
            Grain::Submit => 1,
        };
        let room = MOST_QUERIES as usize / 2 - passes;
        if self.timed.last().is_some_and(|t| t.ops.len() <= room) {
            return;
        }
        self.timed.push(Timed {
            ops: Vec::new(),
            queries: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: MOST_QUERIES,
            }),
        });
    }

    /// Where the next pass writes its timestamps.
    pub fn writes(&self) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let timed = self.timed.last()?;
        let at = 2 * timed.ops.len() as u32;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &timed.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        })
    }

    /// The pass has this op; says whether it is over with it.
    pub fn note(&mut self, op: &Op) -> bool {
        let ends = self.grain == Grain::Op;
        if ends || !self.begun {
            self.begun = true;
            if let Some(timed) = self.timed.last_mut() {
                timed.ops.push((op.spec.name(), op.grid));
            }
        }
        ends
    }
}

impl Device {
    /// Times all dispatches from now on, each by itself. Needs timestamps of the adapter; one profile or stopwatch at a time.
    pub fn profile(&self) -> Result<Profile> {
        self.timing("profile", Grain::Op)
    }

    /// Times what is submitted from now on. Needs timestamps of the adapter; one profile or stopwatch at a time.
    pub fn stopwatch(&self) -> Result<Stopwatch> {
        self.timing("stopwatch", Grain::Submit).map(Stopwatch)
    }

    fn timing(&self, op: &'static str, grain: Grain) -> Result<Profile> {
        let inner = self.inner();
        let refused = |message: &str| Error::Invalid {
            op,
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
        encoder.timer = Some(Timer::new(grain));
        Ok(Profile {
            device: self.clone(),
        })
    }
}

impl Stopwatch {
    /// Waits for everything recorded so far. Gives the time that its submits took the GPU, without what was between them.
    pub fn finish(self) -> Result<Duration> {
        let submits = self.0.finish()?;
        Ok(Duration::from_nanos(
            submits.iter().map(|s| s.duration).sum(),
        ))
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
        let timer = lock(&inner.encoder).timer.take();
        let period = f64::from(inner.queue.get_timestamp_period());
        let mut timings = Vec::new();
        let mut first = None;
        for timed in timer.into_iter().flat_map(|timer| timer.timed) {
            if timed.ops.is_empty() {
                continue;
            }
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
    let ticks = inner.timestamps(&timed.queries, 2 * timed.ops.len() as u32);
    let ready = Ready::default();
    let done = ready.clone();
    let slice = ticks.slice(..);
    slice.map_async(wgpu::MapMode::Read, move |result| {
        done.finish(result.is_ok())
    });
    let failed = |message: String| Error::Readback {
        adapter: inner.report.name.clone(),
        message,
    };
    if !until(&inner.device, None, ready, inner.timeout).await {
        return Err(inner.cause(failed("timestamps could not be mapped".into())));
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
    use super::{chrome_trace, Timing};
    use crate::fusion::testing::Bench;

    #[test]
    fn traces() {
        let timing = |kernel: &str, begin| Timing {
            kernel: kernel.into(),
            workgroups: [2, 1, 1],
            begin,
            duration: 500,
        };
        assert_eq!(
            chrome_trace(&[timing("map.uexp", 0), timing("a\"b", 2500)]),
            "{\"traceEvents\":[\n\
             {\"name\":\"map.uexp\",\"ph\":\"X\",\"ts\":0,\"dur\":0.5,\"pid\":0,\"tid\":0,\"args\":{\"workgroups\":[2, 1, 1]}},\n\
             {\"name\":\"a\\\"b\",\"ph\":\"X\",\"ts\":2.5,\"dur\":0.5,\"pid\":0,\"tid\":0,\"args\":{\"workgroups\":[2, 1, 1]}}\n\
             ],\"displayTimeUnit\":\"ns\"}\n"
        );
        assert!(chrome_trace(&[]).contains("[\n]"));
    }

    #[test]
    fn every_dispatch() {
        let b = Bench::new("-all");
        let x = b.floats(&[1000]);
        let before = b.unary("uexp", &x);
        let Ok(profile) = b.device.profile() else {
            assert!(!b
                .device
                .features()
                .contains(wgpu::Features::TIMESTAMP_QUERY));
            return;
        };
        assert!(b.device.profile().is_err(), "one at a time");
        let all: Vec<_> = (0..200).map(|_| b.unary("uneg", &before)).collect();
        let timings = profile.finish().expect("timings");
        assert_eq!(timings.len(), all.len());
        assert!(timings.iter().all(|t| t.kernel.starts_with("map.uneg")));
        assert!(timings.is_sorted_by_key(|t| t.begin));
        b.device.synchronize().expect("no error");
        drop(b.device.profile().expect("the one before is over"));
    }

    #[test]
    fn a_stopwatch_adds_up_submits() {
        let b = Bench::new("-all");
        let x = b.floats(&[1 << 16]);
        let time = |runs: usize| {
            let watch = b.device.stopwatch().ok()?;
            assert!(b.device.profile().is_err(), "one at a time");
            for _ in 0..runs {
                b.unary("uexp", &x);
            }
            Some(watch.finish().expect("a time"))
        };
        let Some(nothing) = time(0) else {
            return;
        };
        assert!(nothing.is_zero());
        let (short, long) = (time(100), time(2000));
        assert!(
            short.is_some_and(|t| !t.is_zero()) && long > short,
            "{short:?} {long:?}"
        );
    }
}
