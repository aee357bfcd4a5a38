//! Waiting on native platforms: calls block, and a helper thread polls the device for futures.

use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::util::block::Call;
use crate::util::lock;
use crate::util::ready::Ready;

/// Waits for a submit, or for all of them; `false` after the timeout.
pub(crate) fn poll(
    device: &wgpu::Device,
    index: Option<wgpu::SubmissionIndex>,
    timeout: Option<Duration>,
) -> Result<bool> {
    poll_guarded(
        device,
        wgpu::PollType::Wait {
            submission_index: index,
            timeout,
        },
    )
}

/// Polls the device and catches panics: wgpu 30 panics in `Device::poll` if the driver reports a lost device (`handle_error_fatal`). The
/// lost callback has run by then, so `Executor::check_lost` returns the reason.
fn poll_guarded(device: &wgpu::Device, how: wgpu::PollType) -> Result<bool> {
    let polled = catch_unwind(AssertUnwindSafe(|| device.poll(how)));
    match polled {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
        Ok(Err(error)) => Err(Error::Validation(error.to_string())),
        Err(_) => Err(Error::Validation("Device::poll panicked".into())),
    }
}

/// With at least this many processors, the four threads that may spin (a caller and three workers) leave one processor for others.
const MANY_PROCESSORS: usize = 5;

/// One iteration of a spin loop. Yields to other threads if there are few processors. Otherwise pauses without a system call, which leaves
/// the core to its other hyperthread.
fn spin_wait() {
    static FEW: OnceLock<bool> = OnceLock::new();
    let few = || std::thread::available_parallelism().is_ok_and(|n| n.get() < MANY_PROCESSORS);
    if *FEW.get_or_init(few) {
        return std::thread::yield_now();
    }
    for _ in 0..16 {
        std::hint::spin_loop();
    }
}

/// Spins until `done`, or for `spin`; returns whether it was done.
pub(crate) fn spin_until(spin: Duration, done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > spin {
            return false;
        }
        spin_wait();
    }
    true
}

/// Submits that a sleeping caller leaves to spin for, so that it and the workers are awake when the last one ends: some 400 us in models of
/// 8 billion parameters, of which a thread that sleeps loses 200 (virtual machine of an NVIDIA H200).
const AWAKE: usize = 2;

/// Waits until `ready`, whose submit is made, and returns its result. Spins as long as the schedule allows, then sleeps until a submit
/// shortly before, spins again, and sleeps.
pub(crate) fn block(executor: &Executor, ready: &Ready, _: Call) -> Result<bool> {
    let spin = executor.schedule.spin();
    let done = || {
        let done = ready.result().is_some();
        if !done {
            let _ = poll_guarded(&executor.device, wgpu::PollType::Poll);
        }
        done
    };
    if !spin_until(spin, done) {
        let earlier = lock(&executor.in_flight).before(AWAKE);
        if earlier.is_some() {
            executor.wait(earlier)?;
            executor.schedule.wake();
        }
        if !spin_until(spin, done) {
            executor.wait(ready.index())?;
        }
    }
    // The submit may finish before its callback runs.
    loop {
        if let Some(success) = ready.result() {
            return Ok(success);
        }
        executor.wait(None)?;
    }
}

/// How long to wait before looking again whether a readback is submitted.
const UNTIL_SUBMITTED: Duration = Duration::from_micros(50);

/// Awaits `ready`. On native platforms, callbacks run only while the device is polled: the future does so whenever it is polled, and asks to be
/// polled again at once for as long as the schedule spins, since a thread that sleeps wakes late. Then a thread polls the device. Also returns
/// `false` if nothing happens within twice the timeout.
pub(crate) async fn until(executor: &Executor, mut ready: Ready) -> bool {
    let start = Instant::now();
    let mut watched = false;
    poll_fn(move |context| {
        let _ = poll_guarded(&executor.device, wgpu::PollType::Poll);
        let result = Future::poll(Pin::new(&mut ready), context);
        if result.is_pending() && start.elapsed() < executor.schedule.spin() {
            spin_wait();
            context.waker().wake_by_ref();
        } else if result.is_pending() && !watched {
            watched = true;
            watch(executor, ready.clone());
        }
        result
    })
    .await
}

/// Polls the device in a thread until `waited`.
fn watch(executor: &Executor, waited: Ready) {
    let (device, timeout) = (executor.device.clone(), executor.options.timeout);
    std::thread::spawn(move || {
        while waited.result().is_none() && waited.index().is_none() {
            let _ = poll_guarded(&device, wgpu::PollType::Poll);
            std::thread::sleep(UNTIL_SUBMITTED);
        }
        let _ = poll(&device, waited.index(), timeout);
        while waited.result().is_none() && poll(&device, None, timeout).is_ok_and(|done| done) {
            std::thread::yield_now();
        }
        waited.give_up();
    });
}
