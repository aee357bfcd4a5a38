//! A reduction of rows, with the elementwise steps before and after it, as one kernel, which a rule records.

use std::sync::Arc;

use crate::dtype::{Compute, DType};
use crate::error::Result;
use crate::kernel::elementwise::fused::{self, step, Reads};
use crate::kernel::reduce::specialization::{accumulator, TREE_WORKGROUP};
use crate::recorder::op::Grid;
use crate::shader::{params, Access, Arg, Kernel, Specialization, Step, Text};

pub static FUSED_ROW: Kernel = Kernel {
    workgroup: TREE_WORKGROUP,
    shared: |_| TREE_WORKGROUP * 4,
    slots,
    ..kernel!("reduce", "fused_row", Params::LAYOUT;)
};

params! {
    /// Those of `fused_elementwise`, and the row length `m`.
    pub(crate) struct Params {
        pub of: fused::Params,
        pub m: u32,
        pub pad: [u32; 3],
    }
}

/// The kernel for `steps`, one of which is a reduction. `rows`: of a workgroup.
pub(crate) fn spec(reads: Reads<'_>, steps: Arc<[Step]>, out: DType, rows: u32) -> Specialization {
    fused::spec(&FUSED_ROW, reads, steps, out).with("ROWS", rows)
}

/// The grid for `n` rows.
pub(crate) fn grid(n: u32, rows: u32) -> Grid {
    Grid::Linear(n.div_ceil(rows).into())
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let steps = spec.steps.as_deref().unwrap_or(&[]);
    let (dtypes, load) = fused::operands(spec, text);
    fused::inputs(&dtypes, text);
    // What is reduced, and the result.
    text.line("alias XV = f32;");
    text.line("alias YV = f32;");
    if let Some(at) = steps.iter().position(Step::is_reduction) {
        let (before, _) = steps[at].args[0];
        fused::function("before(x: In)", &steps[..at], before, "p", text)?;
        accumulator(steps[at].op, Compute::F32, text);
    }
    let last = Arg::Step(steps.len().saturating_sub(1) as u8);
    fused::function("steps(x: In, total: vec4<f32>)", steps, last, "p", text)?;
    text.line(load);
    Ok(())
}

/// A sample of what rules fuse: each reduction, and a norm of each dtype.
pub fn catalogue() -> Vec<Specialization> {
    let (a, b, f32) = (Arg::Read(0), Arg::Read(1), DType::F32);
    let mut all = Vec::new();
    for op in ["sum", "max", "min"] {
        let steps = [
            step(op, &[(a, f32)], f32),
            step("bsub", &[(a, f32), (Arg::Step(0), f32)], f32),
            step("uexp", &[(Arg::Step(1), f32)], f32),
        ];
        all.push(spec(&[(f32, Access::Flat)], steps.into(), f32, 4));
    }
    for dtype in [DType::F16, DType::Bf16] {
        let steps = [
            step("cast", &[(a, dtype)], f32),
            step("usqr", &[(Arg::Step(0), f32)], f32),
            step("sum", &[(Arg::Step(1), f32)], f32),
            step("affine", &[(Arg::Step(2), f32)], f32),
            step("usqrt", &[(Arg::Step(3), f32)], f32),
            step("bdiv", &[(Arg::Step(0), f32), (Arg::Step(4), f32)], f32),
            step("cast", &[(Arg::Step(5), f32)], dtype),
            step("bmul", &[(Arg::Step(6), dtype), (b, dtype)], dtype),
        ];
        let reads = [(dtype, Access::Flat), (dtype, Access::Quads)];
        all.push(spec(&reads, steps.into(), dtype, 4));
    }
    all
}
