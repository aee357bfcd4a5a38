//! Times by the GPU's own clock, of each kernel or of each submit. Passes write timestamps, which are copied to where the host can
//! read them when the profile is finished.

use std::fmt::Write as _;

use crate::recorder::batch::MOST_OPS;
use crate::recorder::op::Op;

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

/// What has its own pass between two timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    Op,
    Submit,
}

/// Timestamps, two for each pass.
pub(crate) struct Timed {
    pub queries: wgpu::QuerySet,
    /// The op of a pass, or the first of it.
    pub ops: Vec<(String, [u32; 3])>,
}

/// What the encoder keeps while the device is profiled.
pub(crate) struct Timer {
    grain: Grain,
    pub timed: Vec<Timed>,
    /// The pass of this submit, if it has only one, has an op.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
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
