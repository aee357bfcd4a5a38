//! `CANDLE_WEBGPU_VERIFY=1` also runs every op on the CPU; an op whose results differ returns an error. The rest of the backend
//! does not depend on this folder: without it and the lines that name it, it does the same.

mod backend_storage;
mod other_ops;
mod reference;
mod verify;

pub(crate) use other_ops::*;
use verify::{before, Call};
