//! Blocking calls on native platforms, which may always block.

use std::future::Future;

use crate::error::Result;

/// The name of a blocking call, and of its async counterpart.
pub(crate) type Call = (&'static str, &'static str);

/// Checks that a call may block. Native calls always may.
pub(crate) fn may_block(_: Call) -> Result<()> {
    Ok(())
}

/// Runs a future to its end. Call [`may_block`] first.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, _: Call) -> Result<T> {
    Ok(pollster::block_on(future))
}
