//! Compiles pipelines in parallel before the encoder needs them. A driver takes 5 to 500 ms per pipeline, and a model's first pass needs
//! about ten at once. Without threads, the encoder compiles them one by one. For browsers, see `precompile_web.rs`.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::shader::compile::{Compiler, Pipeline};
use crate::shader::Specialization;
use crate::util::{join, lock};
use rustc_hash::FxHashMap;

/// More threads use much memory, and concurrent driver compilers slow each other down.
const MAX_THREADS: usize = 8;

pub(crate) struct Precompiler {
    shared: Arc<Shared>,
    /// The last submit needed pipelines that were not compiled.
    cold: AtomicBool,
}

struct Shared {
    compiler: Compiler,
    /// Maximum compile threads; 0 if the platform has no threads.
    max_threads: usize,
    state: Mutex<State>,
    /// Signals a finished pipeline.
    compiled: Condvar,
}

#[derive(Default)]
struct State {
    /// Pipelines to compile, in the order of use.
    queue: VecDeque<Specialization>,
    stages: FxHashMap<Specialization, Stage>,
    /// Number of threads that take from the queue.
    threads: usize,
    /// Threads that may still run.
    started: Vec<JoinHandle<()>>,
}

enum Stage {
    Queued,
    InProgress,
    Done(Result<Arc<Pipeline>>),
}

impl Precompiler {
    pub fn new(compiler: Compiler) -> Self {
        let cores = std::thread::available_parallelism();
        Precompiler {
            shared: Arc::new(Shared {
                compiler,
                max_threads: cores.map_or(0, |cores| cores.get().min(MAX_THREADS)),
                state: Mutex::default(),
                compiled: Condvar::new(),
            }),
            cold: AtomicBool::new(true),
        }
    }

    pub fn compiler(&self) -> &Compiler {
        &self.shared.compiler
    }

    /// Drops all pipelines. None may be in progress.
    pub fn clear(&self) {
        lock(&self.shared.state).stages.clear();
    }

    /// Whether requests are worthwhile. A program with all its pipelines compiled should not pay for them.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    pub fn set_cold(&self, cold: bool) {
        if self.cold.swap(cold, Ordering::Relaxed) && !cold {
            let mut state = lock(&self.shared.state);
            state.started.retain(|thread| !thread.is_finished());
        }
    }

    /// Starts to compile missing pipelines. Every request must be followed by a [`get`](Self::get).
    pub fn request<'a>(&self, specs: impl Iterator<Item = &'a Specialization>) {
        let shared = &self.shared;
        if shared.max_threads == 0 {
            return;
        }
        let mut state = lock(&shared.state);
        for spec in specs {
            if !state.stages.contains_key(spec) {
                state.stages.insert(spec.clone(), Stage::Queued);
                state.queue.push_back(spec.clone());
            }
        }
        for _ in state.threads..shared.max_threads.min(state.threads + state.queue.len()) {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name("candle-webgpu-compile".into());
            // If no thread can be started, the encoder compiles the pipeline.
            if let Ok(started) = thread.spawn(move || shared.work()) {
                state.threads += 1;
                state.started.retain(|thread| !thread.is_finished());
                state.started.push(started);
            }
        }
    }

    /// The pipeline of a specialization. Waits for the thread that compiles it, or compiles it on this thread. The next call retries a
    /// failure. Never `None`, which a browser's precompiler returns instead of waiting.
    pub fn get(&self, spec: &Specialization) -> Result<Option<Arc<Pipeline>>> {
        let shared = &self.shared;
        let mut state = lock(&shared.state);
        loop {
            match state.stages.get(spec) {
                Some(Stage::Done(made)) => {
                    let made = made.clone();
                    if made.is_err() {
                        state.stages.remove(spec);
                    }
                    return made.map(Some);
                }
                Some(Stage::InProgress) => {
                    let waited = shared.compiled.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Some(Stage::Queued) | None => {
                    state.queue.retain(|other| other != spec);
                    state.stages.insert(spec.clone(), Stage::InProgress);
                    drop(state);
                    shared.compile(spec);
                    state = lock(&shared.state);
                }
            }
        }
    }
}

impl Drop for Precompiler {
    /// Joins the threads: none may be inside a driver when the program ends, or be the last owner of the device.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.queue.clear();
        let started = std::mem::take(&mut state.started);
        drop(state);
        join(started);
    }
}

impl Shared {
    /// Compiles queued pipelines until the queue is empty.
    fn work(&self) {
        loop {
            let mut state = lock(&self.state);
            let Some(spec) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            state.stages.insert(spec.clone(), Stage::InProgress);
            drop(state);
            self.compile(&spec);
        }
    }

    /// Compiles a pipeline that is marked as in progress, and wakes the threads that wait for it, even after a panic.
    fn compile(&self, spec: &Specialization) {
        let compiled = catch_unwind(AssertUnwindSafe(|| self.compiler.compile(spec)));
        let made = compiled.unwrap_or_else(|panic| Err(Error::of_panic(panic)));
        let mut state = lock(&self.state);
        let made = Stage::Done(made.map(Arc::new));
        state.stages.insert(spec.clone(), made);
        self.compiled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::DType;
    use crate::kernel::elementwise::unary::UNARY;
    use crate::shader::Access;

    const F32: [(DType, Access); 2] = [(DType::F32, Access::Flat), (DType::F32, Access::Put)];

    fn device() -> Device {
        Device::separate(0).expect("an adapter")
    }

    fn precompiler(device: &Device) -> Precompiler {
        let device = device.executor().device.clone();
        Precompiler::new(Compiler::new(device, String::new(), false, None))
    }

    #[test]
    fn each_pipeline_is_compiled_once() {
        let device = device();
        let precompiler = precompiler(&device);
        let specs = ["uexp", "uneg", "usin", "ucos", "uabs"]
            .map(|op| Specialization::new(&UNARY, op, &F32));
        precompiler.request(specs.iter());
        precompiler.request(specs.iter().rev());
        assert_eq!(lock(&precompiler.shared.state).stages.len(), specs.len());
        let first: Vec<_> = specs
            .iter()
            .map(|s| precompiler.get(s).expect("one").expect("compiled"))
            .collect();
        for (spec, first) in specs.iter().zip(&first) {
            let again = precompiler.get(spec).expect("one");
            assert!(Arc::ptr_eq(first, &again.expect("compiled")));
        }
        assert!(lock(&precompiler.shared.state).queue.is_empty());
    }

    /// An error on a compile thread is returned only to the caller that needs the pipeline.
    #[test]
    fn a_failure_is_returned_for_its_pipeline_only() {
        let device = device();
        let precompiler = precompiler(&device);
        let (bad, good) = (
            Specialization::new(&UNARY, "no such op", &F32),
            Specialization::new(&UNARY, "uexp", &F32),
        );
        precompiler.request([&bad, &good].into_iter());
        for _ in 0..2 {
            assert!(precompiler.get(&bad).is_err());
            assert!(precompiler.get(&good).is_ok());
        }
    }

    #[test]
    fn a_loop_without_new_kernels_is_not_cold() {
        let device = device();
        for cold in [true, false] {
            device.fill(64, DType::F32, 0).expect("recorded");
            device.synchronize().expect("no error");
            assert_eq!(device.executor().precompiler.is_cold(), cold);
        }
    }
}
