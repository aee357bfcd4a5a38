//! Waiting, in a browser: nothing may block there, so a call is an error that names what to await instead. With the
//! feature `jspi` it works below [`suspending`].

use std::future::Future;

use crate::error::{Error, Result};
use crate::ready::Ready;

/// What the user called, and what to await instead.
pub(crate) type Call = (&'static str, &'static str);

/// Whether `call` may wait; if not, the error names its `twin`.
pub(crate) fn may_block((call, twin): Call) -> Result<()> {
    match suspend::possible() {
        true => Ok(()),
        false => Err(Error::Blocking { call, twin }),
    }
}

/// Runs a future to its end; [`may_block`] has been asked.
pub(crate) fn block_on<T: 'static>(
    future: impl Future<Output = T> + 'static,
    call: Call,
) -> Result<T> {
    suspend::on(future, call)
}

/// Makes something. What is wrong with it is known later, and comes back from the next readback.
pub(crate) fn scoped<T>(
    _device: &wgpu::Device,
    _filter: wgpu::ErrorFilter,
    make: impl FnOnce() -> T,
) -> (T, Option<wgpu::Error>) {
    (make(), None)
}

/// Waits until `ready` is over.
pub(crate) fn block(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: &Ready,
    call: Call,
    _check: impl Fn() -> Result<()>,
) -> Result<bool> {
    suspend::on(ready.clone(), call)
}

/// The browser polls the device.
pub(crate) async fn until(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
) -> bool {
    ready.await
}

#[cfg(feature = "jspi")]
pub use suspend::suspending;

/// JavaScript Promise Integration: the stack of a call from JavaScript is put aside until a promise settles.
#[cfg(feature = "jspi")]
mod suspend {
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::rc::Rc;

    use js_sys::futures::future_to_promise;
    use wasm_bindgen::JsValue;

    use super::Call;
    use crate::error::{Error, Result};

    thread_local! {
        /// Whether what runs now is called from `suspending`.
        static BELOW: Cell<bool> = const { Cell::new(false) };
    }

    /// Lets `work` block: a readback suspends it. Only below an export marked `#[wasm_bindgen(jspi)]`, with no JavaScript in
    /// between; elsewhere the browser throws a `SuspendError`.
    pub fn suspending<T>(work: impl FnOnce() -> T) -> T {
        let before = BELOW.replace(true);
        let result = work();
        BELOW.set(before);
        result
    }

    pub fn possible() -> bool {
        BELOW.get()
    }

    pub fn on<T: 'static>(
        future: impl Future<Output = T> + 'static,
        (call, twin): Call,
    ) -> Result<T> {
        let result = Rc::new(RefCell::new(None));
        let kept = result.clone();
        let promise = future_to_promise(async move {
            let value = future.await;
            *kept.borrow_mut() = Some(value);
            Ok(JsValue::UNDEFINED)
        });
        // Others run meanwhile, and they are not below.
        let below = BELOW.replace(false);
        #[allow(deprecated, reason = "that is how js-sys marks it as experimental")]
        let settled = js_sys::futures::jspi_block_on_promise(&promise);
        BELOW.set(below);
        // The promise itself is never rejected.
        let value = settled.ok().and_then(|_| result.borrow_mut().take());
        value.ok_or(Error::Blocking { call, twin })
    }
}

#[cfg(not(feature = "jspi"))]
mod suspend {
    use std::future::Future;

    use super::Call;
    use crate::error::{Error, Result};

    pub fn possible() -> bool {
        false
    }

    pub fn on<T>(_: impl Future<Output = T>, (call, twin): Call) -> Result<T> {
        Err(Error::Blocking { call, twin })
    }
}
