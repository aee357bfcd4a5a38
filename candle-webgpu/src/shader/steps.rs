//! The steps of a fused elementwise kernel, and their part of the kernel's name.

use std::fmt::Write as _;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::op::{scalars_of, Family, Op, OPS};

/// Names of the operands that a fused kernel reads.
pub(crate) const READ_NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// An argument of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arg {
    /// The operand with this index.
    Read(u8),
    /// The result of the step with this index.
    Step(u8),
}

/// One op of a fused elementwise kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// A row of OPS, `cast` or `where_cond`.
    pub op: &'static str,
    /// Arguments, each with the dtype as which the op reads it. This may be another dtype of the same size than the stored one:
    /// `where_cond` reads bits.
    pub args: SmallVec<[(Arg, DType); 3]>,
    pub out: DType,
}

impl Step {
    /// Whether `op` is a row of OPS, which requires linking an operator file.
    pub fn is_op(&self) -> bool {
        OPS.iter().any(|row| row.name == self.op)
    }

    /// Whether it reduces a row to one value, which later steps read.
    pub fn is_reduction(&self) -> bool {
        let reduces = |row: &Op| row.name == self.op && row.family == Family::Reduce;
        OPS.iter().any(reduces)
    }

    pub fn has_scalars(&self) -> bool {
        scalars_of(self.op) > 0
    }
}

/// For example `usilu:f16(a)+bmul:f16(0,b)`: letters are operands, numbers are earlier steps.
pub(crate) fn name(steps: &[Step]) -> String {
    let mut name = String::new();
    for (i, step) in steps.iter().enumerate() {
        let plus = if i == 0 { "" } else { "+" };
        let _ = write!(name, "{plus}{}:{}(", step.op, step.out);
        for (j, (arg, dtype)) in step.args.iter().enumerate() {
            let comma = if j == 0 { "" } else { "," };
            let _ = match arg {
                Arg::Read(at) => write!(name, "{comma}{}", READ_NAMES[usize::from(*at)]),
                Arg::Step(at) if steps[usize::from(*at)].out == *dtype => {
                    write!(name, "{comma}{at}")
                }
                Arg::Step(at) => write!(name, "{comma}{at}~{dtype}"),
            };
        }
        name.push(')');
    }
    name
}
