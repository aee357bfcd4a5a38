//! What goes wrong with a device: errors that are kept for the next call, the cause for which it takes no more work, and waiting that
//! does not go on for ever.

use std::sync::Arc;
use std::time::Duration;

use crate::debug::in_flight::Open;
use crate::error::{Error, Result};
use crate::executor::wait::poll;
use crate::executor::Executor;
use crate::util::lock;

/// Milliseconds in which the news of a loss arrives after what it made fail.
#[cfg(not(target_arch = "wasm32"))]
const NEWS: usize = 50;

impl Executor {
    /// Keeps errors that wgpu reports outside of a call. In a browser pipelines and buffers are refused in this way, too, and not
    /// only parts of a submit.
    pub fn watch(&self) {
        let (error, refused) = (self.error.clone(), self.refused.clone());
        self.device
            .on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
                let memory = matches!(e, wgpu::Error::OutOfMemory { .. });
                let slot = match memory || cfg!(target_arch = "wasm32") {
                    true => &error,
                    false => &refused,
                };
                lock(slot).get_or_insert(Error::Validation(e.to_string()));
            }));
        let (broken, adapter) = (self.broken.clone(), self.gpu.name.clone());
        self.device.set_device_lost_callback(move |_, reason| {
            let adapter = adapter.clone();
            let _ = broken.set(Error::Lost { adapter, reason });
        });
    }

    /// Takes no more work; `error` says why, from now on. The first cause stays.
    pub fn give_up(&self, error: Error) {
        let _ = self.broken.set(error);
    }

    /// The cause, if the device takes no more work.
    pub fn check_lost(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// Keeps an error for the next call that can return it.
    pub fn keep(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
    }

    /// What went wrong since it was asked last. Where wgpu refused something, values are not what they should be, so the device
    /// takes no more work then.
    pub fn take_kept_error(&self) -> Option<Error> {
        let refused = lock(&self.refused).take();
        if let Some(refused) = refused {
            let cause = self.cause(refused);
            self.give_up(cause.clone());
            return Some(cause);
        }
        lock(&self.error).take()
    }

    /// How long to look for what others do before sleeping: a thread that sleeps is back some 200 us late (virtual machine of an H200),
    /// and a token's work takes 1 to 2 ms. Where the CPU computes it has other things to do.
    pub fn spin(&self) -> Duration {
        match self.gpu.software {
            true => Duration::from_micros(100),
            false => Duration::from_millis(2),
        }
    }

    /// Waits for a submit, or for all of them.
    pub fn wait(&self, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let mut before = None;
        loop {
            match poll(&self.device, index.clone(), self.timeout) {
                Ok(true) => return self.check_lost(),
                Ok(false) => self.check_lost()?,
                Err(error) => {
                    let error = self.cause(error);
                    self.give_up(error.clone());
                    return Err(error);
                }
            }
            let open = self.open();
            if before.is_some_and(|before| open.finished <= before) {
                return Err(self.hung(open));
            }
            before = Some(open.finished);
        }
    }

    /// Why something failed: what has become of the device, else `otherwise`.
    pub fn cause(&self, otherwise: Error) -> Error {
        // wgpu may tell only now that the device is lost, or another thread that has been told may not have said so yet.
        #[cfg_attr(target_arch = "wasm32", allow(unused_mut, reason = "asked once"))]
        let mut done = poll(&self.device, None, self.timeout);
        #[cfg(not(target_arch = "wasm32"))]
        for _ in 0..NEWS {
            if self.broken.get().is_some() || !matches!(done, Ok(true)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            done = poll(&self.device, None, self.timeout);
        }
        match (self.check_lost(), done) {
            (Err(lost), _) => lost,
            (Ok(()), Ok(false)) => self.hung(self.open()),
            _ => otherwise,
        }
    }

    fn open(&self) -> Open {
        let now = Some(Duration::ZERO);
        let is_done = |index: &wgpu::SubmissionIndex| {
            poll(&self.device, Some(index.clone()), now).unwrap_or(true)
        };
        lock(&self.in_flight).open(is_done)
    }

    fn hung(&self, open: Open) -> Error {
        let error = Error::Timeout {
            adapter: self.gpu.name.clone(),
            seconds: self.timeout.unwrap_or_default().as_secs_f64(),
            kernels: open.kernels,
        };
        self.give_up(error.clone());
        error
    }
}
