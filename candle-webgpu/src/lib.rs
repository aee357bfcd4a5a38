//! Tensor ops on Vulkan, Metal, DX12 and in browsers, through [wgpu](https://docs.rs/wgpu): the runtime and the kernels behind Candle's
//! `Device::WebGpu`. Programs use them through Candle. This crate does not depend on Candle: it has no tensors, shapes or gradients, but
//! values in device memory ([`Value`]), strided views of them ([`View`]), and ops, which are methods of [`Recorder`].
//!
//! Ops are asynchronous: an op records a dispatch and returns; only a readback waits.
//!
//! ```
//! use candle_webgpu::{DType, Device, View};
//!
//! # fn main() -> candle_webgpu::Result<()> {
//! let device = Device::new(0)?;
//! let bytes = |x: [f32; 3]| x.map(f32::to_le_bytes).concat();
//! let x = device.upload(&bytes([1., 2., 3.]))?;
//! let x = View::new("x", &x, DType::F32, (&[3], &[1], 0))?; // dims, strides, offset
//! let sum = device.binary("badd", x, x)?;
//! assert_eq!(device.read(&sum, 0, sum.bytes())?, bytes([2., 4., 6.]));
//! # Ok(())
//! # }
//! ```
//!
//! Three tables describe the backend: [`op::OPS`], [`dtype::DTYPES`] and [`dtype::quant::QUANTS`].

// Checking that wgpu's types are `Send` exceeds the default limit of 128.
#![recursion_limit = "256"]

/// The text of a file in `wgsl/`.
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

pub use debug::profile::{chrome_trace, Timing};
pub use device::adapter::{adapters, adapters_async, AdapterReport};
pub use device::env::{
    EnvVar, ADAPTER_VAR, BINDING_VAR, CACHE_VAR, CHECKED_VAR, CHECK_NAN_VAR, CPU_FALLBACK_VAR,
    DENY_VAR, DISABLE_VAR, ENABLE_VAR, ENV, EXECUTOR_VAR, LIMITS_VAR, LOG_VAR, MEMORY_VAR,
    REDUCED_F32_VAR, REWRITE_VAR, SUBMIT_VAR, TIMEOUT_VAR, VERIFY_VAR, WORKGROUPS_VAR,
};
pub use device::facade::{Device, Stats};
pub use device::features::FeatureState;
#[doc(hidden)]
pub use device::inject_fault;
pub use device::kept::{remember_probe, remember_tuning, tuned};
pub use device::profile::{Profile, Stopwatch};
pub use dtype::quant::Quant;
pub use dtype::DType;
pub use error::{Error, Result};
pub use executor::readback::Reading;
pub use fusion::{Enabled, Exact, Fired, Rule, RULES};
pub use memory::binding_range::BindingRange;
pub use memory::buffer::Value;
pub use memory::view::View;
pub use recorder::gpu::Gpu;
pub use recorder::op::Grid;
pub use recorder::Recorder;
#[cfg(target_arch = "wasm32")]
pub use util::block::suspending;
