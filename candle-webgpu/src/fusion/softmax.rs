//! The maximum of each row, the difference, its exponential, their sum and the quotient become one softmax: Candle's `softmax` along the
//! last dim. `attention` then knows it as a softmax.

use crate::dtype::DType;
use crate::fusion::expr::{Expr, Read};
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
    at: &[&BINARY],
    apply: Apply::Batch(Scan::All, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let quotient = OfRows::find(graph, at, "bdiv", "sum")?;
    let sum = quotient.reduction;
    let exp = graph.producer_for(quotient.x.value, &[sum, at])?;
    let op = graph.op(exp)?;
    let input = Expr::lift(op).filter(|_| op.is_of(&UNARY) && op.spec.op == "uexp")?;
    let input = &input.reads[0];
    let difference_at = graph.producer_for(input.value, &[exp])?;
    let OfRows {
        reduction, x, size, ..
    } = OfRows::find(graph, difference_at, "bsub", "max")?;
    let members = [reduction, difference_at, exp, sum, at];
    // Its ops need not be due: those of an attention around it may be.
    let fits = input.is_whole()
        && quotient.x.is_whole()
        && (size.n, size.m) == (quotient.size.n, quotient.size.m)
        && x.dtype == quotient.out
        && graph.can_move(&members, at);
    if !fits {
        return None;
    }
    let (bound, dtype) = ((x.value.clone(), x.start), quotient.out);
    let rows = [size.n, size.m];
    let op = softmax::op(device, dtype, (bound, x.offset), quotient.y.clone(), rows)?;
    Some(Rewrite::new(&members, at, [op]))
}

/// A binary op of x and the reduction of each of its rows, which only this op reads.
struct OfRows<'a> {
    x: Read<'a>,
    y: &'a (Value, u64),
    out: DType,
    /// The place of the reduction, and its size.
    reduction: usize,
    size: Params,
}

impl<'a> OfRows<'a> {
    fn find(graph: &'a Graph, at: usize, binary: &str, reduction: &str) -> Option<Self> {
        let op = graph.op(at)?;
        let op = Some(op).filter(|op| op.is_of(&BINARY) && op.spec.op == binary)?;
        let expr = Expr::lift(op)?;
        let [x, row] = &expr.reads[..] else {
            return None;
        };
        let place = graph.producer_for(row.value, &[at])?;
        let reduces = |op: &&Op| op.is_of(&REDUCE_ROW) || op.is_of(&REDUCE_COLUMN);
        let reduced = graph.op(place).filter(reduces)?;
        let size: Params = reduced.params();
        let (input, start) = &reduced.operands[0];
        let fits = reduced.spec.op == reduction
            && size.are_of_rows()
            && size.elements() == Some(expr.n)
            && (input.same(x.value) && (*start, size.x_offset) == (x.start, x.offset))
            && x.view.is_none()
            && row.is_along(size.n, size.m);
        fits.then_some(OfRows {
            x: *x,
            y: expr.y,
            out: expr.out,
            reduction: place,
            size,
        })
    }
}
