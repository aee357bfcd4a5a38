//! A residual sum and its rms_norm or layer_norm become one kernel, which also writes the sum if anything else reads it. Bit for bit: the
//! sum is rounded before it is normalized.

use crate::fusion::expr::Expr;
use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::elementwise::binary::BINARY;
use crate::kernel::matmul::epilogue;
use crate::kernel::norm::{add_norm_spec, AddNormParams, NormParams, LAYER_NORM, RMS_NORM};
use crate::kernel::Strided;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "add_norm",
    about: "a sum and its rms_norm or layer_norm: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&LAYER_NORM, &RMS_NORM],
    apply: Apply::Batch(Scan::All, find),
};

/// The norm at a place and the sum that it reads.
fn find(_: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let norm = graph.op(at)?;
    let centered = norm.is_of(&LAYER_NORM);
    let sum_at = graph.writer(&norm.operands[0].0).filter(|sum| *sum < at)?;
    let sum = graph.op(sum_at)?;
    let (params, add): (NormParams, Strided<2>) = (norm.params(), sum.params());
    let flat = |op: &Op, i: usize| op.spec.operands[i].1 == Access::Flat;
    let fits = sum.is_of(&BINARY)
        && sum.spec.op == "badd"
        && (flat(sum, 0) && flat(sum, 1))
        && norm.spec.operands[0].1 == Access::Quads
        && add.n == params.rows * params.n
        && params.x_offset == 0
        && norm.operands[0].1 == 0
        && sum.operands[2].1 == 0
        && sum.spec.dtype(2) == norm.spec.dtype(0);
    if !fits || !graph.due().contains(&sum_at) || !graph.can_move(&[sum_at, at], at) {
        return None;
    }
    // A matrix-vector product takes the sum as its epilogue, and elementwise ops take it, too; products that read the norm may take the norm.
    let takes_sum = |i: usize| {
        let producer = graph.sole_producer(sum.operands.get(i), sum_at);
        let term = producer.and_then(|at| graph.op(at));
        term.is_some_and(|op| epilogue::suits(&op.spec) || Expr::is(op))
    };
    if params.rows == 1 && (0..2).any(takes_sum) {
        return None;
    }
    let both = AddNormParams {
        rows: params.rows,
        n: params.n,
        a_offset: add.offsets[0],
        b_offset: add.offsets[1],
        alpha_offset: params.alpha_offset,
        beta_offset: params.beta_offset,
        eps: params.eps,
        inverse: params.inverse,
        zero: 0,
        pad: [0; 3],
    };
    let (_, rows) = norm.spec.overrides.first()?;
    let stored = graph.sole_producer(norm.operands.first(), at).is_none();
    let spec = add_norm_spec(norm.spec.dtype(0), *rows, [centered, stored]);
    let [terms, [total]] = [&sum.operands[..2], &sum.operands[2..]] else {
        return None;
    };
    let (y, parameters) = norm.operands[1..].split_last()?;
    let (alpha, beta) = parameters.split_first()?;
    let from = terms.iter().chain([alpha, y]).chain(beta);
    let operands = from.chain(stored.then_some(total)).cloned().collect();
    let op = Op::new(spec, operands, &both, norm.grid);
    Some(Rewrite::new(&[sum_at, at], at, [op]))
}
