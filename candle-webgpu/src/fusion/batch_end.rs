//! Where a batch ends: not between an op and those behind it with which it becomes one.

use crate::fusion::graph::Graph;
use crate::kernel::norm::RMS_NORM;
use crate::kernel::rope::ROPE;
use crate::shader::Kernel;

/// Ops that stay recorded until those are due that read them: norms with products, keys with their caches.
const WITH_READERS: [&Kernel; 2] = [&RMS_NORM, &ROPE];
/// How far from the end of a batch they are looked for.
const NEAR: usize = 8;

/// How many ops are to be encoded, of those that are due.
pub(crate) fn due(graph: &Graph) -> usize {
    let due = graph.due().end;
    let is_parted = |at: &usize| {
        let op = graph.op(*at);
        let op = op.filter(|op| WITH_READERS.iter().any(|kernel| op.is_of(kernel)));
        let mut written = op.into_iter().flat_map(|op| graph.written(op));
        written.any(|y| graph.readers(y).iter().any(|reader| *reader >= due))
    };
    (due.saturating_sub(NEAR)..due)
        .find(is_parted)
        .unwrap_or(due)
}
