//! Turns recorded ops into GPU work in three stages: fusion rules rewrite the ops, the encoder translates them to commands, and the
//! commands are submitted.
//!
//! A [`Schedule`] determines where the stages run: [`inline`] on the caller's thread, as in browsers, or [`threaded`], with one thread per
//! stage. It is chosen when the device is created.

pub(crate) mod encode;
pub(crate) mod fault;
#[cfg_attr(target_arch = "wasm32", path = "inline_web.rs")]
pub(crate) mod inline;
pub(crate) mod readback;
pub(crate) mod schedule;
pub(crate) mod submit;
pub(crate) mod threaded;
pub(crate) mod upload;
#[cfg_attr(target_arch = "wasm32", path = "wait_web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "wait_native.rs")]
pub(crate) mod wait;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::debug::check_nan::NanCheck;
use crate::debug::in_flight::InFlight;
use crate::error::{Error, Result};
use crate::executor::encode::Encoder;
use crate::executor::inline::Inline;
use crate::executor::schedule::Schedule;
use crate::executor::submit::Submitter;
use crate::executor::threaded::Threaded;
use crate::fusion::Rewrites;
use crate::memory::buffer::Value;
use crate::recorder::batch::Batch;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Ops;
use crate::recorder::Execute;
use crate::shader::compile::immediates;
use crate::shader::pipeline_cache::Pipelines;
use crate::shader::precompile::Precompiler;

#[derive(Default)]
pub(crate) struct Counters {
    pub dispatches: AtomicU64,
    pub submits: AtomicU64,
    pub readbacks: AtomicU64,
    pub uploads: AtomicU64,
}

/// Settings of an executor; see `device/env.rs`.
pub(crate) struct Options {
    /// Longest wait without a finished submit; `None` waits forever.
    pub timeout: Option<Duration>,
    /// Checks the operands of each op for NaN and infinity.
    pub check_nan: bool,
    /// Prints the name of each op to stderr before it is encoded.
    pub log: bool,
    /// Use the threaded schedule if the platform has threads.
    pub threaded: bool,
}

/// Rewrites, encodes and submits recorded ops, and reads values back.
pub(crate) struct Executor {
    pub gpu: Arc<Gpu>,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub options: Options,
    /// Parameters are immediates instead of a uniform buffer.
    immediates: bool,
    nan_check: Option<NanCheck>,
    pub rules: Rewrites,
    pub encoder: CachePadded<Mutex<Encoder>>,
    submitter: CachePadded<Mutex<Submitter>>,
    /// The uniform buffer with the parameters of one submit's dispatches; unused with immediates.
    params: wgpu::Buffer,
    pub precompiler: Arc<Precompiler>,
    /// The newest ops, kept back because ops of the next batch may fuse with them.
    deferred: CachePadded<Mutex<Ops>>,
    schedule: Box<dyn Schedule>,
    in_flight: CachePadded<Mutex<InFlight>>,
    staging: Mutex<Vec<wgpu::Buffer>>,
    pub counters: CachePadded<Counters>,
    /// The error that the next call returns.
    stored_error: Arc<Mutex<Option<Error>>>,
    /// A validation error of wgpu whose cause is not known yet.
    uncaptured_error: Arc<Mutex<Option<Error>>>,
    /// Set once the device accepts no more work: the reason.
    lost: Arc<OnceLock<Error>>,
}

impl Executor {
    pub fn new(
        gpu: Arc<Gpu>,
        (device, queue): (wgpu::Device, wgpu::Queue),
        pipelines: Pipelines,
        rules: Rewrites,
        options: Options,
    ) -> Arc<Self> {
        let threaded = options.threaded;
        let schedule = |executor: &Weak<Executor>| -> Box<dyn Schedule> {
            let threaded = threaded.then(|| Threaded::start(executor, gpu.software));
            match threaded.flatten() {
                Some(threaded) => Box::new(threaded),
                None => Box::new(Inline::new(executor)),
            }
        };
        let executor = Arc::new_cyclic(|executor| Executor {
            schedule: schedule(executor),
            immediates: immediates(&device),
            nan_check: options.check_nan.then(NanCheck::default),
            rules,
            precompiler: pipelines.precompiler.clone(),
            encoder: CachePadded::new(Mutex::new(Encoder::new(pipelines))),
            submitter: CachePadded::default(),
            params: submit::params_buffer(&device),
            deferred: CachePadded::default(),
            in_flight: CachePadded::default(),
            staging: Mutex::default(),
            counters: CachePadded::default(),
            stored_error: Arc::default(),
            uncaptured_error: Arc::default(),
            lost: Arc::default(),
            gpu: gpu.clone(),
            options,
            device,
            queue,
        });
        executor.register_error_callbacks();
        executor
    }

    /// Waits until no stage has work.
    pub fn wait_idle(&self) {
        self.schedule.wait_idle();
    }
}

impl Execute for Executor {
    fn check_lost(&self) -> Result<()> {
        Executor::check_lost(self)
    }

    fn execute(&self, batch: Batch) -> Vec<Batch> {
        self.schedule.rewrite(self, batch)
    }

    fn wait_idle(&self) {
        Executor::wait_idle(self);
    }

    fn take_stored_error(&self) -> Option<Error> {
        Executor::take_stored_error(self)
    }

    fn store_error(&self, error: Error) {
        Executor::store_error(self, error);
    }

    fn allocate_upload(&self, bytes: u64, may_wait: bool) -> Result<Value> {
        Executor::allocate_upload(self, bytes, may_wait)
    }

    fn write_upload(&self, value: &Value, at: u64, bytes: &[u8]) -> Result<()> {
        Executor::write_upload(self, value, at, bytes)
    }
}
