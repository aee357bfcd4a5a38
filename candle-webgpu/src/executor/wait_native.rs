//! Waiting, natively: a call blocks, and where a future is awaited a thread does.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::executor::ready::Ready;

/// What the user called, and what to await where nothing may block.
pub(crate) type Call = (&'static str, &'static str);

/// Whether a call may wait: always.
pub(crate) fn may_block(_: Call) -> Result<()> {
    Ok(())
}

/// Runs a future to its end; [`may_block`] has been asked.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, _: Call) -> Result<T> {
    Ok(pollster::block_on(future))
}

/// Polls the device; tells whether what it was to wait for is done.
pub(crate) fn poll(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    timeout: Option<Duration>,
) -> Result<bool> {
    guarded(
        device,
        wgpu::PollType::Wait {
            submission_index: index,
            timeout,
        },
    )
}

/// wgpu 30 panics in `Device::poll` where the driver reports that the device is lost (`handle_error_fatal`). By then it has called
/// back, so whoever polls is told by `Inner::check_lost`.
fn guarded(device: &wgpu::Device, how: wgpu::PollType) -> Result<bool> {
    let polled = catch_unwind(AssertUnwindSafe(|| device.poll(how)));
    match polled {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
        Ok(Err(error)) => Err(Error::Validation(error.to_string())),
        Err(_) => Err(Error::Validation("wgpu gave up in Device::poll".into())),
    }
}

/// Processors from which on all who look for work, a caller and three threads, leave one to others.
const ENOUGH: usize = 5;

/// Who looks for work is not to keep those from it who do it: leaves the processor to its other half for a moment, without a call of
/// the system, or where there are few processors to any other thread.
pub(crate) fn breathe() {
    static FEW: OnceLock<bool> = OnceLock::new();
    let few = || std::thread::available_parallelism().is_ok_and(|n| n.get() < ENOUGH);
    if *FEW.get_or_init(few) {
        return std::thread::yield_now();
    }
    for _ in 0..16 {
        std::hint::spin_loop();
    }
}

/// Waits until `ready` is over, polling for as long as `spin` before it blocks; `wait` waits for a submit, or for all of them.
pub(crate) fn block(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    ready: &Ready,
    _: Call,
    spin: Duration,
    wait: impl Fn(Option<wgpu::SubmissionIndex>) -> Result<()>,
) -> Result<bool> {
    let start = Instant::now();
    while start.elapsed() < spin {
        if let Some(well) = ready.done() {
            return Ok(well);
        }
        let _ = guarded(device, wgpu::PollType::Poll);
        breathe();
    }
    if ready.done().is_none() {
        wait(index)?;
    }
    // The submission may be done while its callback has not run yet.
    loop {
        if let Some(well) = ready.done() {
            return Ok(well);
        }
        wait(None)?;
    }
}

/// The same without blocking the caller: the device calls back only where somebody polls it, so a thread does. False, too, where
/// nothing was done in twice the `timeout`.
pub(crate) async fn until(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
    timeout: Option<Duration>,
) -> bool {
    let _ = guarded(device, wgpu::PollType::Poll);
    if ready.done().is_none() {
        let (device, waited) = (device.clone(), ready.clone());
        std::thread::spawn(move || {
            let _ = poll(&device, index, timeout);
            while waited.done().is_none() && poll(&device, None, timeout).is_ok_and(|done| done) {
                std::thread::yield_now();
            }
            if waited.done().is_none() {
                waited.finish(false);
            }
        });
    }
    ready.await
}
