//! The public device, and how it is opened: adapters, the environment, self-tests.

pub(crate) mod adapter;
pub(crate) mod env;
pub(crate) mod facade;
pub(crate) mod features;
#[doc(hidden)]
pub mod inject_fault;
pub(crate) mod kept;
mod open;
pub(crate) mod profile;
mod rank;
pub(crate) mod settings;
#[cfg_attr(
    any(target_arch = "wasm32", target_vendor = "apple"),
    path = "vulkan_none.rs"
)]
mod vulkan;

pub use facade::Device;
