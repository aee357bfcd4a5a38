//! A reduction of rows and the elementwise ops before and after it become one kernel: norms and softmaxes that a model computes by single
//! ops. Bit for bit: each step rounds to its dtype, and the reduction combines in its own order.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::fusion::elementwise::{self, fits};
use crate::fusion::expr::{Expr, Read};
use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::reduce::plan::Params;
use crate::kernel::reduce::specialization::REDUCE_ROW;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::{Access, Arg, Step};

pub(crate) const RULE: Rule = Rule {
    name: "fused_row",
    about: "a reduction of rows, and the elementwise ops before and after it: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[&elementwise::RULE],
    at: &[&REDUCE_ROW],
    apply: Apply::Batch(Scan::All, find),
};

/// A reduction, the ops on its results, and the elementwise op that reads them along its rows.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    Row::of(graph, at)?.fuse(device, graph)
}

struct Row<'a> {
    at: usize,
    reduction: &'a Op,
    params: Params,
    /// On the results of the reduction.
    middle: Option<(usize, Expr<'a>)>,
    /// What the last op reads of them.
    value: &'a Value,
    last: (usize, Expr<'a>),
}

impl<'a> Row<'a> {
    fn of(graph: &'a Graph, at: usize) -> Option<Self> {
        let reduction = graph.op(at)?;
        let params: Params = reduction.params();
        let f32 = |i: usize| reduction.spec.dtype(i) == DType::F32;
        let fits = matches!(reduction.spec.op, "sum" | "max" | "min")
            && reduction.spec.operands[0].1 == Access::Quads
            && (f32(0) && f32(1))
            && params.are_of_rows();
        let mut value = fits.then_some(&reduction.operands[1].0)?;
        let mut last = sole_reader(graph, value, at)?;
        let mut middle = None;
        if last.1.n == params.n {
            let (place, expr) = &last;
            let [read] = &expr.reads[..] else {
                return None;
            };
            let (y, whole) = (&expr.y.0, read.is_whole());
            let next = sole_reader(graph, y, *place).filter(|_| whole)?;
            (middle, last, value) = (Some(last), next, y);
        }
        let mut reads = last.1.reads.iter().filter(|read| read.value.same(value));
        let along = reads.all(|read| read.is_along(params.n, params.m));
        (along && params.elements() == Some(last.1.n)).then_some(Row {
            at,
            reduction,
            params,
            middle,
            value,
            last,
        })
    }

    fn fuse(&self, device: &Gpu, graph: &'a Graph) -> Option<Rewrite> {
        let (at, last) = (self.last.0, &self.last.1);
        let mut chain = Chain {
            graph,
            members: Places::from_slice(&[at, self.at]),
            row: self.value,
            known: SmallVec::new(),
            expr: Expr {
                n: last.n,
                y: last.y,
                out: last.out,
                reads: SmallVec::new(),
                steps: SmallVec::new(),
                scalars: SmallVec::new(),
            },
        };
        let (value, start) = &self.reduction.operands[0];
        let input = chain.arg(&Read {
            value,
            start: *start,
            dtype: DType::F32,
            offset: self.params.x_offset,
            view: None,
        })?;
        if let Arg::Step(step) = input {
            (chain.expr.steps[usize::from(step)].out == DType::F32).then_some(())?;
        }
        chain.expr.steps.push(Step {
            op: self.reduction.spec.op,
            args: SmallVec::from_slice(&[(input, DType::F32)]),
            out: DType::F32,
        });
        chain.expr.scalars.push([0; 4]);
        chain.learn(&self.reduction.operands[1].0);
        if let Some((place, middle)) = &self.middle {
            chain.members.push(*place);
            chain.append(middle)?;
        }
        // As the last op sees it, through a view.
        chain.learn(self.value);
        chain.append(last)?;
        let first = *chain.members.iter().min()?;
        if !fits(&chain.expr)
            || !graph.due().contains(&first)
            || !graph.can_move(&chain.members, at)
        {
            return None;
        }
        let (_, rows) = self.reduction.spec.overrides.first()?;
        let op = chain.expr.row_op(device, self.params.m, *rows)?;
        Some(Rewrite::new(&chain.members, at, [op]))
    }
}

/// An expression that grows by the ops that make its operands.
struct Chain<'a> {
    graph: &'a Graph,
    members: Places,
    /// What the last op reads of the reduction, always by the view that repeats it along its row.
    row: &'a Value,
    /// Values that are results of steps.
    known: SmallVec<[(&'a Value, u8); 8]>,
    expr: Expr<'a>,
}

impl<'a> Chain<'a> {
    /// `value` is the result of the last step.
    fn learn(&mut self, value: &'a Value) {
        let step = self.expr.steps.len().saturating_sub(1) as u8;
        self.known.push((value, step));
    }

    /// The argument for an operand: a step's result, that of an op that only members read, which becomes one, or an operand.
    fn arg(&mut self, read: &Read<'a>) -> Option<Arg> {
        let whole = read.is_whole();
        let mut known = self.known.iter();
        if let Some((value, step)) = known.find(|(value, _)| value.same(read.value)) {
            return (whole || value.same(self.row)).then_some(Arg::Step(*step));
        }
        let maker = self
            .graph
            .producer_for(read.value, &self.members)
            .and_then(|at| Some((at, Expr::lift(self.graph.op(at)?)?)))
            .filter(|(_, expr)| !expr.steps.is_empty());
        let made = maker.and_then(|(at, expr)| match whole && expr.n == self.expr.n {
            true => Some((at, expr)),
            false => Some((at, seen_through(expr, read)?)),
        });
        let Some((at, expr)) = made else {
            return Some(self.expr.read(*read));
        };
        self.members.push(at);
        self.append(&expr)?;
        if whole {
            self.learn(read.value);
        }
        Some(Arg::Step(self.expr.steps.len() as u8 - 1))
    }

    /// Adds the steps of an op.
    fn append(&mut self, expr: &Expr<'a>) -> Option<()> {
        let args: SmallVec<[Arg; 6]> = expr
            .reads
            .iter()
            .map(|r| self.arg(r))
            .collect::<Option<_>>()?;
        self.expr.append(expr, &args);
        Some(())
    }
}

/// The elementwise op that alone reads what the op at a place makes.
pub(super) fn sole_reader<'a>(
    graph: &'a Graph,
    value: &Value,
    at: usize,
) -> Option<(usize, Expr<'a>)> {
    let reader = *graph.readers(value).first()?;
    let made = graph.producer_for(value, &[reader])? == at;
    let expr = Expr::lift(graph.op(reader)?)?;
    made.then_some((reader, expr))
}

/// The expression for the elements that a view reads of its result, such as `alpha + 1` for each row. None unless its operands are flat.
fn seen_through<'a>(mut expr: Expr<'a>, read: &Read) -> Option<Expr<'a>> {
    let walk = read.view?;
    for operand in &mut expr.reads {
        let offset = operand.offset + read.offset;
        let flat = operand.view.is_none() && (!walk.quads || offset.is_multiple_of(4));
        if !flat || read.start != 0 {
            return None;
        }
        (operand.offset, operand.view) = (offset, Some(walk));
    }
    Some(expr)
}
