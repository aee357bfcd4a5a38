//! The kernels, called by the device's methods, against plain loops. Tests of a device's counters, random numbers and
//! faults are separate programs.

#[path = "../hard/mod.rs"]
mod hard;
#[path = "../table/mod.rs"]
mod table;

mod cast;
mod conv;
mod dtypes;
mod f64;
mod index;
mod matmul;
mod nn;
mod ops;
mod pool;
mod reduce;
mod rounds;
mod sort;
mod upsample;
