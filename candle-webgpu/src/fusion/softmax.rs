//! The maximum of each row, the difference, its exponential, their sum and the quotient become one softmax: Candle's `softmax` along the
//! last dim. `attention` then knows it as a softmax.

use crate::fusion::expr::Expr;
use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::elementwise::binary::BINARY;
use crate::kernel::elementwise::unary::UNARY;
use crate::kernel::reduce::plan::Params;
use crate::kernel::reduce::specialization::{REDUCE_COLUMN, REDUCE_ROW};
use crate::kernel::softmax;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "softmax",
    about: "max, difference, exp, sum and quotient of rows: one softmax",
    enabled: Enabled::Always,
    exact: Exact::Before("softmax"),
    needs: &[],
    apply: Apply::Batch(Scan::All, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let quotient = OfRows::new(graph, at, "bdiv")?;
    let sum = quotient.reduction(graph, &[at], "sum")?;
    let exp = graph.producer_for(&quotient.x.0, &[sum, at])?;
    let op = graph
        .op(exp)
        .filter(|op| op.is_of(&UNARY) && op.spec.op == "uexp")?;
    let input = Expr::lift(op)?.reads.pop()?;
    let difference_at = graph.producer_for(&input.value, &[exp])?;
    let difference = OfRows::new(graph, difference_at, "bsub")?;
    let max = difference.reduction(graph, &[difference_at], "max")?;
    let members = [max, difference_at, exp, sum, at];
    let whole = input.view.is_none()
        && (input.offset, input.start, quotient.offset) == (0, 0, 0)
        && difference.n == quotient.n;
    let dtypes = graph.op(max)?.spec.dtype(0) == quotient.op.spec.dtype(2);
    if !whole || !dtypes || !graph.due().contains(&max) || !graph.can_move(&members, at) {
        return None;
    }
    let Params { n, m, .. } = graph.op(max)?.params();
    let (dtype, y) = (quotient.op.spec.dtype(2), quotient.op.operands[2].clone());
    let op = softmax::op(device, dtype, (difference.x, difference.offset), y, [n, m])?;
    Some(Rewrite::new(&members, at, [op]))
}

/// A binary op of a contiguous operand and one value for each of its rows.
struct OfRows<'a> {
    op: &'a Op,
    x: (Value, u64),
    offset: u32,
    row: Value,
    n: u32,
}

impl<'a> OfRows<'a> {
    fn new(graph: &'a Graph, at: usize, name: &str) -> Option<Self> {
        let op = graph
            .op(at)
            .filter(|op| op.is_of(&BINARY) && op.spec.op == name)?;
        let expr = Expr::lift(op)?;
        let [x, row] = &expr.reads[..] else {
            return None;
        };
        let m = graph.writer(&row.value).and_then(|at| graph.op(at))?;
        let m = Some(m).filter(|op| is_reduction(op))?.params::<Params>().m;
        let repeats = row.view?.repeats(expr.n.checked_div(m)?, m);
        let whole = x.view.is_none() && (row.offset, row.start) == (0, 0) && repeats;
        whole.then(|| OfRows {
            op,
            x: (x.value.clone(), x.start),
            offset: x.offset,
            row: row.value.clone(),
            n: expr.n,
        })
    }

    /// The reduction of x that makes the value of each row, if only `readers` read it.
    fn reduction(&self, graph: &Graph, readers: &[usize], name: &str) -> Option<usize> {
        let at = graph.producer_for(&self.row, readers)?;
        let op = graph.op(at).filter(|op| op.spec.op == name)?;
        let (x, start) = &op.operands[0];
        let Params {
            n,
            m,
            chunks,
            x_offset,
            rank,
            m_rank,
            later,
            strides,
            m_strides,
            ..
        } = op.params();
        let fits = (x.same(&self.x.0) && *start == self.x.1)
            && x_offset == self.offset
            && (rank, m_rank, chunks, later) == (1, 1, 1, 0)
            && (n == 1 || strides[0] == m)
            && m_strides[0] == 1
            && n.checked_mul(m) == Some(self.n);
        fits.then_some(at)
    }
}

fn is_reduction(op: &Op) -> bool {
    op.is_of(&REDUCE_ROW) || op.is_of(&REDUCE_COLUMN)
}
