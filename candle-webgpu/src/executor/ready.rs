//! What the device tells when it is done, for those who block and for those who await.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::util::lock;

#[derive(Default)]
struct State {
    /// Whether it went well, once it is over.
    done: Option<bool>,
    waker: Option<Waker>,
}

/// Over when wgpu has called back; its value tells whether that went well.
#[derive(Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<State>>);

impl Ready {
    pub fn finish(&self, well: bool) {
        let waker = {
            let mut state = lock(&self.0);
            state.done = Some(well);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn done(&self) -> Option<bool> {
        lock(&self.0).done
    }
}

impl Future for Ready {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        if let Some(well) = state.done {
            return Poll::Ready(well);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
