//! Elementwise kernels: one op each, or several fused into one.

pub mod binary;
pub(crate) mod fused;
pub mod unary;
pub mod where_cond;
