//! Calls that Candle's CPU backend (0.11.1) refuses or gets wrong, with reasons. They are never drawn.

use candle_core::{DType, Tensor};

use crate::bound::floats;
use crate::graph::Call;
use crate::op::{Row, MATRIX};

pub struct Known {
    pub ops: &'static [&'static str],
    pub when: fn(&Call, &[Tensor]) -> bool,
    pub reason: &'static str,
}

/// Calls that are never drawn.
#[rustfmt::skip]
pub const CPU_IS_WRONG: &[Known] = &[
    Known {
        ops: &["to_dtype"],
        when: |call, x| x[0].dtype() == DType::F8E4M3 && call.to == DType::F64,
        reason: "the cast from f8e4m3 to f64 recurses forever",
    },
    Known {
        ops: &["upsample_bilinear", "upsample_bilinear_aligned"],
        when: |_, x| x[0].dtype() == DType::F8E4M3,
        reason: "it uses this cast",
    },
    Known {
        ops: &["conv_transpose1d"],
        when: |call, x| {
            let several = |d| x[0].dims().get(d).is_some_and(|&n| n > 1);
            several(0) && several(1) && call.u[..2] == [0, 0] && call.u[3] == 1
        },
        reason: "columns of several batches and channels are folded incorrectly",
    },
    Known {
        ops: &["erf", "gelu", "gelu_erf", "silu"],
        when: |_, x| x[0].dtype().is_int(),
        reason: "a stub that gives 0 for every integer",
    },
    Known {
        ops: &["cumsum"],
        when: |call, x| x[0].dim(call.u[0]).is_ok_and(|n| n > 8192),
        reason: "Candle multiplies by an n x n matrix, which soon exceeds the size of a buffer",
    },
];

/// Panics of the CPU that say nothing about the device: such a call is drawn again.
#[rustfmt::skip]
pub const CPU_PANICS: &[(&str, &str)] = &[
    ("with overflow",        "debug builds refuse integers that wrap; conformance has binary/wrap"),
    ("divide by zero",       "the CPU panics if an integer is divided by 0"),
    ("no unary function",    "the CPU lacks the function for integers"),
];

/// Calls that the device accepts and the CPU refuses.
#[rustfmt::skip]
pub const DEVICE_ACCEPTS_MORE: &[Known] = &[
    Known {
        ops: &["conv2d", "conv_transpose2d"],
        when: |_, x| x[0].dtype() == DType::BF16,
        reason: "the CPU does not support bf16",
    },
    Known {
        ops: &["conv_transpose1d"],
        when: |_, x| !MATRIX.contains(&x[0].dtype()),
        reason: "one of the CPU's two implementations is a matmul, which lacks these dtypes",
    },
    Known {
        ops: &["index_select", "gather", "scatter", "scatter_add", "scatter_set", "scatter_add_set", "index_add"],
        when: |_, x| x.get(1).is_some_and(|ids| matches!(ids.dtype(), DType::I16 | DType::I32)),
        reason: "the CPU has no ids of i16 and i32",
    },
    Known {
        ops: &["sigmoid"],
        when: |_, x| x[0].dtype() == DType::F8E4M3,
        reason: "candle-nn does not support f8e4m3",
    },
    Known {
        ops: &["cumsum"],
        when: |call, x| call.u[0] + 1 < x[0].rank(),
        reason: "the CPU refuses the strides of its own transposed operand",
    },
];

/// Gradients that are not compared.
#[rustfmt::skip]
pub const GRADIENT_IS_WRONG: &[Known] = &[
    Known {
        ops: &["conv1d"],
        when: |_, x| x[0].dim(0).is_ok_and(|b| b > 1),
        reason: "the CPU folds the batches incorrectly; conformance has conv1d/gradient",
    },
    Known {
        ops: &["hard_sigmoid"],
        when: |_, x| near(&x[0], 3., 1e-5),
        reason: "its gradient jumps at -3 and 3, and x / 6 + 1 / 2 rounds",
    },
];

/// Whether an element's magnitude is within `by` of `at`.
fn near(x: &Tensor, at: f64, by: f64) -> bool {
    let within = |v: f64| (v.abs() - at).abs() <= by;
    floats(x).is_ok_and(|all| all.into_iter().any(within))
}

fn find(list: &'static [Known], row: &Row, call: &Call, x: &[Tensor]) -> Option<&'static str> {
    let known = list
        .iter()
        .find(|k| k.ops.contains(&row.name) && (k.when)(call, x));
    known.map(|k| k.reason)
}

pub fn cpu_is_wrong(row: &Row, call: &Call, x: &[Tensor]) -> Option<&'static str> {
    find(CPU_IS_WRONG, row, call, x)
}

pub fn device_accepts_more(row: &Row, call: &Call, x: &[Tensor]) -> Option<&'static str> {
    find(DEVICE_ACCEPTS_MORE, row, call, x)
}

pub fn gradient_is_wrong(row: &Row, call: &Call, x: &[Tensor]) -> Option<&'static str> {
    find(GRADIENT_IS_WRONG, row, call, x)
}

pub fn cpu_panics(message: &str) -> Option<&'static str> {
    let known = CPU_PANICS.iter().find(|(text, _)| message.contains(text));
    known.map(|(_, reason)| *reason)
}
