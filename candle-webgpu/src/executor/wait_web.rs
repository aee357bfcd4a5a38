//! Waiting in a browser. Calls may block only inside [`suspending`]; elsewhere, a blocking call returns an error that names its async
//! counterpart.

use std::future::Future;
use std::time::Duration;

use js_sys::futures::spawn_local;

use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::util::browser;
use crate::util::ready::Ready;

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

/// Waits until `ready`, and returns its result.
pub(crate) fn block(
    _executor: &Executor,
    _index: Option<wgpu::SubmissionIndex>,
    ready: &Ready,
    call: Call,
) -> Result<bool> {
    suspend::on(ready.clone(), call)
}

/// Never called, since nothing spins in a browser.
pub(crate) fn spin_wait() {}

/// Always returns `true`: the browser polls the device.
pub(crate) fn poll(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    _timeout: Option<Duration>,
) -> Result<bool> {
    Ok(true)
}

/// Awaits `ready`. The browser polls the device and has its own timeout.
pub(crate) async fn until(
    _device: &wgpu::Device,
    _index: Option<wgpu::SubmissionIndex>,
    ready: Ready,
    _timeout: Option<Duration>,
) -> bool {
    ready.await
}

pub use suspend::suspending;

/// Milliseconds until the first empty submit. Each further interval is longer, so that the delay stays in proportion to the work.
const FIRST: f64 = 0.1;
const GROWTH: f64 = 1.03;
const LONGEST: f64 = 50.;

/// Makes empty submits until `ready`. Browsers look for finished work after each submit, but otherwise rarely: Chromium 156 every 2.6 ms, and
/// Firefox 159 ten times a second (bug 1870699).
pub(crate) fn poll_by_submits(queue: &wgpu::Queue, ready: &Ready) {
    let (queue, ready) = (queue.clone(), ready.clone());
    spawn_local(async move {
        let mut interval = FIRST;
        loop {
            browser::wait(interval).await;
            if ready.result().is_some() {
                return;
            }
            crate::executor::submit::submit_nothing(&queue);
            interval = (interval * GROWTH).min(LONGEST);
        }
    });
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
