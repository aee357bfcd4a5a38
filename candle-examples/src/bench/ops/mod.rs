//! The workload tables, one per family of ops.

mod elementwise;
mod matmul;
mod nn;
mod quant;
mod reduce;

use crate::bench::workload::{Dims, Make, Workload};
use candle_core::DType::{self, BF16, F16, F32};

/// All tables, in the order of the report.
pub const TABLES: [&[Workload]; 5] = [
    matmul::TABLE,
    quant::TABLE,
    elementwise::TABLE,
    reduce::TABLE,
    nn::TABLE,
];

/// The matmul that measures a device's compute rate; the fastest size counts.
pub const GEMM: &str = "gemm";

/// The copy that measures a device's memory bandwidth.
pub const COPY: &str = "copy";

const ALL: &[DType] = &[F32, F16, BF16];
const TWO: &[DType] = &[F32, F16];
const ONLY_F32: &[DType] = &[F32];
const ONLY_F16: &[DType] = &[F16];

const fn row(
    op: &'static str,
    dtypes: &'static [DType],
    full: Dims,
    small: Dims,
    make: Make,
) -> Workload {
    Workload {
        op,
        dtypes,
        full,
        small,
        make,
    }
}

/// A `row` whose sizes are the rows and columns of a matrix.
const fn matrix(
    op: &'static str,
    dtypes: &'static [DType],
    full: [usize; 2],
    small: [usize; 2],
    make: Make,
) -> Workload {
    let (full, small) = ([full[0], full[1], 1], [small[0], small[1], 1]);
    row(op, dtypes, full, small, make)
}
