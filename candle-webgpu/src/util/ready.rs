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
}

/// A future that completes when a wgpu callback runs. Its output is whether the callback reported success.
#[derive(Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<State>>);

impl Ready {
    pub fn finish(&self, success: bool) {
        let waker = {
            let mut state = lock(&self.0);
            state.result = Some(success);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
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
