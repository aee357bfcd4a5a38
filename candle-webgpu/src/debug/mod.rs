//! Tools to look at what a device does: profiles, checks for NaN, what is in flight, faults on demand.

pub(crate) mod check_nan;
pub(crate) mod in_flight;
pub mod inject_fault;
pub(crate) mod profile;
