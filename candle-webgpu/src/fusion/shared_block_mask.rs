//! Attentions with the same mask share its block mask, as do the layers of a model: the mask keeps it until it is written. Bit for bit.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::attention::block_mask::BLOCK_MASK;
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "shared_block_mask",
    about: "block masks of the same mask: the first of them, also that of an earlier batch",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&BLOCK_MASK],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(_: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let [mask, made] = &op.operands[..] else {
        return None;
    };
    let kept = graph.kept(op, mask, &made.0)?;
    // If the batch was cut before this op, the op was here before.
    if kept.same(&made.0) {
        return None;
    }
    let kept = (kept.bound(), 0);
    Rewrite::drop_for(graph, at, [std::slice::from_ref(made), &[kept]])
}
