//! GPU timestamps of each dispatch or each submit. Compute passes write them to query sets, which are read when the profile finishes.

use std::fmt::Write as _;

use crate::recorder::batch::MOST_OPS;
use crate::recorder::op::Op;

/// Bytes of a timestamp.
pub(crate) const TICKS: u64 = 8;
/// Maximum timestamps in a WebGPU query set.
const MOST_QUERIES: u32 = 4096;

/// The timing of a dispatch.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The label of the pipeline.
    pub kernel: String,
    pub workgroups: [u32; 3],
    /// Start, in nanoseconds after the start of the first timed dispatch.
    pub begin: u64,
    /// In nanoseconds.
    pub duration: u64,
}

/// A JSON trace for chrome://tracing and ui.perfetto.dev: one complete event per dispatch, in microseconds.
pub fn chrome_trace(timings: &[Timing]) -> String {
    let mut text = String::from("{\"traceEvents\":[");
    for (i, timing) in timings.iter().enumerate() {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
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

/// What a pair of timestamps encloses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    Op,
    Submit,
}

/// A query set with two timestamps per pass.
pub(crate) struct Timed {
    pub queries: wgpu::QuerySet,
    /// The first op of each pass, and its workgroups.
    pub ops: Vec<(String, [u32; 3])>,
}

/// The encoder's state while the device is profiled.
pub(crate) struct Timer {
    grain: Grain,
    pub timed: Vec<Timed>,
    /// The current submit has a timed pass (used with `Grain::Submit`).
    begun: bool,
}

impl Timer {
    pub fn new(grain: Grain) -> Self {
        Timer {
            grain,
            timed: Vec::new(),
            begun: false,
        }
    }

    /// Adds a query set if the current one lacks room for the timestamps of a submit.
    pub fn begin_submit(&mut self, device: &wgpu::Device) {
        self.begun = false;
        // One more pass, since one also follows the last op.
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
    pub fn timestamp_writes(&self) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let timed = self.timed.last()?;
        let at = 2 * timed.ops.len() as u32;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &timed.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        })
    }

    /// Adds an op to the current pass; returns whether the pass ends with it.
    pub fn add(&mut self, op: &Op) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_json() {
        let timing = |kernel: &str, begin| Timing {
            kernel: kernel.into(),
            workgroups: [2, 1, 1],
            begin,
            duration: 500,
        };
        assert_eq!(
            chrome_trace(&[timing("unary.uexp", 0), timing("a\"b", 2500)]),
            "{\"traceEvents\":[\n\
             {\"name\":\"unary.uexp\",\"ph\":\"X\",\"ts\":0,\"dur\":0.5,\"pid\":0,\"tid\":0,\"args\":{\"workgroups\":[2, 1, 1]}},\n\
             {\"name\":\"a\\\"b\",\"ph\":\"X\",\"ts\":2.5,\"dur\":0.5,\"pid\":0,\"tid\":0,\"args\":{\"workgroups\":[2, 1, 1]}}\n\
             ],\"displayTimeUnit\":\"ns\"}\n"
        );
        assert!(chrome_trace(&[]).contains("[\n]"));
    }
}
