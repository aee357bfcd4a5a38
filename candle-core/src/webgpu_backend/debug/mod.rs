//! `CANDLE_WEBGPU_VERIFY=1`: every op also runs on the CPU, and a difference is an error of that op. Only [`super::dispatch`] calls
//! this module.

pub(super) mod reference;
mod verify;

pub(super) use verify::{before, Call};
