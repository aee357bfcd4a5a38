//! Removes ops whose results are never read.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "dead_code",
    about: "ops whose results nothing reads: removed",
    // A benchmark drops the results of the ops that it times.
    enabled: Enabled::Never,
    exact: Exact::Always,
    needs: &[],
    at: &[],
    // Backward, since an op that only dead ops read is dead, too.
    apply: Apply::Batch(Scan::DueBackward, find),
};

/// An op that writes something, none of which an op reads or a tensor holds. The fault record always counts as held.
fn find(_: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let mut outputs = graph.outputs(graph.op(at)?).peekable();
    outputs.peek()?;
    let dead = outputs.all(|value| graph.readers(value).is_empty() && graph.is_private(value));
    dead.then(|| Rewrite::new(&[at], at, []))
}
