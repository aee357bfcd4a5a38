//! Compiling ahead: some threads make the pipelines of ops that were sent, or stand behind the one that is being encoded, before
//! the encoder asks for them. A driver takes 5 to 500 ms for one, and a model's first pass needs some ten at once. Where there are no
//! threads (browsers) the encoder makes one after the other.

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

/// More threads would hold much memory, and a driver's compilers get into each other's way.
const THREADS: usize = 8;

pub(crate) struct Ahead {
    shared: Arc<Shared>,
    /// The last ops that were encoded needed pipelines that were not there.
    cold: AtomicBool,
}

struct Shared {
    compiler: Compiler,
    /// Threads at once; 0 where there are none.
    most: usize,
    state: Mutex<State>,
    /// A pipeline was made.
    made: Condvar,
}

#[derive(Default)]
struct State {
    /// What no thread has begun yet, in the order in which it will be asked for.
    line: VecDeque<Specialization>,
    stages: FxHashMap<Specialization, Stage>,
    /// How many look at the line.
    threads: usize,
    /// All that may not have ended yet.
    started: Vec<JoinHandle<()>>,
}

enum Stage {
    InLine,
    UnderWay,
    Made(Result<Arc<Pipeline>>),
}

impl Ahead {
    pub fn new(compiler: Compiler) -> Self {
        let cores = std::thread::available_parallelism();
        Ahead {
            shared: Arc::new(Shared {
                compiler,
                most: cores.map_or(0, |cores| cores.get().min(THREADS)),
                state: Mutex::default(),
                made: Condvar::new(),
            }),
            cold: AtomicBool::new(true),
        }
    }

    pub fn compiler(&self) -> &Compiler {
        &self.shared.compiler
    }

    /// Whether shaders pack f16 by `pack2x16float` from now on; gives what it was. What was made otherwise is forgotten, so nothing
    /// may be under way.
    pub fn pack_f16(&self, packs: bool) -> bool {
        let was = self.compiler().pack_f16(packs);
        if was != packs {
            lock(&self.shared.state).stages.clear();
        }
        was
    }

    /// Whether it is worth while to say what will be wanted: a program that has all its pipelines should not pay for it.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    pub fn set_cold(&self, cold: bool) {
        if self.cold.swap(cold, Ordering::Relaxed) && !cold {
            let mut state = lock(&self.shared.state);
            state.started.retain(|thread| !thread.is_finished());
        }
    }

    /// Has threads begin what nobody has begun yet. Each has to be asked for some time.
    pub fn want<'a>(&self, specs: impl Iterator<Item = &'a Specialization>) {
        let shared = &self.shared;
        if shared.most == 0 {
            return;
        }
        let mut state = lock(&shared.state);
        for spec in specs {
            if !state.stages.contains_key(spec) {
                state.stages.insert(spec.clone(), Stage::InLine);
                state.line.push_back(spec.clone());
            }
        }
        for _ in state.threads..shared.most.min(state.threads + state.line.len()) {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name("candle-webgpu-compile".into());
            // Where no thread can be had the encoder will do it.
            if let Ok(started) = thread.spawn(move || shared.work()) {
                state.threads += 1;
                state.started.retain(|thread| !thread.is_finished());
                state.started.push(started);
            }
        }
    }

    /// The pipeline of a specialisation: waits for the thread that makes it, or makes it. What failed is tried again the next time.
    pub fn get(&self, spec: &Specialization) -> Result<Arc<Pipeline>> {
        let shared = &self.shared;
        let mut state = lock(&shared.state);
        loop {
            match state.stages.get(spec) {
                Some(Stage::Made(made)) => {
                    let made = made.clone();
                    if made.is_err() {
                        state.stages.remove(spec);
                    }
                    return made;
                }
                Some(Stage::UnderWay) => {
                    let waited = shared.made.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Some(Stage::InLine) | None => {
                    state.line.retain(|other| other != spec);
                    state.stages.insert(spec.clone(), Stage::UnderWay);
                    drop(state);
                    shared.make(spec);
                    state = lock(&shared.state);
                }
            }
        }
    }
}

impl Drop for Ahead {
    /// No thread is to be in a driver when the program ends, nor to be the last one to let go of the device.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.line.clear();
        let started = std::mem::take(&mut state.started);
        drop(state);
        join(started);
    }
}

impl Shared {
    /// Makes what stands in line, until nothing does.
    fn work(&self) {
        loop {
            let mut state = lock(&self.state);
            let Some(spec) = state.line.pop_front() else {
                state.threads -= 1;
                return;
            };
            state.stages.insert(spec.clone(), Stage::UnderWay);
            drop(state);
            self.make(&spec);
        }
    }

    /// Makes a pipeline that is under way. Whatever happens, whoever waits for it goes on.
    fn make(&self, spec: &Specialization) {
        let compiled = catch_unwind(AssertUnwindSafe(|| self.compiler.compile(spec)));
        let made = compiled.unwrap_or_else(|panic| Err(Error::of_panic(panic)));
        let mut state = lock(&self.state);
        let made = Stage::Made(made.map(Arc::new));
        state.stages.insert(spec.clone(), made);
        self.made.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::fusion::testing::Bench;
    use crate::kernel::elementwise::unary::UNARY;
    use crate::shader::Access;

    const F32: [(DType, Access); 2] = [(DType::F32, Access::Flat), (DType::F32, Access::Put)];

    fn ahead(b: &Bench) -> Ahead {
        let device = b.device.executor().device.clone();
        Ahead::new(Compiler::new(device, String::new(), false, None))
    }

    #[test]
    fn each_is_made_once_whoever_asks() {
        let b = Bench::new("");
        let ahead = ahead(&b);
        let specs = ["uexp", "uneg", "usin", "ucos", "uabs"]
            .map(|op| Specialization::new(&UNARY, op, &F32));
        ahead.want(specs.iter());
        ahead.want(specs.iter().rev());
        assert_eq!(lock(&ahead.shared.state).stages.len(), specs.len());
        let first: Vec<_> = specs.iter().map(|s| ahead.get(s).expect("one")).collect();
        for (spec, first) in specs.iter().zip(&first) {
            assert!(Arc::ptr_eq(first, &ahead.get(spec).expect("one")));
        }
        assert!(lock(&ahead.shared.state).line.is_empty());
    }

    /// Also where a thread found it: the error comes to who asks for the pipeline, and only for that.
    #[test]
    fn what_fails_says_so_to_who_asks() {
        let b = Bench::new("");
        let ahead = ahead(&b);
        let (bad, good) = (
            Specialization::new(&UNARY, "no such op", &F32),
            Specialization::new(&UNARY, "uexp", &F32),
        );
        ahead.want([&bad, &good].into_iter());
        for _ in 0..2 {
            assert!(ahead.get(&bad).is_err());
            assert!(ahead.get(&good).is_ok());
        }
    }

    #[test]
    fn a_loop_without_new_kernels_is_not_cold() {
        let b = Bench::new("-all");
        let x = b.floats(&[64]);
        for cold in [true, false] {
            b.unary("uexp", &x);
            b.device.synchronize().expect("no error");
            let executor = b.device.executor();
            assert_eq!(executor.ahead.is_cold(), cold);
        }
    }
}
