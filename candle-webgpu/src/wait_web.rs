//! Waiting, in a browser: nothing may block there, so a call is an error that names what to await instead. With the
//! feature `jspi` it works below an export that suspends.

use std::future::Future;

use crate::error::{Error, Result};
use crate::ready::Ready;

/// Whether `call` may wait; if not, the error names its `twin`.
pub(crate) fn may_block(call: &'static str, twin: &'static str) -> Result<()> {
    match suspend::possible() {
        true => Ok(()),
        false => Err(Error::Blocking { call, twin }),
    }
}

/// Runs a future to its end; [`may_block`] has been asked.
pub(crate) fn block_on<T: 'static>(future: impl Future<Output = T> + 'static) -> Result<T> {
    suspend::on(future)
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
    _check: impl Fn() -> Result<()>,
) -> Result<bool> {
    suspend::on(ready.clone())
}

/// The browser polls the device.
pub(crate) async fn until(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
) -> bool {
    ready.await
}

/// JavaScript Promise Integration: the stack of a call from JavaScript is put aside until a promise settles.
#[cfg(feature = "jspi")]
mod suspend {
    use std::cell::RefCell;
    use std::future::Future;
    use std::rc::Rc;

    use js_sys::futures::future_to_promise;
    use wasm_bindgen::JsValue;

    use crate::error::{Error, Result};

    #[link(wasm_import_module = "__wbindgen_placeholder__")]
    extern "C" {
        /// js-sys's own question whether there is an export that suspends below; wasm-bindgen answers it.
        fn __wbindgen_jspi_in_context() -> u32;
    }

    pub fn possible() -> bool {
        // SAFETY: it reads a global variable of the module.
        unsafe { __wbindgen_jspi_in_context() != 0 }
    }

    pub fn on<T: 'static>(future: impl Future<Output = T> + 'static) -> Result<T> {
        let result = Rc::new(RefCell::new(None));
        let kept = result.clone();
        let promise = future_to_promise(async move {
            let value = future.await;
            *kept.borrow_mut() = Some(value);
            Ok(JsValue::UNDEFINED)
        });
        #[allow(deprecated, reason = "that is how js-sys marks it as experimental")]
        let settled = js_sys::futures::jspi_block_on_promise(&promise);
        let failed = |message: String| Error::Invalid {
            op: "suspend",
            message,
        };
        settled.map_err(|e| failed(format!("{e:?}")))?;
        let value = result.borrow_mut().take();
        value.ok_or_else(|| failed("the promise settled without a value".into()))
    }
}

#[cfg(not(feature = "jspi"))]
mod suspend {
    use std::future::Future;

    use crate::error::{Error, Result};

    pub fn possible() -> bool {
        false
    }

    pub fn on<T>(_: impl Future<Output = T>) -> Result<T> {
        Err(Error::Invalid {
            op: "suspend",
            message: "a browser cannot block".into(),
        })
    }
}
