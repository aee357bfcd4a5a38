//! Helpers that know nothing of GPUs.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) mod apart;
mod error_scope;
pub(crate) mod hash;
pub(crate) use error_scope::scoped;
pub(crate) use hash::Map;

/// Locks a mutex. A thread that panicked while it held the lock does not poison it for the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
