//! Fuses projections with the biases that are added to their results. Runs after `fused_projections`. Bit for bit: a result is rounded
//! to its dtype as if it had been stored.

use smallvec::SmallVec;

use crate::fusion::expr::Expr;
use crate::fusion::fused_projections;
use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemv_projections::{is_projections, matrices, Params, MOST};
use crate::kernel::matmul::projection_bias::{self, is_bias};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "projection_bias",
    about: "projections and the biases that are added to their results: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[&fused_projections::RULE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The projections at a place and the ops that add biases to their results.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let bare = |op: &&Op| is_projections(&op.spec) && !op.spec.bindings().any(is_bias);
    let op = graph.op(at).filter(bare)?;
    let params: Params = op.params();
    let mut members = Places::from_slice(&[at]);
    let mut operands = op.operands.clone();
    let mut biased = SmallVec::<[usize; MOST]>::new();
    for which in 0..matrices(&op.spec).len() {
        let result = 2 + 2 * which;
        let Some(sum) = Sum::find(graph, at, result, (&params, which)) else {
            continue;
        };
        members.push(sum.at);
        biased.push(which);
        operands[result] = sum.y;
        operands.push(sum.bias);
    }
    let last = members.iter().max().filter(|last| **last != at)?;
    let place = graph.place_for(&members, [at, *last])?;
    let spec = projection_bias::spec(&op.spec, &biased);
    let fits = device.has_room(&spec);
    let fused = fits.then(|| Op::new(spec, operands, &op.slot(), op.grid))?;
    Some(Rewrite::new(&members, place, [fused]))
}

/// The only op that reads a result, where it adds a bias of one row.
struct Sum {
    at: usize,
    y: (Value, u64),
    bias: (Value, u64),
}

impl Sum {
    /// Of operand `result` of the projections at `from`, which is their result `which`.
    fn find(
        graph: &Graph,
        from: usize,
        result: usize,
        (params, which): (&Params, usize),
    ) -> Option<Self> {
        let projections = graph.op(from)?;
        let (made, dtype) = (
            projections.operands.get(result)?,
            projections.spec.dtype(result),
        );
        let at = graph.sole_reader(from, result)?;
        let op = graph.op(at).filter(|op| Expr::is(op))?;
        let expr = Expr::lift(op)?.in_front(&[&made.0])?;
        let [step] = &expr.steps[..] else {
            return None;
        };
        let [of, bias] = &expr.reads[..] else {
            return None;
        };
        let fits = step.op == "badd"
            && expr.out == dtype
            && step.args.iter().all(|(_, of)| *of == dtype)
            && params.count(which) == Some(expr.n)
            && of.is_whole()
            && bias.offset == 0
            && bias.period(expr.n) == Some(params.columns(which))
            && !projections
                .operands
                .iter()
                .any(|(value, _)| value.same(&expr.y.0));
        fits.then(|| Sum {
            at,
            y: expr.y.clone(),
            bias: (bias.value.clone(), bias.start),
        })
    }
}
