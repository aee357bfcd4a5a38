//! Waiting, in a browser: nothing may block there, so a call is an error that names what to await instead. Below
//! [`suspending`] it works.

use std::future::Future;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::executor::ready::Ready;

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

/// Waits until `ready` is over.
pub(crate) fn block(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: &Ready,
    call: Call,
    _spin: Duration,
    _wait: impl Fn(Option<wgpu::SubmissionIndex>) -> Result<()>,
) -> Result<bool> {
    suspend::on(ready.clone(), call)
}

/// Nobody looks for work in a loop.
pub(crate) fn breathe() {}

/// The browser polls the device.
pub(crate) fn poll(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    _timeout: Option<Duration>,
) -> Result<bool> {
    Ok(true)
}

/// The browser polls the device, and has a time limit of its own.
pub(crate) async fn until(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
    _timeout: Option<Duration>,
) -> bool {
    ready.await
}

pub use suspend::suspending;

/// JavaScript Promise Integration: the stack of a call from JavaScript is put aside until a promise settles.
#[allow(deprecated, reason = "that is how js-sys marks JSPI as experimental")]
mod suspend {
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::rc::Rc;

    use js_sys::futures::{future_to_promise, jspi_block_on_promise};
    use js_sys::Promise;
    use wasm_bindgen::JsValue;

    use super::Call;
    use crate::error::{Error, Result};

    type Wait = fn(&Promise) -> std::result::Result<JsValue, JsValue>;

    thread_local! {
        /// How to wait, where what runs now is called from `suspending`. Nothing else names the import that needs JSPI, so a
        /// module without `suspending` loads in every browser.
        static WAIT: Cell<Option<Wait>> = const { Cell::new(None) };
    }

    /// Lets `work` block: a readback suspends it. Only below an export marked `#[wasm_bindgen(jspi)]`, with no JavaScript in
    /// between; elsewhere the browser throws a `SuspendError`. A module that calls this loads only where the browser has JSPI.
    pub fn suspending<T>(work: impl FnOnce() -> T) -> T {
        let before = WAIT.replace(Some(jspi_block_on_promise));
        let result = work();
        WAIT.set(before);
        result
    }

    pub fn possible() -> bool {
        WAIT.get().is_some()
    }

    pub fn on<T: 'static>(
        future: impl Future<Output = T> + 'static,
        (call, twin): Call,
    ) -> Result<T> {
        let blocking = Error::Blocking { call, twin };
        // Others run meanwhile, and they are not below.
        let Some(wait) = WAIT.take() else {
            return Err(blocking);
        };
        let result = Rc::new(RefCell::new(None));
        let kept = result.clone();
        let promise = future_to_promise(async move {
            let value = future.await;
            *kept.borrow_mut() = Some(value);
            Ok(JsValue::UNDEFINED)
        });
        let settled = wait(&promise);
        WAIT.set(Some(wait));
        // The promise itself is never rejected.
        let value = settled.ok().and_then(|_| result.borrow_mut().take());
        value.ok_or(blocking)
    }
}
