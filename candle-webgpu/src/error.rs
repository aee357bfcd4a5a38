//! The error type. Variants carry the facts of a failure: op, dtype, limit, adapter.

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("no WebGPU adapter found{found}. {advice}")]
    NoAdapter { found: String, advice: &'static str },

    #[error("no WebGPU adapter has index {ordinal}; found: {found}")]
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

    #[error("the WebGPU device on {adapter} could not be created: {message}")]
    Device { adapter: String, message: String },

    #[error("{op} is not implemented for {dtype} on the WebGPU device")]
    Unsupported {
        op: &'static str,
        dtype: &'static str,
    },

    #[error("{op}: {message}")]
    Invalid { op: &'static str, message: String },

    #[error("{op} needs {bytes} bytes in {of}, {adapter} allows {limit}{advice}")]
    TooLarge {
        op: &'static str,
        bytes: u64,
        /// The resource whose limit is exceeded.
        of: &'static str,
        limit: u64,
        adapter: String,
        /// What the user can do; may be empty.
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

    /// Returned when an allocation still fails after waiting for the device and returning idle memory to the driver. Existing tensors stay
    /// valid.
    #[error(
        "out of memory on {adapter}: {requested} bytes requested, {in_use} in use, {pooled} idle bytes were returned to the driver{}",
        .budget.map(|bytes| format!("; CANDLE_WEBGPU_MEMORY_LIMIT allows {bytes}")).unwrap_or_default()
    )]
    OutOfMemory {
        requested: u64,
        in_use: u64,
        pooled: u64,
        /// The limit set by the environment, if any.
        budget: Option<u64>,
        adapter: String,
    },

    #[error("{op}: index {index} is out of range for a dimension of size {size}")]
    IndexOutOfRange {
        op: &'static str,
        index: i64,
        size: u64,
    },

    /// Returned only with `CANDLE_WEBGPU_CHECK_NAN=1`.
    #[error("{kernel} made {what} from finite operands (checked op {number})")]
    NotFinite {
        /// The label of the pipeline.
        kernel: String,
        number: u32,
        what: &'static str,
    },

    #[error("{kernel} is denied by CANDLE_WEBGPU_DENY, and no other kernel computes the op")]
    Denied { kernel: &'static str },

    #[error("shader {name}: {message}")]
    Shader { name: String, message: String },

    #[error("WebGPU validation: {0}")]
    Validation(String),

    #[error(
        "the WebGPU device on {adapter} was lost: {reason}. Create a new one with Device::new_webgpu"
    )]
    Lost { adapter: String, reason: String },

    /// A submit did not finish in time. The device accepts no more work.
    #[error(
        "{adapter} did not finish a submit for {seconds} s (CANDLE_WEBGPU_TIMEOUT); in flight: {kernels}. Create a new device with \
         Device::new_webgpu"
    )]
    Timeout {
        adapter: String,
        seconds: f64,
        kernels: String,
    },

    #[error("{call} blocks, which a browser does not allow: await {instead} instead")]
    Blocking {
        call: &'static str,
        instead: &'static str,
    },

    #[error("reading back from {adapter} failed: {message}")]
    Readback { adapter: String, message: String },
}

impl Error {
    /// Converts the panic of a worker thread, which is reported instead of unwound into the caller.
    pub(crate) fn of_panic(panic: Box<dyn std::any::Any + Send>) -> Self {
        let texts = (panic.downcast_ref(), panic.downcast_ref::<&str>());
        let text = texts.0.cloned().or(texts.1.map(|text| text.to_string()));
        Error::Validation(text.unwrap_or_default())
    }
}
