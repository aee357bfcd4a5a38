//! The runtime and the kernels behind Candle's `Device::WebGpu`. Knows nothing of Candle.
//!
//! The tables hold the backend at a glance: [`op::OPS`], [`elem::ELEMS`], [`quant::QUANTS`] and the kernel
//! rows in [`kernel`]. Everything is asynchronous: an op records a dispatch and returns; only reading back waits.

pub mod adapter;
mod ahead;
mod apart;
#[cfg(target_arch = "wasm32")]
mod browser;
mod buffer;
mod check;
mod compile;
mod cut;
mod device;
mod disk;
pub mod elem;
mod encode;
mod error;
mod f8e4m3;
mod fault;
mod flight;
mod hash;
pub mod kernel;
mod layout;
pub mod link;
pub mod op;
mod packing;
mod pipeline;
mod profile;
#[doc(hidden)]
pub mod provoke;
pub mod quant;
mod queue;
mod readback;
mod ready;
mod recorded;
mod rewrite;
mod settings;
mod submit;
#[cfg_attr(target_arch = "wasm32", path = "wait_web.rs")]
mod wait;
mod window;
mod worker;

pub use adapter::{adapters, adapters_async, AdapterReport, ADAPTER_VAR};
pub use buffer::Value;
pub use compile::CHECKED_VAR;
pub use device::{Device, Stats, DISABLE_VAR, ENABLE_VAR};
pub use disk::CACHE_VAR;
pub use elem::Elem;
pub use error::{Budget, Error, Result};
pub use layout::View;
pub use profile::{chrome_trace, Profile, Stopwatch, Timing};
pub use quant::Quant;
pub use queue::LOG_VAR;
pub use readback::Reading;
pub use recorded::Grid;
pub use rewrite::{Fired, Rule, REWRITE_VAR, RULES};
pub use settings::{
    CHECK_NAN_VAR, CPU_FALLBACK_VAR, DENY_VAR, MEMORY_VAR, TIMEOUT_VAR, VERIFY_VAR,
};
#[cfg(target_arch = "wasm32")]
pub use wait::suspending;
pub use window::{Window, BINDING_VAR};
