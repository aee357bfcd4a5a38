//! Fuses matmuls of the same few rows with two or three matrices (q, k, v; gate, up) into one kernel. Bit for bit: each
//! accumulates in the order of its own kernel.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemv::GEMV_K;
use crate::kernel::matmul::gemv_coop::GEMV_COOP;
use crate::kernel::matmul::gemv_dot::GEMV_DOT;
use crate::kernel::matmul::gemv_projections;
use crate::kernel::matmul::gemv_projections::MOST;
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Operands};

/// Positions of matmuls that share their rows.
type Projections = SmallVec<[usize; MOST]>;

pub(crate) const RULE: Rule = Rule {
    name: "fused_projections",
    about: "matmuls of the same few rows with two or three matrices: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&GEMV_K, &GEMV_COOP, &GEMV_DOT],
    apply: Apply::Batch(Scan::Due, find),
};

/// Fuses the matmul at a position with later ones that can be computed with it.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let first = graph.op(at)?;
    if !gemv_projections::suits(&first.spec) {
        return None;
    }
    let matmul: MatmulParams = first.params();
    let mut members = Projections::from_slice(&[at]);
    let mut to = at;
    let mut readers = SmallVec::<[usize; 8]>::from_slice(graph.readers(&first.operands.first()?.0));
    readers.retain(|next| *next > at);
    readers.sort_unstable();
    readers.dedup();
    let shares = |op: &Op| are_projections((first, &matmul), op);
    readers.retain(|next| graph.op(*next).is_some_and(shares));
    for next in readers {
        let with: Projections = members.iter().copied().chain([next]).collect();
        // At the position of the first matmul, or else of the last.
        let Some(place) = graph.place_for(&with, [at, next]) else {
            continue;
        };
        (members, to) = (with, place);
        if members.len() == MOST {
            break;
        }
    }
    if members.len() == 1 {
        return None;
    }
    let op = joined(device, graph, &members)?;
    Some(Rewrite::new(&members, to, [op]))
}

/// Whether two matmuls differ only in their matrix, its number of columns, and their result.
pub(super) fn are_projections((first, matmul): (&Op, &MatmulParams), op: &Op) -> bool {
    let ([a, b, _, more @ ..], [a1, b1, _, more1 @ ..]) = (&first.operands[..], &op.operands[..])
    else {
        return false;
    };
    // Both may have scales of the lines of a, and then of b.
    let rows = [Some(a), more.first()].into_iter().flatten();
    let mut rows = rows.zip([Some(a1), more1.first()].into_iter().flatten());
    let same_rows = rows.all(|(a, a1)| a.0.same(&a1.0) && a.1 == a1.1);
    // Benchmarks repeat the same matmul: keep those apart.
    let apart = !b1.0.same(&b.0);
    let rows = |p: &MatmulParams| (p.m, p.k, p.batch, p.blocks, p.a_offset, p.a_m, p.a_k, p.b_k);
    same_rows
        && apart
        && gemv_projections::together(&first.spec, &op.spec)
        && matmul.batch == 1
        && rows(matmul) == rows(&op.params())
}

fn joined(device: &Gpu, graph: &Graph, members: &[usize]) -> Option<Box<Op>> {
    let first = graph.op(*members.first()?)?;
    let mut operands = Operands::from_iter([first.operands.first()?.clone()]);
    let mut matmuls = SmallVec::<[MatmulParams; MOST]>::new();
    for &member in members {
        let op = graph.op(member)?;
        matmuls.push(op.params());
        operands.extend(op.operands.iter().skip(1).cloned());
    }
    let (spec, params, groups) = gemv_projections::joined(device, &first.spec, &matmuls)?;
    let grid = Grid::Linear(groups.into());
    device.op(spec, operands, &params, grid).ok()
}
