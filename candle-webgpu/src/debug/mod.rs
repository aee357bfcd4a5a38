//! Tools to look at what a device does: profiles, checks for NaN, what is in flight.

pub(crate) mod check_nan;
pub(crate) mod in_flight;
pub(crate) mod profile;
