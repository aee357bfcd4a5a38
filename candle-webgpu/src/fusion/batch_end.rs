//! Where a batch ends: not between an op and the readers with which a rule may fuse it.

use crate::fusion::graph::Graph;
use crate::kernel::norm::RMS_NORM;
use crate::kernel::reduce::specialization::REDUCE_ROW;
use crate::kernel::rope::ROPE;
use crate::shader::Kernel;

/// Ops that wait for their readers: rms_norm for its matmuls and RoPE, RoPE for the copies into the KV cache, reductions for elementwise ops.
const WITH_READERS: [&Kernel; 3] = [&RMS_NORM, &ROPE, &REDUCE_ROW];
/// How many ops before the end of a batch may wait.
const NEAR: usize = 8;

/// How many of the ops that are due to encode now.
pub(crate) fn due(graph: &Graph) -> usize {
    let mut due = graph.due().end;
    let waits = |at: usize, due: usize| {
        let op = graph.op(at);
        let op = op.filter(|op| WITH_READERS.iter().any(|kernel| op.is_of(kernel)));
        let mut outputs = op.into_iter().flat_map(|op| graph.outputs(op));
        outputs.any(|y| graph.readers(y).iter().any(|reader| *reader >= due))
    };
    // An op that waits makes those before it wait that it reads.
    while let Some(earlier) = (due.saturating_sub(NEAR)..due).find(|at| waits(*at, due)) {
        due = earlier;
    }
    due
}
