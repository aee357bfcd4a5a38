//! Elementwise ops whose results only later ones of them read become one kernel. Bit for bit: each step rounds to its dtype.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::fusion::expr::{Expr, Read};
use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::copy::is_zeros;
use crate::kernel::elementwise::fused::{MAX_READS, MAX_SCALARS, MAX_VIEWS};
use crate::recorder::gpu::Gpu;
use crate::shader::Arg;

/// The most steps of an expression: enough for models, and few enough for registers.
const MAX_STEPS: usize = 12;

pub(crate) const RULE: Rule = Rule {
    name: "elementwise",
    about: "elementwise ops, the results of which only the next one reads: one kernel; zeros that are added: left out",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &Expr::KERNELS,
    apply: Apply::Batch(Scan::All, find),
};

/// Fuses an op with the producer of one of its operands. Candle adds the first gradient of each tensor to zeros.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let last = graph.op(at).filter(|op| Expr::is(op))?;
    let (_, reads) = last.operands.split_last()?;
    reads.iter().find_map(|read| {
        let producer = graph.sole_producer(Some(read), at)?;
        let first = graph.op(producer)?;
        let zeros = is_zeros(first);
        let fuses = (zeros || Expr::is(first))
            && graph.due().contains(&producer)
            && graph.can_move(&[producer, at], at);
        let expr = fuses.then(|| Expr::lift(last))??;
        let joined = if zeros {
            let place = expr.reads.iter().position(|r| r.value.same(&read.0))?;
            expr.without_zeros(place).filter(fits)?
        } else {
            join(Expr::lift(first)?, &expr)?
        };
        Some(Rewrite::new(&[producer, at], at, [joined.op(device)?]))
    })
}

/// The expression of `last` with that of `first` substituted. `last` must read all of `first`'s result without a view.
fn join<'a>(first: Expr<'a>, last: &Expr<'a>) -> Option<Expr<'a>> {
    let made = first.y;
    let all = |read: &Read| !read.value.same(&made.0) || read.is_whole();
    if first.n != last.n || made.1 != 0 || !last.reads.iter().all(all) {
        return None;
    }
    if first.steps.is_empty() && last.steps.is_empty() {
        return None;
    }
    let mut joined = Expr {
        y: last.y,
        out: last.out,
        ..first
    };
    // The operands of `last` in the joined expression.
    let mut moved = SmallVec::<[Arg; MAX_READS]>::new();
    let ready = joined.steps.len() as u8;
    for read in &last.reads {
        moved.push(match read.value.same(&made.0) {
            true if ready > 0 => Arg::Step(ready - 1),
            // A copy: read its source instead, as the dtype that `last` reads.
            true => {
                let source = Read {
                    dtype: read.dtype,
                    ..joined.reads[0]
                };
                joined.read(source)
            }
            false => joined.read(*read),
        });
    }
    joined.append(last, &moved);
    if last.steps.is_empty() {
        joined.out = joined.steps.last()?.out;
    }
    joined.drop_unread();
    fits(&joined).then_some(joined)
}

/// Whether the fused kernel can run the expression.
pub(super) fn fits(expr: &Expr) -> bool {
    let views = expr.reads.iter().filter(|read| read.view.is_some());
    // Operator files of two compute types cannot be linked together.
    let mut computes = expr.steps.iter().filter(|step| step.is_op()).map(|step| {
        let dtype: DType = step.args[0].1;
        dtype.info().compute
    });
    let first = computes.next();
    expr.reads.len() <= MAX_READS
        && expr.steps.len() <= MAX_STEPS
        && views.count() <= MAX_VIEWS
        && expr.scalars().count() <= MAX_SCALARS
        && computes.all(|compute| first == Some(compute))
}
