//! What several suites share: the table of elementwise ops and reductions, inputs, and comparisons.
#![allow(dead_code, reason = "each suite uses a part")]

pub mod bits;
pub mod bound;
pub mod input;
pub mod ops;
