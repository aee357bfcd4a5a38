//! What is recorded of an op, until it is encoded.

pub(crate) mod op;
pub(crate) mod queue;
