//! Matmuls of the same rows with several matrices (q, k, v; gate, up) convert the rows for cooperative matrices once. Bit for bit.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::scaled::SCALE_LINES;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "shared_scale_lines",
    about: "conversions of the same rows for several matmuls: the first of them",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&SCALE_LINES],
    apply: Apply::Batch(Scan::Due, find),
};

/// The conversion at a place and a later one of the same lines.
fn find(_: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let first = graph.op(at)?;
    let later = graph.readers(&first.operands.first()?.0).iter();
    let mut later = later.filter(|next| **next > at);
    later.find_map(|next| shared(graph, [at, *next]))
}

/// Drops the second of two conversions: its readers read what the first made.
fn shared(graph: &Graph, [at, next]: [usize; 2]) -> Option<Rewrite> {
    let [first, second] = [graph.op(at)?, graph.op(next)?];
    let ([x, kept @ ..], [x1, made @ ..]) = (&first.operands[..], &second.operands[..]) else {
        return None;
    };
    let same = first.spec == second.spec
        && (x.0.same(&x1.0) && x.1 == x1.1)
        && first.slot() == second.slot()
        && graph.can_move_one(next, at, &[next])
        && kept.iter().all(|(y, _)| graph.writer(y) == Some(at));
    // Benchmarks repeat the same matmul: keep those apart.
    if !same || matrix(graph, &kept.last()?.0) == matrix(graph, &made.last()?.0) {
        return None;
    }
    Rewrite::drop_for(graph, next, [made, kept])
}

/// The matrix by which the first reader of `y` multiplies it, before its conversion.
fn matrix(graph: &Graph, y: &Value) -> Option<usize> {
    let matmul = graph.op(*graph.readers(y).first()?)?;
    let (b, _) = matmul.operands.get(1)?;
    let converted = graph.writer(b).and_then(|at| graph.op(at));
    let converted = converted.filter(|op| op.is_of(&SCALE_LINES));
    Some(converted.map_or(b, |op| &op.operands[0].0).key())
}
