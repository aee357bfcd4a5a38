//! A flag that is set by a wgpu callback and polled or awaited by a caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::util::lock;

#[derive(Default)]
struct State {
    /// Whether the callback reported success; set once.
    result: Option<bool>,
    waker: Option<Waker>,
    /// The submit that the callback follows, once there is one.
    index: Option<wgpu::SubmissionIndex>,
}

/// A future that completes when a wgpu callback runs. Its output is whether the callback reported success.
#[derive(Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<State>>);

/// The callback's side of a [`Ready`]. Dropped without a result, it reports failure.
pub(crate) struct Signal(Ready);

impl Signal {
    pub fn finish(&self, success: bool) {
        self.0.finish(success);
    }

    /// Notes the submit that the callback follows.
    pub fn set_index(&self, index: Option<wgpu::SubmissionIndex>) {
        lock(&self.0 .0).index = index;
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Ready {
    /// A flag and the callback's side of it.
    pub fn new() -> (Self, Signal) {
        let ready = Ready::default();
        (ready.clone(), Signal(ready))
    }

    /// Sets the result, unless there is one.
    fn finish(&self, success: bool) {
        let mut state = lock(&self.0);
        state.result.get_or_insert(success);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Reports failure, unless there is a result.
    pub fn give_up(&self) {
        self.finish(false);
    }

    /// The submit that the callback follows; `None` if it is not submitted yet.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn index(&self) -> Option<wgpu::SubmissionIndex> {
        lock(&self.0).index.clone()
    }

    /// `None` until the callback has run.
    pub fn result(&self) -> Option<bool> {
        lock(&self.0).result
    }
}

impl Future for Ready {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if let Some(success) = state.result {
            return Poll::Ready(success);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
