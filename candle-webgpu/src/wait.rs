//! Waiting, natively: a call blocks, and where a future is awaited a thread does.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ready::Ready;

/// How long to poll before blocking: a round trip is some 50 us, a blocked thread wakes later.
const SPIN: Duration = Duration::from_micros(500);

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

/// Makes something, and what wgpu finds wrong with it, which natively is known at once.
pub(crate) fn scoped<T>(
    device: &wgpu::Device,
    filter: wgpu::ErrorFilter,
    make: impl FnOnce() -> T,
) -> (T, Option<wgpu::Error>) {
    let scope = device.push_error_scope(filter);
    let made = make();
    (made, pollster::block_on(scope.pop()))
}

fn wait(device: &wgpu::Device, index: Option<wgpu::SubmissionIndex>) -> Result<()> {
    let waited = device.poll(wgpu::PollType::Wait {
        submission_index: index,
        timeout: None,
    });
    waited
        .map(|_| ())
        .map_err(|e| Error::Validation(e.to_string()))
}

/// Waits until `ready` is over; `check` tells whether the device is still there.
pub(crate) fn block(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    ready: &Ready,
    _: Call,
    check: impl Fn() -> Result<()>,
) -> Result<bool> {
    let start = Instant::now();
    while start.elapsed() < SPIN {
        if let Some(well) = ready.done() {
            return Ok(well);
        }
        let _ = device.poll(wgpu::PollType::Poll);
        std::thread::yield_now();
    }
    if ready.done().is_none() {
        let waited = wait(device, index);
        check()?;
        waited?;
    }
    // The submission may be done while its callback has not run yet.
    loop {
        if let Some(well) = ready.done() {
            return Ok(well);
        }
        check()?;
        wait(device, None)?;
    }
}

/// The same without blocking the caller: the device calls back only where somebody polls it, so a thread does.
pub(crate) async fn until(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
) -> bool {
    let _ = device.poll(wgpu::PollType::Poll);
    if ready.done().is_none() {
        let (device, waited) = (device.clone(), ready.clone());
        std::thread::spawn(move || {
            let went = wait(&device, index);
            while waited.done().is_none() && went.is_ok() && wait(&device, None).is_ok() {
                std::thread::yield_now();
            }
            if waited.done().is_none() {
                waited.finish(false);
            }
        });
    }
    ready.await
}
