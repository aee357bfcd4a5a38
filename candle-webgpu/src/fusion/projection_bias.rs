//! Fuses projections with the biases that are added to their results. Runs after `fused_projections`. Bit for bit: a result is rounded
//! to its dtype as if it had been stored.

use smallvec::SmallVec;

use crate::fusion::expr::Expr;
use crate::fusion::fused_projections;
use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemv_coop::GEMV_COOP;
use crate::kernel::matmul::gemv_dot::GEMV_DOT;
use crate::kernel::matmul::gemv_projections::{
    is_projections, matrices, Params, GEMV_PROJECTIONS, MOST,
};
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
    at: &[&GEMV_PROJECTIONS, &GEMV_COOP, &GEMV_DOT],
    apply: Apply::Batch(Scan::Due, find),
};

/// The projections at a place and the ops that add biases to their results.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let bare = |op: &&Op| is_projections(&op.spec) && !op.spec.bindings().any(is_bias);
    let op = graph.op(at).filter(bare)?;
    let params: Params = op.params();
    let sums =
        (0..matrices(&op.spec).len()).filter_map(|which| Sum::find(graph, at, which, &params));
    let sums: SmallVec<[Sum; MOST]> = sums.collect();
    let last = sums.iter().map(|sum| sum.at).max()?;
    let members: Places = [at]
        .into_iter()
        .chain(sums.iter().map(|sum| sum.at))
        .collect();
    let place = graph.place_for(&members, [at, last])?;
    let biased: SmallVec<[usize; MOST]> = sums.iter().map(|sum| sum.which).collect();
    let spec = projection_bias::spec(&op.spec, &biased);
    if !device.has_room(&spec) {
        return None;
    }
    let mut operands = op.operands.clone();
    for sum in sums {
        operands[result(sum.which)] = sum.y;
        operands.push(sum.bias);
    }
    let fused = Op::new(spec, operands, &op.slot(), op.grid);
    Some(Rewrite::new(&members, place, [fused]))
}

/// The operand of projections that is their result `which`.
fn result(which: usize) -> usize {
    2 + 2 * which
}

/// The only op that reads a result, where it adds a bias of one row.
struct Sum {
    which: usize,
    at: usize,
    y: (Value, u64),
    bias: (Value, u64),
}

impl Sum {
    /// Of result `which` of the projections at `from`.
    fn find(graph: &Graph, from: usize, which: usize, params: &Params) -> Option<Self> {
        let projections = graph.op(from)?;
        let made = projections.operands.get(result(which))?;
        let dtype = projections.spec.dtype(result(which));
        let at = graph.sole_reader(from, result(which))?;
        let adds = |op: &&Op| op.spec.op == "badd" || op.spec.steps.is_some();
        let two = |op: &&Op| op.operands.len() == 3 && adds(op) && Expr::is(op);
        let op = graph.op(at).filter(two)?;
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
            && bias.period(expr.n) == Some(params.columns(which));
        fits.then(|| Sum {
            which,
            at,
            y: expr.y.clone(),
            bias: (bias.value.clone(), bias.start),
        })
    }
}
