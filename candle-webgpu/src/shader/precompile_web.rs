//! Compiles pipelines in a browser: many at once, while the page goes on. The encoder cannot wait for them, so it stops where one is missing
//! and continues when that one is [compiled](Precompiler::until_compiled).

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use js_sys::futures::spawn_local;
use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::shader::compile::{Compiler, Pipeline};
use crate::shader::Specialization;
use crate::util::lock;
use crate::util::ready::Ready;

pub(crate) struct Precompiler {
    shared: Arc<Shared>,
    /// The last submit needed pipelines that were not compiled.
    cold: AtomicBool,
}

struct Shared {
    compiler: Compiler,
    stages: Mutex<FxHashMap<Specialization, Stage>>,
}

enum Stage {
    InProgress(Ready),
    Done(Result<Arc<Pipeline>>),
}

impl Precompiler {
    pub fn new(compiler: Compiler) -> Self {
        Precompiler {
            shared: Arc::new(Shared {
                compiler,
                stages: Mutex::default(),
            }),
            cold: AtomicBool::new(true),
        }
    }

    pub fn compiler(&self) -> &Compiler {
        &self.shared.compiler
    }

    /// Drops all pipelines. None may be in progress.
    pub fn clear(&self) {
        lock(&self.shared.stages).clear();
    }

    /// Whether requests are worthwhile. A program with all its pipelines compiled should not pay for them.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    pub fn set_cold(&self, cold: bool) {
        self.cold.store(cold, Ordering::Relaxed);
    }

    /// Starts to compile missing pipelines.
    pub fn request<'a>(&self, specs: impl Iterator<Item = &'a Specialization>) {
        for spec in specs {
            self.start(spec);
        }
    }

    /// Starts to compile a pipeline unless that was started before; returns the signal of its end if it is in progress.
    fn start(&self, spec: &Specialization) -> Option<Ready> {
        let mut stages = lock(&self.shared.stages);
        match stages.entry(spec.clone()) {
            Entry::Occupied(stage) => match stage.get() {
                Stage::InProgress(ready) => Some(ready.clone()),
                Stage::Done(_) => None,
            },
            Entry::Vacant(stage) => {
                let (ready, done) = Ready::new();
                stage.insert(Stage::InProgress(ready.clone()));
                let (shared, spec) = (self.shared.clone(), spec.clone());
                spawn_local(async move {
                    let made = shared.compiler.compile(&spec).await.map(Arc::new);
                    lock(&shared.stages).insert(spec, Stage::Done(made));
                    done.finish(true);
                });
                Some(ready)
            }
        }
    }

    /// The pipeline of a specialization; `None` while it is compiled. The next call retries a failure.
    pub fn get(&self, spec: &Specialization) -> Result<Option<Arc<Pipeline>>> {
        if self.start(spec).is_some() {
            return Ok(None);
        }
        let mut stages = lock(&self.shared.stages);
        match stages.get(spec) {
            Some(Stage::Done(Ok(pipeline))) => Ok(Some(pipeline.clone())),
            Some(Stage::Done(Err(error))) => {
                let error = error.clone();
                stages.remove(spec);
                Err(error)
            }
            _ => Ok(None),
        }
    }

    /// Awaits the end of a pipeline's compilation.
    pub async fn until_compiled(&self, spec: &Specialization) {
        if let Some(ready) = self.start(spec) {
            ready.await;
        }
    }
}
