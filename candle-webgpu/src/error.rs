//! The one error type. Each variant carries the facts: op, dtype, limit or adapter.

use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("no WebGPU adapter found{found}. {advice}")]
    NoAdapter { found: String, advice: &'static str },

    #[error("there is no WebGPU adapter {ordinal}; found: {found}")]
    BadOrdinal { ordinal: usize, found: String },

    #[error("CANDLE_WEBGPU_ADAPTER={name:?} matches no adapter; found: {found}")]
    UnknownAdapter { name: String, found: String },

    #[error("{variable}={value:?} is not {wants}")]
    BadVariable {
        variable: &'static str,
        value: String,
        wants: String,
    },

    #[error("{variable} names {value:?}, which is now called {now:?}")]
    RenamedValue {
        variable: &'static str,
        value: String,
        now: &'static str,
    },

    #[error("the WebGPU device on {adapter} could not be made: {message}")]
    Device { adapter: String, message: String },

    #[error("{op} is not implemented for {dtype} on the WebGPU device")]
    Unsupported {
        op: &'static str,
        /// Its name.
        dtype: &'static str,
    },

    #[error("{op} is not implemented on the WebGPU device yet")]
    UnsupportedOp { op: &'static str },

    #[error("{op}: {message}")]
    Invalid { op: &'static str, message: String },

    #[error("{op} needs {bytes} bytes in {of}, {adapter} allows {limit}{advice}")]
    TooLarge {
        op: &'static str,
        bytes: u64,
        /// What is too small.
        of: &'static str,
        limit: u64,
        adapter: String,
        /// What to do, if anything helps.
        advice: &'static str,
    },

    #[error("{kernel} needs {needed} {what}, {adapter} allows {limit}")]
    OverLimit {
        kernel: String,
        what: &'static str,
        needed: u64,
        limit: u64,
        adapter: String,
    },

    /// Work that was under way has been waited for, and idle memory given back, before the last try. What holds memory keeps it.
    #[error(
        "out of memory on {adapter}: {requested} bytes asked for, {in_use} in use, {pooled} idle ones were given back{budget}"
    )]
    OutOfMemory {
        requested: u64,
        in_use: u64,
        pooled: u64,
        /// What the environment allows, if that was the limit.
        budget: Budget,
        adapter: String,
    },

    #[error("{op}: index {index} is out of range for a dimension of size {size}")]
    IndexOutOfRange {
        op: &'static str,
        index: i64,
        size: u64,
    },

    /// By `CANDLE_WEBGPU_CHECK_NAN`.
    #[error("{kernel} made {what} of operands without (op {number} that was checked)")]
    NotFinite {
        /// The label of its pipeline.
        kernel: String,
        number: u32,
        what: &'static str,
    },

    #[error("{kernel} is denied (CANDLE_WEBGPU_DENY), and there is no other kernel for it")]
    Denied { kernel: &'static str },

    #[error("shader {name}: {message}")]
    Shader { name: String, message: String },

    #[error("WebGPU validation: {0}")]
    Validation(String),

    #[error(
        "the WebGPU device on {adapter} was lost: {reason}. Make a new one with Device::new_webgpu"
    )]
    Lost { adapter: String, reason: String },

    /// The device takes no more work.
    #[error(
        "{adapter} did not finish anything for {seconds} s (CANDLE_WEBGPU_TIMEOUT); in flight: {kernels}. Make a new device with \
         Device::new_webgpu"
    )]
    Timeout {
        adapter: String,
        seconds: f64,
        kernels: String,
    },

    #[error("{call} waits for the device, which a browser does not allow: await {twin} instead")]
    Blocking {
        call: &'static str,
        twin: &'static str,
    },

    #[error("reading back from {adapter} failed: {message}")]
    Readback { adapter: String, message: String },
}

impl Error {
    /// What a thread of ours stumbled over, in place of unwinding into its caller.
    pub(crate) fn of_panic(panic: Box<dyn std::any::Any + Send>) -> Self {
        let texts = (panic.downcast_ref(), panic.downcast_ref::<&str>());
        let text = texts.0.cloned().or(texts.1.map(|text| text.to_string()));
        Error::Validation(text.unwrap_or_default())
    }
}

/// Bytes that `CANDLE_WEBGPU_MEMORY_LIMIT` allows, where it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(pub Option<u64>);

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "; CANDLE_WEBGPU_MEMORY_LIMIT allows {bytes}"),
            None => Ok(()),
        }
    }
}
