//! Debugging tools: profiles, NaN checks, and the list of kernels in flight.

pub(crate) mod check_nan;
pub(crate) mod in_flight;
pub(crate) mod profile;
