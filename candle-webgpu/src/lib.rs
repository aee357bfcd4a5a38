//! The runtime and the kernels behind Candle's `Device::WebGpu`. Knows nothing of Candle.
//!
//! Three tables hold the backend at a glance: [`op::OPS`], [`dtype::DTYPES`] and [`dtype::quant::QUANTS`]. Ops are asynchronous: an
//! op records a dispatch and returns; only reading back waits.

/// The text of a file of `wgsl/`.
macro_rules! wgsl {
    ($($part:expr),+) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/wgsl/", $($part),+))
    };
}

mod debug;
mod device;
pub mod dtype;
mod error;
mod executor;
mod fusion;
pub mod kernel;
mod memory;
pub mod op;
mod recorder;
pub mod shader;
mod util;

#[doc(hidden)]
pub use debug::inject_fault;
pub use debug::profile::{chrome_trace, Profile, Stopwatch, Timing};
pub use device::adapter::{adapters, adapters_async, AdapterReport, ADAPTER_VAR};
pub use device::env::{CHECK_NAN_VAR, DENY_VAR, MEMORY_VAR, TIMEOUT_VAR, VERIFY_VAR};
pub use device::{Device, Stats, DISABLE_VAR, ENABLE_VAR};
pub use dtype::quant::Quant;
pub use dtype::DType;
pub use error::{Budget, Error, Result};
pub use executor::readback::Reading;
#[cfg(target_arch = "wasm32")]
pub use executor::wait::suspending;
pub use fusion::{Fired, Rule, REWRITE_VAR, RULES};
pub use memory::binding_range::{BindingRange, BINDING_VAR};
pub use memory::buffer::Value;
pub use memory::view::View;
pub use recorder::op::Grid;
pub use recorder::queue::LOG_VAR;
pub use shader::compile::CHECKED_VAR;
pub use shader::disk_cache::CACHE_VAR;
