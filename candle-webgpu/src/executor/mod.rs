//! What becomes of recorded ops: rules rewrite them, the encoder makes commands of them, and those are submitted.
//!
//! [`inline`](Stages::Inline): the caller does all three, as in browsers. [`threaded`]: a thread does each of the three while the caller goes
//! on to record. Which one it is is chosen when a device is made.

#[cfg(target_arch = "wasm32")]
pub(crate) mod browser;
pub(crate) mod encode;
pub(crate) mod fault;
pub(crate) mod readback;
pub(crate) mod ready;
pub(crate) mod stages;
pub(crate) mod submit;
pub(crate) mod threaded;
#[cfg_attr(target_arch = "wasm32", path = "wait_web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "wait_native.rs")]
pub(crate) mod wait;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::debug::check_nan::Check;
use crate::debug::in_flight::InFlight;
use crate::error::{Error, Result};
use crate::executor::encode::Encoder;
use crate::executor::submit::Sender;
use crate::executor::threaded::Threads;
use crate::fusion::Rewrites;
use crate::memory::buffer::Value;
use crate::recorder::batch::Batch;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Ops;
use crate::recorder::Execute;
use crate::shader::pipeline_cache::Pipelines;
use crate::shader::precompile::Ahead;
use crate::util::lock;

#[derive(Default)]
pub(crate) struct Counters {
    pub dispatches: AtomicU64,
    pub submits: AtomicU64,
    pub readbacks: AtomicU64,
    pub uploads: AtomicU64,
}

/// What a device was asked to do with its ops; see `device/env.rs`.
pub(crate) struct Options {
    /// How long a wait goes on while no submit finishes; `None` waits for ever.
    pub timeout: Option<Duration>,
    /// Looks for NaN around each op.
    pub check_nan: bool,
    /// Names each op on stderr as it is encoded.
    pub log: bool,
    /// Parameters come with the dispatch, not in a buffer.
    pub immediates: bool,
}

/// Encodes and submits what was recorded, and reads back.
pub(crate) struct Executor {
    pub gpu: Arc<Gpu>,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    immediates: bool,
    pub timeout: Option<Duration>,
    log: bool,
    check: Option<Check>,
    pub rules: Rewrites,
    pub encoder: CachePadded<Mutex<Encoder>>,
    sender: CachePadded<Mutex<Sender>>,
    /// The parameters of the dispatches of a submit, where they are not immediates.
    params: wgpu::Buffer,
    pub ahead: Arc<Ahead>,
    /// The newest ops of those handed over, not rewritten yet.
    held: CachePadded<Mutex<Ops>>,
    threads: OnceLock<Threads>,
    in_flight: CachePadded<Mutex<InFlight>>,
    staging: Mutex<Vec<wgpu::Buffer>>,
    pub counters: CachePadded<Counters>,
    /// What the next call returns.
    error: Arc<Mutex<Option<Error>>>,
    /// What wgpu refused to do, until the cause is known.
    refused: Arc<Mutex<Option<Error>>>,
    /// Why the device takes no more work, once it does not.
    broken: Arc<OnceLock<Error>>,
}

impl Executor {
    pub fn new(
        gpu: Arc<Gpu>,
        (device, queue): (wgpu::Device, wgpu::Queue),
        pipelines: Pipelines,
        rules: Rewrites,
        options: Options,
    ) -> Arc<Self> {
        let executor = Arc::new(Executor {
            immediates: options.immediates,
            timeout: options.timeout,
            log: options.log,
            check: options.check_nan.then(Check::default),
            rules,
            ahead: pipelines.ahead().clone(),
            encoder: CachePadded::new(Mutex::new(Encoder::new(pipelines))),
            sender: CachePadded::default(),
            params: submit::params(&device),
            held: CachePadded::default(),
            threads: OnceLock::new(),
            in_flight: CachePadded::default(),
            staging: Mutex::default(),
            counters: CachePadded::default(),
            error: Arc::default(),
            refused: Arc::default(),
            broken: Arc::default(),
            gpu,
            device,
            queue,
        });
        executor.watch();
        executor
    }

    /// Has threads do the work from here on, where there are some.
    pub fn start_threads(self: &Arc<Self>) {
        if let Some(threads) = Threads::start(self) {
            let _ = self.threads.set(threads);
        }
    }

    /// Keeps compiled pipelines for the next run, once nothing is under way.
    pub fn save_pipelines(&self) {
        lock(&self.encoder).save();
    }
}

impl Execute for Executor {
    fn check(&self) -> Result<()> {
        self.check_lost()
    }

    fn hand_over(&self, batch: Batch) -> Ops {
        self.hand_over_batch(batch)
    }

    fn settle(&self) {
        if let Some(threads) = self.threads.get() {
            threads.settle();
        }
    }

    fn take_error(&self) -> Option<Error> {
        self.take_kept_error()
    }

    fn keep_error(&self, error: Error) {
        self.keep(error);
    }

    fn upload(&self, bytes: &[u8], may_wait: bool) -> Result<Value> {
        self.upload_bytes(bytes, may_wait)
    }
}
