//! The kernels through the device's methods, against plain loops. Tests about what a device counts, draws or owes have
//! programs of their own beside this one.

#[path = "../hard/mod.rs"]
mod hard;
#[path = "../support/mod.rs"]
mod support;
#[path = "../table/mod.rs"]
mod table;

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
