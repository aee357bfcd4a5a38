//! How long an op takes when a device is kept busy with it.

use crate::workload::{At, Case, Scale, Work, Workload};
use candle_core::{DType, Device, Result};
use candle_examples::device::counters;
use candle_examples::spread::Spread;
use std::time::{Duration, Instant};

/// GPU clocks rise only under load.
const WARM_UP: Duration = Duration::from_millis(50);

/// So long that waiting for its end does not count.
const SAMPLE: Duration = Duration::from_millis(20);

/// The most runs of an op in a sample.
const MOST: u32 = 1 << 17;

pub struct Bench {
    pub device: Device,
    pub scale: Scale,
    pub samples: u32,
}

/// What one op took.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub seconds: Spread,
    pub work: Work,
    /// Per run of the op, where the device counts.
    pub dispatches: Option<f64>,
}

impl Bench {
    /// Makes the inputs of a workload and times it; an error is the workload's.
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
        let mut seconds = Vec::new();
        for _ in 0..self.samples {
            let time = self.sample(&case, runs)?;
            seconds.push(time.as_secs_f64() / f64::from(runs));
        }
        let all = f64::from(runs) * f64::from(self.samples);
        let count = before.zip(dispatches());
        let nothing = || candle_core::Error::Msg("no samples".to_string());
        Ok(Measured {
            seconds: Spread::of(seconds).ok_or_else(nothing)?,
            work,
            dispatches: count.map(|(before, after)| after.saturating_sub(before) as f64 / all),
        })
    }

    /// Works for a while, and says how many runs make a sample.
    fn warm_up(&self, case: &Case) -> Result<u32> {
        // Whatever is compiled or allocated once is not of the time.
        self.sample(case, 1)?;
        let start = Instant::now();
        let mut runs = 1;
        loop {
            let time = self.sample(case, runs)?;
            if runs >= MOST || (time >= SAMPLE && start.elapsed() >= WARM_UP) {
                return Ok(runs);
            }
            runs = more(runs, time);
        }
    }

    /// Records the op that many times, each result let go at once, and waits for the last.
    fn sample(&self, case: &Case, runs: u32) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..runs {
            drop(case.run()?);
        }
        self.device.synchronize()?;
        Ok(start.elapsed())
    }
}

/// Runs for a quarter more than a sample has to take, by what `runs` of them took; at most ten times as many.
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
