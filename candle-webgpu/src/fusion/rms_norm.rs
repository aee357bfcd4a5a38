//! RMS norms that a model computes by single ops, as Gemma does, become rms_norms where matmuls or RoPE read them: other rules fuse these. Where
//! elementwise ops read them, `fused_row` takes those, too. Runs before the rules that take rms_norms. Rounded once.

use crate::dtype::DType;
use crate::fusion::expr::{Expr, Read};
use crate::fusion::fused_row::sole_reader;
use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::norm::{self, NormParams};
use crate::kernel::reduce::plan::Params;
use crate::kernel::reduce::specialization::REDUCE_ROW;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "rms_norm",
    about:
        "squares, mean, root, quotient and product of rows that matmuls or RoPE read: one rms_norm",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("rms_norm"),
    needs: &[],
    at: &[&REDUCE_ROW],
    apply: Apply::Batch(Scan::All, find),
};

/// The sum at a place, and the ops before and behind it.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let sum = graph.op(at).filter(|op| op.spec.op == "sum")?;
    let size: Params = sum.params();
    let squares = graph.sole_producer(sum.operands.first(), at)?;
    let square = Expr::lift(graph.op(squares)?).filter(|expr| is_one(expr, "usqr"))?;
    let wide = &square.reads[0];
    let mut chain = Chain {
        graph,
        members: Places::from_slice(&[squares, at]),
        last: at,
        y: &sum.operands[1].0,
    };
    let mean = chain.whole("affine", size.n)?;
    let shifted = chain.whole("affine", size.n)?;
    chain.whole("usqrt", size.n)?;
    let root = chain.y;
    let quotient = chain.next("bdiv")?;
    let [x, by] = &quotient.reads[..] else {
        return None;
    };
    let along = by.value.same(root) && by.is_along(size.n, size.m);
    let same = x.value.same(wide.value) && (x.start, x.offset) == (wide.start, wide.offset);
    let flat = x.view.is_none() && wide.view.is_none() && size.x_offset == 0;
    let all = [square.n, quotient.n].map(Some) == [size.elements(); 2] && size.are_of_rows();
    if !all || !along || !same || !flat || sum.spec.dtype(0) != DType::F32 {
        return None;
    }
    let mut x = *x;
    let cast_at = graph.producer_for(x.value, &[squares, chain.last]);
    let cast = cast_at.and_then(|at| Some((at, Expr::lift(graph.op(at)?)?)));
    if let Some((place, cast)) = cast.filter(|(_, expr)| is_one(expr, "cast") && x.is_whole()) {
        x = cast.reads[0];
        chain.members.push(place);
        chain.whole("cast", quotient.n)?;
    }
    let normed = chain.y;
    let product = chain.next("bmul")?;
    let of_norm = |read: &Read| read.value.same(normed) && read.is_whole();
    let alpha = match &product.reads[..] {
        [h, alpha] | [alpha, h] if of_norm(h) => alpha,
        _ => return None,
    };
    let mut readers = graph.readers(chain.y).iter().peekable();
    let known = readers.peek().is_some();
    let others = readers.all(|at| graph.op(*at).is_some_and(|op| !Expr::is(op)));
    let fits = [alpha.dtype, product.out] == [x.dtype; 2]
        && x.view.is_none()
        && product.n == quotient.n
        && alpha.period(product.n) == Some(size.m);
    let ([factor, zero], [one, eps]) = (scalars(&mean), scalars(&shifted));
    let to = chain.last;
    let moves = graph.can_move(&chain.members, to);
    if !known || !others || !fits || (zero, one) != (0.0, 1.0) || !moves {
        return None;
    }
    let params = NormParams {
        rows: size.n,
        n: size.m,
        x_offset: x.offset,
        alpha_offset: alpha.offset,
        inverse: factor,
        eps,
        beta_offset: 0,
        pad: 0,
    };
    let bound = |read: &Read| (read.value.clone(), read.start);
    let weight = kept(graph, alpha, to, &mut chain.members).unwrap_or_else(|| bound(alpha));
    let operands = [bound(&x), weight, product.y.clone()];
    let op = norm::op(device, x.dtype, operands, &params)?;
    Some(Rewrite::new(&chain.members, to, [op]))
}

/// Ops of which each is the only reader of the one before.
struct Chain<'a> {
    graph: &'a Graph,
    members: Places,
    last: usize,
    /// The last one's result.
    y: &'a Value,
}

impl<'a> Chain<'a> {
    /// The next op, if it is an elementwise `op`.
    fn next(&mut self, op: &str) -> Option<Expr<'a>> {
        let (place, expr) = sole_reader(self.graph, self.y, self.last)?;
        self.members.push(place);
        (self.last, self.y) = (place, &expr.y.0);
        is_one(&expr, op).then_some(expr)
    }

    /// The next op, if it is `op` of all `n` elements.
    fn whole(&mut self, op: &str, n: u32) -> Option<Expr<'a>> {
        let expr = self.next(op)?;
        (expr.reads[0].is_whole() && expr.n == n).then_some(expr)
    }
}

/// Whether an expression is this one op.
fn is_one(expr: &Expr, op: &str) -> bool {
    matches!(&expr.steps[..], [step] if step.op == op)
}

/// The factor and the addend of an affine op of f32.
fn scalars(expr: &Expr) -> [f32; 2] {
    let [factor, _, addend, _] = expr.scalars[0];
    [factor, addend].map(f32::from_bits)
}

/// A weight that an elementwise op of one value computes for each pass (1 + w): what it was in an earlier one, which that value keeps until it
/// is written. The op becomes one of `members`.
fn kept(graph: &Graph, weight: &Read, reader: usize, members: &mut Places) -> Option<(Value, u64)> {
    let place = graph.producer_for(weight.value, &[reader])?;
    let op = graph.op(place).filter(|op| Expr::is(op))?;
    let [of, made] = &op.operands[..] else {
        return None;
    };
    let held = !graph.is_private(&of.0) && weight.start == 0;
    let value = held.then(|| graph.kept(op, of, &made.0))??;
    members.push(place);
    Some((value.bound(), 0))
}
