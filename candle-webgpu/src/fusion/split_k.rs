//! Split-K of a GEMM with cooperative matrices: tiles that would leave most of the adapter idle, all or those of a last wave, are divided
//! along k. Runs after `matmul_epilogue`, so that the second kernel applies the epilogue.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemm_coop::GEMM_COOP;
use crate::kernel::matmul::split_k::{operands, specs, Split};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "split_k",
    about: "few or last tiles of a matmul with cooperative matrices: parts along k, and a second kernel that adds them up",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("matmul"),
    needs: &[],
    at: &[&GEMM_COOP],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at).filter(|op| !op.spec.binds("parts"))?;
    let split = Split::if_faster(device, &op.spec, &op.params())?;
    let parts = Value::internal(&device.pool, split.bytes(&op.spec));
    let params = split.params(op.params());
    let specs = specs(&op.spec);
    if !device.has_room(&specs[0]) {
        return None;
    }
    let [multiply, sum] = operands(op, parts);
    let [to_multiply, to_sum] = split.grids(&op.spec);
    let [first, second] = specs;
    let multiply = device.op(first, multiply, &params, to_multiply).ok()?;
    let sum = device.op(second, sum, &params, to_sum).ok()?;
    Some(Rewrite::new(&[at], at, [multiply, sum]))
}
