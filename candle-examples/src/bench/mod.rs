//! The single-op benchmark: its workloads, how they are timed, and reports on saved results.

pub mod compare;
pub mod measure;
mod ops;
pub mod plot;
pub mod results;
pub mod table;
pub mod workload;
