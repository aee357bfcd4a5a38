//! Waiting for the device in a browser, which polls it.

use std::time::Duration;

use js_sys::futures::spawn_local;

use crate::error::Result;
use crate::executor::Executor;
use crate::util::block::{block_on, Call};
use crate::util::browser;
use crate::util::ready::Ready;

/// Waits until `ready`, and returns its result.
pub(crate) fn block(_executor: &Executor, ready: &Ready, call: Call) -> Result<bool> {
    block_on(ready.clone(), call)
}

/// Never called, since nothing spins in a browser.
pub(crate) fn spin_until(_: Duration, done: impl Fn() -> bool) -> bool {
    done()
}

/// Always returns `true`: the browser polls the device.
pub(crate) fn poll(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    _timeout: Option<Duration>,
) -> Result<bool> {
    Ok(true)
}

/// Awaits `ready`. The browser polls the device and has its own timeout.
pub(crate) async fn until(_: &Executor, ready: Ready) -> bool {
    ready.await
}

/// Milliseconds until the first empty submit. Each further interval is longer, so that the delay stays in proportion to the work.
const FIRST: f64 = 0.1;
const GROWTH: f64 = 1.03;
const LONGEST: f64 = 50.;

/// Makes empty submits until `ready`. Browsers look for finished work after each submit, but otherwise rarely: Chromium 156 every 2.6 ms, and
/// Firefox 159 ten times a second (bug 1870699).
pub(crate) fn poll_by_submits(queue: &wgpu::Queue, ready: &Ready) {
    let (queue, ready) = (queue.clone(), ready.clone());
    spawn_local(async move {
        let mut interval = FIRST;
        loop {
            browser::wait(interval).await;
            if ready.result().is_some() {
                return;
            }
            crate::executor::submit::submit_nothing(&queue);
            interval = (interval * GROWTH).min(LONGEST);
        }
    });
}
