//! What becomes of recorded ops: they are encoded, submitted and waited for.

pub(crate) mod encode;
pub(crate) mod fault;
pub(crate) mod readback;
pub(crate) mod ready;
pub(crate) mod submit;
pub(crate) mod threaded;
#[cfg_attr(target_arch = "wasm32", path = "wait_web.rs")]
#[cfg_attr(not(target_arch = "wasm32"), path = "wait_native.rs")]
pub(crate) mod wait;
