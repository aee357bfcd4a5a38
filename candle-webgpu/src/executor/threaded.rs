//! A thread that takes up jobs in the order in which they come, so that the caller goes on meanwhile. Where there are no threads
//! (browsers) there is no worker, and whoever has a job does it.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::executor::stages::Load;
use crate::executor::submit::Commands;
use crate::executor::wait::breathe;
use crate::executor::Executor;
use crate::recorder::batch::Batch;
use crate::util::{join, lock};

/// Jobs that may wait; whoever has one more waits too.
const WAITING: usize = 8;

/// A thread for each stage.
pub(crate) struct Threads {
    pub rewriter: Worker<Batch>,
    pub encoder: Worker<Load>,
    pub sender: Worker<Option<Commands>>,
}

impl Threads {
    /// `None` where threads cannot be had.
    pub fn start(executor: &Arc<Executor>) -> Option<Self> {
        let (spin, executor) = (executor.spin(), Arc::downgrade(executor));
        let (rewrite, encode, submit) = (
            Executor::process,
            Executor::encode_load,
            Executor::submit_next,
        );
        Some(Threads {
            rewriter: Worker::start("candle-rewrite", executor.clone(), spin, rewrite)?,
            encoder: Worker::start("candle-encode", executor.clone(), spin, encode)?,
            sender: Worker::start("candle-submit", executor, spin, submit)?,
        })
    }

    /// Waits until no stage has work.
    pub fn settle(&self) {
        self.rewriter.settle();
        self.encoder.settle();
        self.sender.settle();
    }
}

pub(crate) struct Worker<J> {
    shared: Arc<Shared<J>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<J> {
    line: Mutex<Line<J>>,
    /// Jobs that were sent and are not over yet.
    under_way: AtomicUsize,
    /// How long to look for work before sleeping.
    spin: Duration,
    /// Something was sent, or nothing ever will be.
    sent: Condvar,
    /// A job is over.
    done: Condvar,
}

struct Line<J> {
    jobs: VecDeque<J>,
    /// What is left of jobs that are over, to be dropped by who sent them.
    spent: Vec<J>,
    /// The thread sleeps.
    asleep: bool,
    /// Callers that sleep.
    waiting: usize,
    closed: bool,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread, which ends when the worker is dropped. None where threads cannot be had.
    pub fn start(
        name: &str,
        executor: Weak<Executor>,
        spin: Duration,
        work: impl Fn(&Executor, &mut J) + Send + 'static,
    ) -> Option<Self> {
        let line = Line {
            jobs: VecDeque::new(),
            spent: Vec::new(),
            asleep: false,
            waiting: 0,
            closed: false,
        };
        let shared = Arc::new(Shared {
            line: Mutex::new(line),
            under_way: AtomicUsize::new(0),
            spin,
            sent: Condvar::new(),
            done: Condvar::new(),
        });
        let jobs = shared.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let started = thread.spawn(move || {
            while let Some(mut job) = jobs.next() {
                // Whatever becomes of the job, it is over then.
                let _over = Over(&jobs);
                if let Some(executor) = executor.upgrade() {
                    let done = catch_unwind(AssertUnwindSafe(|| work(&executor, &mut job)));
                    if let Err(panic) = done {
                        // What it was to write is not known.
                        executor.give_up(Error::of_panic(panic));
                    }
                }
                lock(&jobs.line).spent.push(job);
            }
        });
        let thread = Some(started.ok()?);
        Some(Worker { shared, thread })
    }

    /// Hands over a job, to be done after those that were handed over before. Gives what is left of some of those.
    pub fn send(&self, job: J) -> Vec<J> {
        let shared = &self.shared;
        shared.wait_until(WAITING);
        shared.under_way.fetch_add(1, Ordering::AcqRel);
        let mut line = lock(&shared.line);
        line.jobs.push_back(job);
        if line.asleep {
            shared.sent.notify_one();
        }
        std::mem::take(&mut line.spent)
    }

    /// Waits until all jobs are over.
    pub fn settle(&self) {
        self.shared.wait_until(0);
    }
}

impl<J> Drop for Worker<J> {
    /// Waits for the thread to end, and drops what is left of its jobs here: NVIDIA's driver (580.159) corrupts the heap where one
    /// thread destroys a device while another ends the program (gfx-rs/wgpu#8365).
    fn drop(&mut self) {
        lock(&self.shared.line).closed = true;
        self.shared.sent.notify_one();
        join(self.thread.take());
    }
}

impl<J> Shared<J> {
    /// The next job; None when there will be none.
    fn next(&self) -> Option<J> {
        self.look(|| self.under_way.load(Ordering::Acquire) > 0);
        let mut line = lock(&self.line);
        loop {
            if let Some(job) = line.jobs.pop_front() {
                return Some(job);
            }
            if line.closed {
                return None;
            }
            line.asleep = true;
            line = sleep(&self.sent, line);
            line.asleep = false;
        }
    }

    /// Asks again and again for a while whether `done`; gives the last answer.
    fn look(&self, done: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        while !done() {
            if start.elapsed() > self.spin {
                return false;
            }
            breathe();
        }
        true
    }

    /// Waits until at most `most` jobs are under way.
    fn wait_until(&self, most: usize) {
        let few = || self.under_way.load(Ordering::Acquire) <= most;
        if self.look(few) {
            return;
        }
        let mut line = lock(&self.line);
        while !few() {
            line.waiting += 1;
            line = sleep(&self.done, line);
            line.waiting -= 1;
        }
    }
}

/// Tells those who wait that a job is over.
struct Over<'a, J>(&'a Shared<J>);

impl<J> Drop for Over<'_, J> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
        if lock(&self.0.line).waiting > 0 {
            self.0.done.notify_all();
        }
    }
}

fn sleep<'a, T>(until: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    until.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::fusion::testing::{Bench, T};

    fn read(b: &Bench, x: &T) -> Vec<f32> {
        let bytes = b.device.read(&x.value, 0, x.value.bytes());
        bytemuck::pod_collect_to_vec(&bytes.expect("bytes"))
    }

    #[test]
    fn windows_keep_their_order() {
        let b = Bench::new("-all");
        let mut x = b.floats(&[64]);
        let first = read(&b, &x);
        for _ in 0..2000 {
            x = b.unary("uneg", &x);
        }
        assert_eq!(read(&b, &x), first);
        assert!(b.device.stats().dispatches >= 2000);
    }

    #[test]
    fn uploads_wait_for_what_is_being_encoded() {
        let b = Bench::new("-all");
        let mut sums = Vec::new();
        for i in 0..300 {
            let x = b.device.upload(bytemuck::cast_slice(&[i as f32; 64]));
            let x = T::new(x.expect("upload"), crate::dtype::DType::F32, &[64]);
            sums.push(b.unary("uneg", &b.unary("uneg", &x)));
        }
        for (i, sum) in sums.iter().enumerate() {
            assert_eq!(read(&b, sum), [i as f32; 64]);
        }
    }

    /// A value that ops in flight write is not new to the ops behind them, though it may have no memory yet.
    #[test]
    fn what_was_sent_is_not_new() {
        let b = Bench::new("");
        let (x, y) = (b.floats(&[64]), b.floats(&[128]));
        b.device.synchronize().expect("no error");
        let half = |at| y.shown(&[64], &[1], at);
        for _ in 0..50 {
            b.device.copy_into(x.v(), half(0).v()).expect("copy");
            let others: Vec<T> = (0..100).map(|_| b.unary("uexp", &x)).collect();
            drop(others);
            b.device
                .copy_into(b.unary("uneg", &x).v(), half(64).v())
                .expect("copy");
        }
        let (x, y) = (read(&b, &x), read(&b, &y));
        assert_eq!(x, y[..64]);
        assert!(x.iter().zip(&y[64..]).all(|(x, y)| -x == *y));
    }

    /// Tensors are dropped, and others made of them, while batches before are rewritten.
    #[test]
    fn rules_do_not_depend_on_who_is_faster() {
        let b = Bench::new("");
        let x = b.floats(&[64]);
        b.device.synchronize().expect("no error");
        let run = |pause: usize| {
            let before = b.device.stats().dispatches;
            let (mut y, mut held) = (x.clone(), std::collections::VecDeque::new());
            for i in 0..500 {
                let op = ["uneg", "uabs", "urelu", "usqr", "usin"][i % 5];
                y = b.unary(op, &y);
                held.push_back(y.clone());
                while held.len() > [1, 40, 3, 0, 9][i / 30 % 5] {
                    held.pop_front();
                }
                if i % pause == pause - 1 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            (read(&b, &y), b.device.stats().dispatches - before)
        };
        let (numbers, dispatches) = run(1000);
        assert!(dispatches < 400, "{dispatches}");
        for pause in [7, 19, 40, 41, 90, 1000, 1000, 1000] {
            assert_eq!(run(pause), (numbers.clone(), dispatches), "{pause}");
        }
    }

    #[test]
    fn errors_come_back() {
        let b = Bench::new("");
        b.device
            .executor()
            .keep(Error::Validation("of a window".into()));
        assert!(b.device.synchronize().is_err());
        assert!(b.device.synchronize().is_ok(), "once");
    }

    /// Two threads wait, and one of them is told what went wrong with what the other waits for.
    #[test]
    fn what_failed_is_not_read_though_others_were_told() {
        let b = Bench::new("");
        let x = b.floats(&[64]);
        b.device.synchronize().expect("no error");
        let over = std::sync::atomic::AtomicBool::new(false);
        let device = b.device.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = device.executor().take_kept_error();
                }
            });
            for _ in 0..300 {
                let y = b.unary("uneg", &x);
                let error = Error::Validation("of an op".into());
                y.value.fail(&std::sync::Arc::new(error));
                let bytes = b.device.read(&y.value, 0, y.value.bytes());
                assert!(bytes.is_err());
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn threads_share_a_device() {
        let b = Bench::new("");
        let device = &b.device;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..40 {
                        let n = (thread * 100 + round) as f32;
                        let x = device
                            .upload(bytemuck::cast_slice(&[n; 32]))
                            .expect("upload");
                        let mut x = T::new(x, crate::dtype::DType::F32, &[32]);
                        for _ in 0..20 {
                            let y = device.unary("uneg", x.v(), [0.0; 2]).expect("neg");
                            x = T::new(y, x.dtype, &x.dims);
                        }
                        let bytes = device.read(&x.value, 0, 128).expect("bytes");
                        assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [n; 32]);
                    }
                });
            }
        });
    }
}
