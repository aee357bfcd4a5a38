//! Softmax of few long rows, split into chunks. Off on software adapters, which gain nothing and pay for a second kernel. Runs after
//! `attention`, which matches the softmax as recorded.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::softmax::split::Chunks;
use crate::kernel::softmax::{SoftmaxParams, SOFTMAX};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "split_softmax",
    about: "softmax of few long rows: two kernels over chunks of the rows",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("softmax_last_dim"),
    needs: &[],
    at: &[&SOFTMAX],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let (dtype, access) = *op.spec.operands.first()?;
    let chunks = Chunks::if_faster(op.params::<SoftmaxParams>())?;
    let stats = (Value::internal(&device.pool, chunks.bytes()), 0);
    let [split, merge] = chunks.specs(dtype, access == Access::Quads);
    let (x, y) = (op.operands[0].clone(), op.operands[1].clone());
    let operands = [x.clone(), stats.clone()];
    let split = device.op(split, operands, &chunks, chunks.grid()).ok()?;
    let operands = [x, stats, y];
    let merge = device.op(merge, operands, &chunks, chunks.grid()).ok()?;
    Some(Rewrite::new(&[at], at, [split, merge]))
}
