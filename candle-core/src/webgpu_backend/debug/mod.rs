//! `CANDLE_WEBGPU_VERIFY=1` also runs every op on the CPU; an op whose results differ returns an error. Only [`super::dispatch`]
//! calls this module.

pub(super) mod reference;
mod verify;

pub(super) use verify::{before, Call};
