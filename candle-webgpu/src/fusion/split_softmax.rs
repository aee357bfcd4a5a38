//! Softmax of few long rows, split into chunks. Off on software adapters, which gain nothing and pay for a second kernel. Runs after
//! `attention`, which matches the softmax as recorded.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::softmax::split::Chunks;
use crate::kernel::softmax::{SoftmaxParams, SOFTMAX};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "split_softmax",
    about: "softmax of few long rows: two kernels over chunks of the rows",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("softmax_last_dim"),
    needs: &[],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at).filter(|op| op.is_of(&SOFTMAX))?;
    let (dtype, access) = *op.spec.operands.first()?;
    let chunks = Chunks::if_faster(op.params::<SoftmaxParams>())?;
    let stats = (Value::internal(&device.pool, chunks.bytes()), 0);
    let [split, merge] = chunks.specs(dtype, access == Access::Quads);
    let grid = device.split(&split, chunks.grid()).ok()?;
    let (x, y) = (op.operands[0].clone(), op.operands[1].clone());
    let operands = SmallVec::from_iter([x.clone(), stats.clone()]);
    let split = Op::new(split, operands, &chunks, grid);
    let operands = SmallVec::from_iter([x, stats, y]);
    let merge = Op::new(merge, operands, &chunks, grid);
    Some(Rewrite::new(&[at], at, [split, merge]))
}
