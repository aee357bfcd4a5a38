//! A case, and how it runs: beside others, or alone if it changes state that all cases share.

use std::sync::{PoisonError, RwLock};

use anyhow::Result;
use candle_core::Device;

type Run = Box<dyn Fn(&Device) -> Result<()> + Send>;

pub struct Case {
    pub name: String,
    pub run: Run,
    /// The case changes state of the device: it provokes a fault, seeds the generator, or depends on what is recorded.
    /// No other case may run meanwhile.
    pub alone: bool,
}

/// The list under construction.
#[derive(Default)]
pub struct Cases(pub Vec<Case>);

impl Cases {
    pub fn add<F>(&mut self, name: impl Into<String>, run: F)
    where
        F: Fn(&Device) -> Result<()> + Send + 'static,
    {
        self.push(name.into(), Box::new(run), false);
    }

    pub fn alone<F>(&mut self, name: impl Into<String>, run: F)
    where
        F: Fn(&Device) -> Result<()> + Send + 'static,
    {
        self.push(name.into(), Box::new(run), true);
    }

    fn push(&mut self, name: String, run: Run, alone: bool) {
        self.0.push(Case { name, run, alone });
    }
}

static DEVICE_STATE: RwLock<()> = RwLock::new(());

/// Runs while no case runs.
pub fn alone<T>(run: impl FnOnce() -> T) -> T {
    let _guard = DEVICE_STATE.write().unwrap_or_else(PoisonError::into_inner);
    run()
}

impl Case {
    pub fn run(&self, device: &Device) -> Result<()> {
        if self.alone {
            return alone(|| (self.run)(device));
        }
        let _guard = DEVICE_STATE.read().unwrap_or_else(PoisonError::into_inner);
        (self.run)(device)
    }
}
