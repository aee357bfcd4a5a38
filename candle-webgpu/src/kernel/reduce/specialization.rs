//! The kernels of reductions, and what each op links into them.

use crate::dtype::{Compute, DType};
use crate::error::Result;
use crate::kernel::reduce::plan::Params;
use crate::kernel::{reads, threads};
use crate::op::{Family, Output, OPS};
use crate::recorder::op::Grid;
use crate::shader::{Access, Kernel, Specialization, Text};

/// Invocations of the workgroups that combine partial results in a tree.
pub(crate) const TREE_WORKGROUP: u32 = 256;

pub static REDUCE_ROW: Kernel = Kernel {
    workgroup: TREE_WORKGROUP,
    shared: |spec| TREE_WORKGROUP * acc_bytes(spec),
    slots: |spec, text| {
        text.part(match spec.operands[0].1 {
            Access::Quads => wgsl!("kernel/reduce/reduce_row_quads.wgsl"),
            _ => wgsl!("kernel/reduce/reduce_row_elements.wgsl"),
        });
        slots(spec, text)
    },
    ..kernel!("reduce", "reduce_row", Params::LAYOUT; read x, write y)
};

pub static REDUCE_COLUMN: Kernel = Kernel {
    slots,
    ..kernel!("reduce", "reduce_column", Params::LAYOUT; read x, write y)
};

pub static REDUCE_COLUMNS: Kernel = Kernel {
    workgroup: TREE_WORKGROUP,
    shared: |spec| TREE_WORKGROUP * 4 * acc_bytes(spec),
    slots,
    ..kernel!("reduce", "reduce_columns", Params::LAYOUT; read x, write y)
};

pub static REDUCE_ARG: Kernel = Kernel {
    slots,
    ..kernel!("reduce", "reduce_arg", Params::LAYOUT; read x, read won, write y)
};

fn is_arg(op: &str) -> bool {
    matches!(op, "argmin" | "argmax")
}

/// Size of an accumulator. A position is padded to the alignment of the value.
fn acc_bytes(spec: &Specialization) -> u32 {
    spec.info(0).compute.size() as u32 * if is_arg(spec.op) { 2 } else { 1 }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    accumulator(spec.op, spec.info(0).compute, text);
    Ok(())
}

/// The accumulator: a value (of floats, for a minimum or maximum, a key in their order), with its position for argmin and argmax.
/// `acc_join` combines any two; `acc_next` may rely on all of a coming before b.
pub(crate) fn accumulator(op: &'static str, compute: Compute, text: &mut Text) {
    text.ops(compute);
    if !is_arg(op) {
        text.line("fn acc_next(a: Acc, b: Acc) -> Acc { return acc_join(a, b); }");
    }
    let source = match (op, compute) {
        ("sum", _) => wgsl!("kernel/reduce/acc_sum.wgsl"),
        ("min" | "max", Compute::F32) => wgsl!("kernel/reduce/acc_max_key.wgsl"),
        ("min" | "max", _) => wgsl!("kernel/reduce/acc_max.wgsl"),
        (_, Compute::F32) => wgsl!("kernel/reduce/acc_argmax_key.wgsl"),
        _ => wgsl!("kernel/reduce/acc_argmax.wgsl"),
    };
    const MINIMUM: [(&str, &str); 4] = [
        ("max", "min"),
        ("reduce_max_key", "reduce_min_key"),
        ("reduce_argmax_key", "reduce_argmin_key"),
        ("reduce_max_takes", "reduce_min_takes"),
    ];
    match op {
        "min" | "argmin" => text.part_for(source, ["", ""], &MINIMUM),
        _ => text.part(source),
    }
}

/// How threads share a reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Strategy {
    /// A workgroup has `rows` outputs and reads quads of contiguous rows, or elements.
    Row { quads: bool, rows: u32 },
    /// A thread has a word of outputs.
    Column,
    /// `down` threads share a quad of outputs.
    Columns { down: u32 },
}

impl Strategy {
    pub fn spec(self, op: &'static str, x: DType, y: DType) -> Specialization {
        let new = |kernel, read, write| Specialization::new(kernel, op, &[(x, read), (y, write)]);
        match self {
            Strategy::Row { quads, rows } => {
                new(&REDUCE_ROW, reads(quads), Access::PutWord).with("ROWS", rows)
            }
            Strategy::Column => new(&REDUCE_COLUMN, Access::Words, Access::PutWord),
            Strategy::Columns { down } => {
                new(&REDUCE_COLUMNS, Access::Quads, Access::Put).with("DOWN", down)
            }
        }
    }

    /// The grid for `chunks` partial results of each of `n` outputs, of which a word has `lanes`.
    pub fn grid(self, n: usize, lanes: usize, chunks: usize) -> Grid {
        match self {
            Strategy::Row { rows, .. } => Grid::Linear((n.div_ceil(rows as usize) * chunks) as u64),
            Strategy::Column => threads(n.div_ceil(lanes) * chunks),
            Strategy::Columns { down } => {
                let across = (TREE_WORKGROUP / down) as usize;
                Grid::Linear(((n / 4).div_ceil(across) * chunks) as u64)
            }
        }
    }
}

pub(crate) fn arg_spec(op: &'static str, x: DType) -> Specialization {
    let [read, write] = [Access::Words, Access::PutWord];
    let operands = [(x, read), (DType::U32, read), (DType::U32, write)];
    Specialization::new(&REDUCE_ARG, op, &operands)
}

/// The dtype of partial results, in which values are computed.
pub(crate) fn partial_dtype(dtype: DType) -> DType {
    dtype.info().compute.dtype()
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Reduce) {
        for &x in op.dtypes {
            // A single pass; the first and the second of two passes.
            let mut pairs = vec![(x, op.output(x))];
            let partial = partial_dtype(x);
            if op.output == Output::Same && partial != x {
                pairs.extend([(x, partial), (partial, x)]);
            }
            let row = |quads| Strategy::Row { quads, rows: 4 };
            let columns = Strategy::Columns { down: 8 };
            for strategy in [row(true), row(false), Strategy::Column, columns] {
                all.extend(pairs.iter().map(|&(x, y)| strategy.spec(op.name, x, y)));
            }
            if op.output == Output::Index {
                all.push(arg_spec(op.name, x));
            }
        }
    }
    all
}
