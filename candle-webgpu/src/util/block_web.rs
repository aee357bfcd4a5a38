//! Blocking calls in a browser. They may block only inside [`suspending`]; elsewhere, a blocking call returns an error that names its async
//! counterpart.

use std::future::Future;

use crate::error::{Error, Result};

pub use suspend::suspending;

/// The name of a blocking call, and of its async counterpart.
pub(crate) type Call = (&'static str, &'static str);

/// Checks that `call` may block; the error names its async counterpart.
pub(crate) fn may_block((call, instead): Call) -> Result<()> {
    match suspend::possible() {
        true => Ok(()),
        false => Err(Error::Blocking { call, instead }),
    }
}

/// Runs a future to its end. Call [`may_block`] first.
pub(crate) fn block_on<T: 'static>(
    future: impl Future<Output = T> + 'static,
    call: Call,
) -> Result<T> {
    suspend::on(future, call)
}

/// JavaScript Promise Integration (JSPI): suspends the WebAssembly stack until a promise settles.
#[allow(deprecated, reason = "js-sys marks JSPI as experimental this way")]
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
        /// The function that waits; set inside `suspending`. Only `suspending` refers to the import that needs JSPI, so a module that does
        /// not use it loads in every browser.
        static WAIT: Cell<Option<Wait>> = const { Cell::new(None) };
    }

    /// Runs `work`, in which calls may block: a readback suspends the WebAssembly stack. Call this only from an export marked
    /// `#[wasm_bindgen(jspi)]`, with no JavaScript frames in between; otherwise the browser throws a `SuspendError`. A module that uses
    /// this function needs a browser with JSPI.
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
        (call, instead): Call,
    ) -> Result<T> {
        let blocking = Error::Blocking { call, instead };
        // Clear it while waiting: other tasks that run in the meantime are not inside `suspending`.
        let Some(wait) = WAIT.take() else {
            return Err(blocking);
        };
        let result = Rc::new(RefCell::new(None));
        let output = result.clone();
        let promise = future_to_promise(async move {
            let value = future.await;
            *output.borrow_mut() = Some(value);
            Ok(JsValue::UNDEFINED)
        });
        let settled = wait(&promise);
        WAIT.set(Some(wait));
        // The promise never rejects.
        let value = settled.ok().and_then(|_| result.borrow_mut().take());
        value.ok_or(blocking)
    }
}
