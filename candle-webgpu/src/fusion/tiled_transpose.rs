//! A transposing copy goes through tiles in workgroup memory. The last of rules, since others know it as it is recorded.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::copy::transpose::plan;
use crate::kernel::copy::COPY_ELEMS;
use crate::kernel::elementwise::unary::{COPY, UNARY};
use crate::kernel::Strided;
use crate::memory::merge::MAX_RANK;
use crate::recorder::gpu::Gpu;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "tiled_transpose",
    about: "transposing copies: the same through tiles in workgroup memory",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&COPY_ELEMS, &UNARY],
    apply: Apply::Batch(Scan::Due, find),
};

/// The tiled form of a copy into existing memory, or of a contiguous copy.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let copy = if op.is_of(&COPY_ELEMS) {
        op.params()
    } else if op.is_of(&UNARY) && op.spec.op == COPY && op.spec.operands[0].1 == Access::Strided {
        contiguous(&op.params())
    } else {
        return None;
    };
    let (spec, params, grid) = plan(op.spec.dtype(0), &copy)?;
    if !device.has_room(&spec) {
        return None;
    }
    let tiled = device.op(spec, op.operands.clone(), &params, grid).ok()?;
    Some(Rewrite::new(&[at], at, [tiled]))
}

/// The parameters of a contiguous copy, with the strides of y.
fn contiguous(copy: &Strided<1>) -> Strided<2> {
    let mut strides = [copy.strides[0], [0; MAX_RANK]];
    let mut step = 1;
    for d in (0..copy.rank as usize).rev() {
        strides[1][d] = step;
        step *= copy.dims[d];
    }
    Strided {
        n: copy.n,
        rank: copy.rank,
        offsets: [copy.offsets[0], 0, 0, 0],
        pad: [0; 2],
        dims: copy.dims,
        strides,
    }
}
