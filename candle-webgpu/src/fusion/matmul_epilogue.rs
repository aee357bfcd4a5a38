//! Fuses a matmul, or two by the same rows, with the elementwise op that is their only reader. Bit for bit: the result is rounded to
//! the matmul's dtype as if it had been stored.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::fusion::expr::{Expr, Read};
use crate::fusion::gemm_pair::Pair;
use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::epilogue::{Epilogue, Params, MAX_READS};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::{gemm_coop, gemv_projections};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Operands};
use crate::shader::{Access, Specialization, Step};

pub(crate) const RULE: Rule = Rule {
    name: "matmul_epilogue",
    about: "a matmul or two, and the elementwise op that reads them: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &Expr::KERNELS,
    apply: Apply::Batch(Scan::All, find),
};

/// Fuses the elementwise op at a position with a matmul that it reads.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let last = graph.op(at).filter(|op| Expr::is(op))?;
    let (_, reads) = last.operands.split_last()?;
    let mut producers: SmallVec<[usize; 4]> = reads
        .iter()
        .filter_map(|read| graph.sole_producer(Some(read), at))
        .filter(|producer| graph.due().contains(producer))
        .collect();
    // The last producer first: all other operands exist by then.
    producers.sort_unstable_by(|a, b| b.cmp(a));
    producers.dedup();
    if let Some(rewrite) = gemms(device, graph, &producers, at) {
        return Some(rewrite);
    }
    producers.iter().find_map(|&producer| {
        let takes = |op: &&Op| epilogue::suits(&op.spec) || gemv_projections::is_two(&op.spec);
        let matmul = graph.op(producer).filter(takes)?;
        // No other op may read a result of the matmul or projections: none will be stored.
        let mut made = matmul.operands.iter().enumerate();
        let only = made.all(|(i, y)| {
            !matmul.spec.writes(i) || graph.sole_producer(Some(y), at) == Some(producer)
        });
        if !only {
            return None;
        }
        let to = graph.place_for(&[producer, at], [at, producer])?;
        let op = joined(device, matmul, Expr::lift(last)?)?;
        Some(Rewrite::new(&[producer, at], to, [op]))
    })
}

fn joined(device: &Gpu, matmul: &Op, expr: Expr) -> Option<Box<Op>> {
    if !follows(&expr) {
        return None;
    }
    match epilogue::suits(&matmul.spec) {
        true => halves(device, matmul, &expr).or_else(|| one(matmul, expr)),
        false => pair(device, matmul, expr),
    }
}

/// Whether an expression can be the epilogue of matmuls: it computes something, in floats.
fn follows(expr: &Expr) -> bool {
    !expr.steps.is_empty() && of_floats(&expr.steps)
}

/// Whether all operands and results of the steps are f32, f16 or bf16.
fn of_floats(steps: &[Step]) -> bool {
    let float = |dtype: DType| [DType::F32, DType::F16, DType::Bf16].contains(&dtype);
    steps
        .iter()
        .all(|step| float(step.out) && step.args.iter().all(|(_, dtype)| float(*dtype)))
}

/// Two matmuls of many rows, at the places `producers`, the last first, and the elementwise op at `at`, which reads both and nothing else.
fn gemms(device: &Gpu, graph: &Graph, producers: &[usize], at: usize) -> Option<Rewrite> {
    let [second, first] = *producers else {
        return None;
    };
    let one = graph.op(first).filter(|op| gemm_coop::can_pair(&op.spec))?;
    let other = graph.op(second)?;
    let pair = Pair::of(one, other)?;
    let results = [&one.operands.get(2)?.0, &other.operands.get(2)?.0];
    let expr = Expr::lift(graph.op(at)?).filter(follows)?;
    let groups = pair.params.matmul.groups;
    let kernel = (one.spec.clone(), pair.params, groups);
    let op = of_results(device, kernel, [&one.operands, &pair.second], results, expr)?;
    let members = [first, second, at];
    let to = graph.place_for(&members, [at, second])?;
    Some(Rewrite::new(&members, to, [op]))
}

/// One matmul with an epilogue that reads up to [`MAX_READS`] further operands.
fn one(matmul: &Op, expr: Expr) -> Option<Box<Op>> {
    let mut params = Params::new(matmul.params());
    let MatmulParams { m, n, batch, .. } = params.matmul;
    let (y, dtype) = (matmul.operands.get(2)?, matmul.spec.dtype(2));
    let count = m.checked_mul(n)?.checked_mul(batch)?;
    let expr = expr.in_front(&[&y.0])?;
    let (made, rest) = expr.reads.split_first()?;
    if expr.n != count || !is_whole(made, dtype) || rest.len() > MAX_READS {
        return None;
    }
    let quads = matmul.spec.operands[2].1 == Access::Put;
    let mut reads = SmallVec::<[(DType, Access); MAX_READS]>::new();
    for (read, place) in rest.iter().zip(&mut params.epilogue.reads) {
        let period = read.period(count)?;
        if period > n && !epilogue::reads_whole(&matmul.spec) {
            return None;
        }
        *place = [read.offset, period, count - 1, 0];
        let access = match quads && read.offset.is_multiple_of(4) && period.is_multiple_of(4) {
            true => Access::Quads,
            false if period == count => {
                epilogue::whole_access(&matmul.spec, read.dtype, read.offset)
            }
            false => Access::Words,
        };
        reads.push((read.dtype, access));
    }
    scalars(&expr, &mut params.epilogue)?;
    let spec = epilogue::spec(&matmul.spec, &reads, expr.steps.to_vec().into(), expr.out)?;
    let mut operands = matmul.operands.clone();
    operands[2] = expr.y.clone();
    operands.extend(rest.iter().map(|read| (read.value.clone(), read.start)));
    Some(Op::new(spec, operands, &params, matmul.grid))
}

/// Two projections with an epilogue that reads both, and nothing else.
fn pair(device: &Gpu, projections: &Op, expr: Expr) -> Option<Box<Op>> {
    let (first, [c, (z, _)]) = projections.operands.split_at_checked(3)? else {
        return None;
    };
    let pair = gemv_projections::pair(&projections.spec, &projections.params())?;
    let second = std::slice::from_ref(c);
    of_results(device, pair, [first, second], [&first[2].0, z], expr)
}

/// A matmul of one row and an epilogue that reads both halves of it, and nothing else: silu(gate) up where one matrix holds both.
fn halves(device: &Gpu, matmul: &Op, expr: &Expr) -> Option<Box<Op>> {
    let [_, b, (y, _)] = &matmul.operands[..] else {
        return None;
    };
    let (of, dtype): (MatmulParams, DType) = (matmul.params(), matmul.spec.dtype(2));
    if (of.m, of.batch, Some(of.n)) != (1, 1, expr.n.checked_mul(2)) || expr.reads.len() != 2 {
        return None;
    }
    let place = |half: u32| {
        let here = |read: &Read| {
            let layout = (read.start, read.offset, read.dtype);
            read.view.is_none() && read.value.same(y) && layout == (0, half * expr.n, dtype)
        };
        expr.reads.iter().position(here)
    };
    let mut ordered = expr.clone();
    ordered.keep(&[place(0)?, place(1)?]);
    let [mut first, mut second] = [of; 2];
    (first.n, second.n) = (expr.n, expr.n);
    second.b_offset = of.b_offset.checked_add(expr.n.checked_mul(of.b_n)?)?;
    let (spec, params, _) = gemv_projections::joined(device, &matmul.spec, &[first, second])?;
    let pair = gemv_projections::pair(&spec, &params)?;
    let second = std::slice::from_ref(b);
    of_pair(device, pair, [&matmul.operands, second], &ordered)
}

/// A pair of projections with an epilogue that reads both results whole, and nothing else.
fn of_results(
    device: &Gpu,
    pair: (Specialization, Params, u32),
    operands: [&[(Value, u64)]; 2],
    results: [&Value; 2],
    expr: Expr,
) -> Option<Box<Op>> {
    let dtype = pair.0.dtype(2);
    let expr = expr.in_front(&results)?;
    let whole = expr.reads.iter().all(|read| is_whole(read, dtype));
    whole.then(|| of_pair(device, pair, operands, &expr))?
}

/// A pair of projections with an epilogue, the operands of which are the two results, in order: binds the operands of the first
/// projection, but the epilogue's result, and what belongs to the second matrix.
fn of_pair(
    device: &Gpu,
    (one, mut params, groups): (Specialization, Params, u32),
    [first, second]: [&[(Value, u64)]; 2],
    expr: &Expr,
) -> Option<Box<Op>> {
    let whole = Some(expr.n) == params.matmul.m.checked_mul(params.matmul.n);
    let spec = epilogue::pair_spec(&one, expr.steps.to_vec().into(), expr.out);
    if !device.has_room(&spec) || !whole || expr.reads.len() != 2 {
        return None;
    }
    scalars(expr, &mut params.epilogue)?;
    let mut operands = Operands::from_iter(first.iter().chain(second).cloned());
    *operands.get_mut(2)? = expr.y.clone();
    let grid = Grid::Linear(groups.into());
    device.op(spec, operands, &params, grid).ok()
}

/// Whether a result is read whole, in its own layout and dtype.
fn is_whole(read: &Read, dtype: DType) -> bool {
    read.view.is_none() && (read.start, read.offset, read.dtype) == (0, 0, dtype)
}

/// Stores the scalars of the steps that have some; `None` if they do not fit.
fn scalars(expr: &Expr, to: &mut Epilogue) -> Option<()> {
    let mut slots = to.scalars.iter_mut();
    for scalars in expr.scalars() {
        *slots.next()? = *scalars;
    }
    Some(())
}
