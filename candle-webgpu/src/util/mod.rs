//! Helpers that do not depend on the rest of the crate.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

#[cfg_attr(target_arch = "wasm32", path = "block_web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "block_native.rs")]
pub(crate) mod block;
#[cfg(target_arch = "wasm32")]
pub(crate) mod browser;
mod error_scope;
pub(crate) mod ready;
pub(crate) use error_scope::scoped;

/// Locks a mutex and ignores poisoning.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether every subgroup has at least 64 invocations, given the fewest and the most of the adapter's. So it is on AMD's GCN.
pub(crate) fn is_wide(subgroup: Option<(u32, u32)>) -> bool {
    subgroup.is_some_and(|(least, _)| least >= 64)
}

/// Joins threads, except the current one.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let me = std::thread::current().id();
    let others = threads.into_iter().filter(|t| t.thread().id() != me);
    // Ignore panics: a worker's panic is already stored as an error of its device.
    others.for_each(|thread| drop(thread.join()));
}
