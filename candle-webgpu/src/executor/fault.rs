//! Device failures: stored errors, which the next call returns, the loss of the device, and waits with a timeout.

use std::sync::Arc;
use std::time::Duration;

use crate::debug::in_flight::Progress;
use crate::error::{Error, Result};
use crate::executor::wait::poll;
use crate::executor::Executor;
use crate::util::lock;

/// Milliseconds to wait after a failure for wgpu to report a lost device.
const LOSS_REPORT_MS: usize = if cfg!(target_arch = "wasm32") { 0 } else { 50 };

impl Executor {
    /// Stores errors that wgpu reports asynchronously. Natively, such a validation error comes from a submit; in a browser, it may also
    /// come from creating a pipeline or a buffer, which leaves the device usable.
    pub fn register_error_callbacks(&self) {
        let (stored, uncaptured) = (self.stored_error.clone(), self.uncaptured_error.clone());
        self.device
            .on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
                let memory = matches!(e, wgpu::Error::OutOfMemory { .. });
                let slot = match memory || cfg!(target_arch = "wasm32") {
                    true => &stored,
                    false => &uncaptured,
                };
                lock(slot).get_or_insert(Error::Validation(e.to_string()));
            }));
        let (lost, adapter) = (self.lost.clone(), self.gpu.name.clone());
        self.device.set_device_lost_callback(move |_, reason| {
            let adapter = adapter.clone();
            let _ = lost.set(Error::Lost { adapter, reason });
        });
    }

    /// Makes every later call return `error`, unless the device has already failed. Returns `error`.
    pub fn fail_device(&self, error: Error) -> Error {
        let _ = self.lost.set(error.clone());
        error
    }

    /// An error if the device accepts no more work.
    pub fn check_lost(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Stores an error for the next call that can return it, unless one is stored already.
    pub fn store_error(&self, error: Error) {
        lock(&self.stored_error).get_or_insert(error);
    }

    /// Takes the stored error. A validation error also fails the device, since the contents of values are unknown after it.
    pub fn take_stored_error(&self) -> Option<Error> {
        let uncaptured = lock(&self.uncaptured_error).take();
        if let Some(uncaptured) = uncaptured {
            return Some(self.fail_device(self.cause(uncaptured)));
        }
        lock(&self.stored_error).take()
    }

    /// Waits for a submit, or for all of them. [`Error::Timeout`] if no submit finishes within the timeout.
    pub fn wait(&self, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let mut finished_before = None;
        loop {
            match poll(&self.device, index.clone(), self.options.timeout) {
                Ok(true) => return self.check_lost(),
                Ok(false) => self.check_lost()?,
                Err(error) => return Err(self.fail_device(self.cause(error))),
            }
            let progress = self.progress();
            if finished_before.is_some_and(|before| progress.finished <= before) {
                return Err(self.fail_hung(progress));
            }
            finished_before = Some(progress.finished);
        }
    }

    /// The cause of a failure: device loss or a hang, else `otherwise`.
    pub fn cause(&self, otherwise: Error) -> Error {
        // wgpu may not have reported the loss yet, or another thread may be about to store it.
        let mut done = poll(&self.device, None, self.options.timeout);
        for _ in 0..LOSS_REPORT_MS {
            if self.lost.get().is_some() || !matches!(done, Ok(true)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            done = poll(&self.device, None, self.options.timeout);
        }
        match (self.check_lost(), done) {
            (Err(lost), _) => lost,
            (Ok(()), Ok(false)) => self.fail_hung(self.progress()),
            _ => otherwise,
        }
    }

    /// The cause of a readback's failure, else the failure itself.
    pub fn unread(&self, message: &str) -> Error {
        self.cause(Error::Readback {
            adapter: self.gpu.name.clone(),
            message: message.into(),
        })
    }

    fn progress(&self) -> Progress {
        let now = Some(Duration::ZERO);
        let is_done = |index: &wgpu::SubmissionIndex| {
            poll(&self.device, Some(index.clone()), now).unwrap_or(true)
        };
        lock(&self.in_flight).progress(is_done)
    }

    fn fail_hung(&self, progress: Progress) -> Error {
        self.fail_device(Error::Timeout {
            adapter: self.gpu.name.clone(),
            seconds: self.options.timeout.unwrap_or_default().as_secs_f64(),
            kernels: progress.kernels,
        })
    }
}
