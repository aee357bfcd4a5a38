//! Times an op on a busy device.

use crate::bench::ops;
use crate::bench::results::{Outcome, Row, Yardsticks};
use crate::bench::workload::{all, At, Case, Scale, Unit, Work, Workload};
use crate::device::{counters, has_clock, on_gpu};
use crate::spread::Spread;
use candle_core::{DType, Device, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// GPU clocks rise only under load.
const WARM_UP: Duration = Duration::from_millis(50);

/// Long enough that the final wait is negligible.
const SAMPLE: Duration = Duration::from_millis(20);

/// Maximum runs of an op per sample.
const MOST: u32 = 1 << 17;

pub struct Bench {
    pub device: Device,
    pub scale: Scale,
    pub samples: u32,
    /// The clock that the reported time and rate use.
    pub clock: Clock,
}

impl Bench {
    /// Uses GPU time if the adapter has timestamps, unless `wall` is set.
    pub fn new(device: Device, scale: Scale, samples: u32, wall: bool) -> Self {
        let clock = match !wall && has_clock(&device) {
            true => Clock::Gpu,
            false => Clock::Wall,
        };
        Self {
            device,
            scale,
            samples,
            clock,
        }
    }
}

/// The source of the reported time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// GPU timestamps: from the first to the last dispatch of each submit.
    Gpu,
    /// Wall clock: from recording the first op to the end of the last.
    #[default]
    Wall,
}

/// The times of several runs of an op.
struct Sample {
    wall: Duration,
    /// By the selected clock.
    time: Duration,
}

/// The measurements of one op.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Seconds per run, by the selected clock.
    pub seconds: Spread,
    pub clock: Clock,
    pub wall: Spread,
    pub work: Work,
    /// Dispatches per run, if the device counts them.
    pub dispatches: Option<f64>,
}

impl Bench {
    /// The measured row of a workload, or the row of its error.
    pub fn row(&self, workload: &Workload, dtype: DType, yardsticks: &Yardsticks) -> Row {
        let outcome = match self.measure(workload, dtype) {
            Ok(measured) => Outcome::Timed(yardsticks.judge(&measured)),
            Err(e) => Outcome::Failed {
                error: e.to_string(),
            },
        };
        Row::new(workload, self.scale, dtype, outcome)
    }

    /// The device's best rates. Failures are ignored here, since the same rows report them later.
    pub fn yardsticks(&self) -> Yardsticks {
        let best = |op: &str, unit: Unit| {
            let rows = all().filter(|w| w.op == op);
            let measured = rows.filter_map(|w| self.measure(w, DType::F32).ok());
            let measured = measured.filter(|m| m.work.unit == unit);
            let rates = measured.map(|m| m.work.rate(m.seconds.median));
            rates.reduce(f64::max)
        };
        Yardsticks {
            copy: best(ops::COPY, Unit::Bytes),
            gemm: best(ops::GEMM, Unit::Flops),
        }
    }

    /// Creates the inputs of a workload and times it.
    pub fn measure(&self, workload: &Workload, dtype: DType) -> Result<Measured> {
        let case = workload.case(&At {
            dims: workload.dims(self.scale),
            dtype,
            device: &self.device,
        })?;
        let work = case.work(&case.run()?);
        let runs = self.warm_up(&case)?;
        let dispatches = || counters(&self.device).map(|c| c.dispatches);
        let before = dispatches();
        let (mut seconds, mut wall) = (Vec::new(), Vec::new());
        for _ in 0..self.samples {
            let sample = self.sample(&case, runs)?;
            let each = |time: Duration| time.as_secs_f64() / f64::from(runs);
            seconds.push(each(sample.time));
            wall.push(each(sample.wall));
        }
        let all = f64::from(runs) * f64::from(self.samples);
        let count = before.zip(dispatches());
        let nothing = || candle_core::Error::Msg("no samples".to_string());
        Ok(Measured {
            seconds: Spread::of(seconds).ok_or_else(nothing)?,
            clock: self.clock,
            wall: Spread::of(wall).ok_or_else(nothing)?,
            work,
            dispatches: count.map(|(before, after)| after.saturating_sub(before) as f64 / all),
        })
    }

    /// Runs the op for [`WARM_UP`] and returns the number of runs per sample.
    fn warm_up(&self, case: &Case) -> Result<u32> {
        // Excludes one-time compilation and allocation from the measurement.
        self.sample(case, 1)?;
        let start = Instant::now();
        let mut runs = 1;
        loop {
            let time = self.sample(case, runs)?.wall;
            if runs >= MOST || (time >= SAMPLE && start.elapsed() >= WARM_UP) {
                return Ok(runs);
            }
            runs = more(runs, time);
        }
    }

    /// Records the op `runs` times, dropping each result at once, then waits for the last.
    fn sample(&self, case: &Case, runs: u32) -> Result<Sample> {
        let mut wall = Duration::ZERO;
        let mut work = || {
            let start = Instant::now();
            for _ in 0..runs {
                drop(case.run()?);
            }
            self.device.synchronize()?;
            wall = start.elapsed();
            candle_core::Result::Ok(())
        };
        let gpu = match self.clock {
            Clock::Gpu => Some(on_gpu(&self.device, work)?),
            Clock::Wall => work().map(|()| None)?,
        };
        Ok(Sample {
            wall,
            time: gpu.unwrap_or(wall),
        })
    }
}

/// The runs needed for a quarter more than [`SAMPLE`], extrapolated from `runs` runs; at most ten times as many.
fn more(runs: u32, time: Duration) -> u32 {
    if time >= SAMPLE {
        return runs;
    }
    let times = 1.25 * SAMPLE.as_secs_f64() / time.as_secs_f64().max(1e-9);
    let runs = f64::from(runs) * times.clamp(1.25, 10.);
    (runs.ceil() as u32).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_grow_until_they_are_long_enough() {
        assert_eq!(more(7, Duration::from_millis(21)), 7);
        assert_eq!(more(10, Duration::from_millis(10)), 25);
        assert_eq!(more(10, Duration::ZERO), 100);
        assert_eq!(more(MOST, Duration::from_millis(1)), MOST);
        assert!(more(1, Duration::from_micros(19_999)) > 1);
    }
}
