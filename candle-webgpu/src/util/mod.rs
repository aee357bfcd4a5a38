//! Helpers that know nothing of GPUs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

mod error_scope;
pub(crate) use error_scope::scoped;

/// Locks a mutex. A thread that panicked while it held the lock does not poison it for the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for threads to end, but for the one that this is.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let me = std::thread::current().id();
    let others = threads.into_iter().filter(|t| t.thread().id() != me);
    // A panic has been reported by who had it.
    others.for_each(|thread| drop(thread.join()));
}
