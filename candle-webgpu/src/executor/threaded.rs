//! The threaded schedule: each stage has a thread, so that recording, rewriting, encoding and submitting overlap.
//!
//! The queue is our own because a channel does not cover it: a worker spins before it sleeps, counts the job that it runs (for
//! `wait_idle`), returns finished jobs to the sender for recycling, and survives a panic.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::executor::schedule::{EncodeJob, Schedule};
use crate::executor::submit::Commands;
use crate::executor::wait::spin_until;
use crate::executor::Executor;
use crate::recorder::batch::Batch;
use crate::util::{join, lock};

/// Jobs in progress per worker; a sender beyond that waits.
const MAX_IN_PROGRESS: usize = 8;

pub(crate) struct Threaded {
    rewriter: Worker<Batch>,
    encoder: Worker<EncodeJob>,
    submitter: Worker<Option<Commands>>,
}

impl Threaded {
    /// `None` if the platform has no threads.
    pub fn start(executor: &Weak<Executor>, software: bool) -> Option<Self> {
        // A thread that sleeps wakes some 200 us late (virtual machine of an H200), and a token's work takes 1 to 2 ms. On a software
        // adapter the CPU is needed for the kernels.
        let spin = match software {
            true => Duration::from_micros(100),
            false => Duration::from_millis(2),
        };
        let weak = || executor.clone();
        Some(Threaded {
            rewriter: Worker::start("candle-rewrite", weak(), spin, Executor::rewrite_batch)?,
            encoder: Worker::start("candle-encode", weak(), spin, |executor, job| {
                executor.encode_job(job);
            })?,
            submitter: Worker::start("candle-submit", weak(), spin, Executor::submit_job)?,
        })
    }
}

impl Schedule for Threaded {
    fn rewrite(&self, _: &Executor, batch: Batch) -> Vec<Batch> {
        self.rewriter.send(batch)
    }

    fn encode(&self, _: &Executor, job: EncodeJob) -> Vec<EncodeJob> {
        self.encoder.send(job)
    }

    fn pass_on(&self, _: &Executor, commands: Commands) -> Result<()> {
        self.submitter.send(Some(commands));
        Ok(())
    }

    fn wait_submitted(&self) {
        self.submitter.wait_idle();
    }

    fn wait_idle(&self) {
        self.rewriter.wait_idle();
        self.encoder.wait_idle();
        self.submitter.wait_idle();
    }

    fn spin(&self) -> Duration {
        self.submitter.shared.spin
    }

    fn wake(&self) {
        self.rewriter.wake();
        self.encoder.wake();
        self.submitter.wake();
    }
}

/// A thread that runs jobs in the order in which they were sent.
struct Worker<J> {
    shared: Arc<Shared<J>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<J> {
    queue: Mutex<Queue<J>>,
    /// Jobs sent and not finished.
    in_progress: AtomicUsize,
    /// How long to spin before sleeping.
    spin: Duration,
    /// Signals a new job, or that the queue is closed.
    job_sent: Condvar,
    job_finished: Condvar,
}

struct Queue<J> {
    jobs: VecDeque<J>,
    /// Finished jobs, which the next sender takes back.
    finished: Vec<J>,
    worker_sleeps: bool,
    /// Threads that sleep in `wait_until`.
    sleeping_callers: usize,
    closed: bool,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread; dropping the worker ends it. `None` if the platform has no threads.
    fn start(
        name: &str,
        executor: Weak<Executor>,
        spin: Duration,
        run: impl Fn(&Executor, &mut J) + Send + 'static,
    ) -> Option<Self> {
        let queue = Queue {
            jobs: VecDeque::new(),
            finished: Vec::new(),
            worker_sleeps: false,
            sleeping_callers: 0,
            closed: false,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            in_progress: AtomicUsize::new(0),
            spin,
            job_sent: Condvar::new(),
            job_finished: Condvar::new(),
        });
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let started = thread.spawn(move || {
            while let Some(mut job) = worker.next_job() {
                let _guard = JobGuard(&worker);
                if let Some(executor) = executor.upgrade() {
                    let result = catch_unwind(AssertUnwindSafe(|| run(&executor, &mut job)));
                    if let Err(panic) = result {
                        // The contents of the job's outputs are unknown.
                        executor.fail_device(Error::of_panic(panic));
                    }
                }
                lock(&worker.queue).finished.push(job);
            }
        });
        let thread = Some(started.ok()?);
        Some(Worker { shared, thread })
    }

    /// Queues a job and returns the jobs finished since the last call, for recycling.
    fn send(&self, job: J) -> Vec<J> {
        let shared = &self.shared;
        shared.wait_until(MAX_IN_PROGRESS);
        shared.in_progress.fetch_add(1, Ordering::AcqRel);
        let mut queue = lock(&shared.queue);
        queue.jobs.push_back(job);
        if queue.worker_sleeps {
            shared.job_sent.notify_one();
        }
        std::mem::take(&mut queue.finished)
    }

    fn wait_idle(&self) {
        self.shared.wait_until(0);
    }

    /// Makes the thread spin again, if it sleeps.
    fn wake(&self) {
        if lock(&self.shared.queue).worker_sleeps {
            self.shared.job_sent.notify_one();
        }
    }
}

impl<J> Drop for Worker<J> {
    /// Joins the thread and drops its jobs here: NVIDIA's driver (580.159) corrupts the heap if one thread destroys a device while
    /// another ends the program (gfx-rs/wgpu#8365).
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.job_sent.notify_one();
        join(self.thread.take());
    }
}

impl<J> Shared<J> {
    /// The next job, or `None` once the queue is closed and empty.
    fn next_job(&self) -> Option<J> {
        loop {
            spin_until(self.spin, || self.in_progress.load(Ordering::Acquire) > 0);
            let mut queue = lock(&self.queue);
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.worker_sleeps = true;
            queue = sleep(&self.job_sent, queue);
            queue.worker_sleeps = false;
        }
    }

    /// Waits until at most `limit` jobs are in progress.
    fn wait_until(&self, limit: usize) {
        let done = || self.in_progress.load(Ordering::Acquire) <= limit;
        if spin_until(self.spin, done) {
            return;
        }
        let mut queue = lock(&self.queue);
        while !done() {
            queue.sleeping_callers += 1;
            queue = sleep(&self.job_finished, queue);
            queue.sleeping_callers -= 1;
        }
    }
}

/// Marks a job as finished when dropped, so also after a panic.
struct JobGuard<'a, J>(&'a Shared<J>);

impl<J> Drop for JobGuard<'_, J> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::AcqRel);
        if lock(&self.0.queue).sleeping_callers > 0 {
            self.0.job_finished.notify_all();
        }
    }
}

fn sleep<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;
    use std::time::Duration;

    use crate::device::Device;
    use crate::dtype::DType;
    use crate::error::Error;
    use crate::executor::wait::spin_until;
    use crate::recorder::batch::MAX_BATCH;
    use crate::util::block::block_on;
    use crate::util::lock;

    fn device() -> Device {
        Device::separate(0).expect("an adapter")
    }

    #[test]
    fn an_error_is_returned_once() {
        let device = device();
        let error = Error::Validation("of a batch".into());
        device.executor().store_error(error);
        assert!(device.synchronize().is_err());
        assert!(device.synchronize().is_ok(), "once");
    }

    /// Rules must not take a later write to a value for its first one, however far the encoder is.
    #[test]
    fn a_value_has_contents_before_it_is_encoded() {
        let device = device();
        let encoder = lock(&device.executor().encoder);
        let fill = |_| device.fill(64, DType::F32, 0).expect("recorded");
        let all: Vec<_> = (0..4 * MAX_BATCH).map(fill).collect();
        let seen = spin_until(Duration::from_secs(60), || all[0].has_contents());
        drop(encoder);
        assert!(seen);
    }

    #[test]
    fn a_readback_that_is_not_submitted_ends() {
        let device = device();
        let y = device.fill(64, DType::F32, 0).expect("recorded");
        let encoder = lock(&device.executor().encoder);
        let reading = device.read_async(&y, 0, y.bytes()).expect("started");
        let error = Error::Validation("of another batch".into());
        device.executor().fail_device(error);
        drop(encoder);
        let read = block_on(reading.bytes(), ("a test", "none")).expect("native");
        assert!(read.is_err_and(|e| e.to_string().contains("another batch")));
    }

    /// A readback of a failed value is an error even if another thread took the stored error.
    #[test]
    fn a_failed_value_is_never_read() {
        let device = device();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = device.executor().take_stored_error();
                }
            });
            for _ in 0..300 {
                let y = device.fill(64, DType::F32, 0).expect("recorded");
                y.fail(&Arc::new(Error::Validation("of an op".into())));
                assert!(device.read(&y, 0, y.bytes()).is_err());
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
