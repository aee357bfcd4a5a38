//! Fuses matmuls of the same few rows with two or three matrices (q, k, v; gate, up) into one kernel. Bit for bit: each
//! accumulates in the order of its own kernel.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemv_projections;
use crate::kernel::matmul::gemv_projections::MOST;
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op};

/// Positions of matmuls that share their rows.
type Projections = SmallVec<[usize; MOST]>;

pub(crate) const RULE: Rule = Rule {
    name: "fused_projections",
    about: "matmuls of the same few rows with two or three matrices: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
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
    for next in readers {
        let same = graph
            .op(next)
            .is_some_and(|op| are_projections((first, &matmul), op));
        if !same {
            continue;
        }
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
fn are_projections((first, matmul): (&Op, &MatmulParams), op: &Op) -> bool {
    let ([a, b, y], [a1, b1, y1]) = (&first.operands[..], &op.operands[..]) else {
        return false;
    };
    let apart = a.0.same(&a1.0)
        && a.1 == a1.1
        && !y1.0.same(&y.0)
        && !y1.0.same(&b.0)
        // Benchmarks repeat the same matmul: keep those apart.
        && !b1.0.same(&b.0);
    let rows = |p: &MatmulParams| (p.m, p.k, p.batch, p.blocks, p.a_offset, p.a_m, p.a_k, p.b_k);
    apart
        && gemv_projections::together(&first.spec, &op.spec)
        && matmul.batch == 1
        && rows(matmul) == rows(&op.params())
}

fn joined(device: &Gpu, graph: &Graph, members: &[usize]) -> Option<Op> {
    let first = graph.op(*members.first()?)?;
    let mut operands = SmallVec::from_iter([first.operands.first()?.clone()]);
    let mut matmuls = SmallVec::<[MatmulParams; MOST]>::new();
    for &member in members {
        let op = graph.op(member)?;
        matmuls.push(op.params());
        operands.extend(op.operands.iter().skip(1).cloned());
    }
    let (spec, params, groups) = gemv_projections::joined(device, &first.spec, &matmuls)?;
    let grid = device.split(&spec, Grid::Linear(groups.into())).ok()?;
    Some(Op::new(spec, operands, &params, grid))
}

#[cfg(test)]
mod tests {
    use crate::dtype::quant::Quant;
    use crate::dtype::DType;
    use crate::fusion::testing::{saves, takes, Bench, T};

    #[test]
    fn two_or_three() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for (m, k) in [(1, 2048), (1, 64), (2, 512), (7, 96)] {
                for columns in [&[64, 16, 16][..], &[40, 7], &[5, 6, 7, 8]] {
                    let expected = columns.len().min(3) as u64 - 1;
                    saves(expected, (dtype, m, k, columns), |b| {
                        let x = b.of(dtype, &[m, k]);
                        let ws: Vec<T> = columns.iter().map(|n| b.of(dtype, &[*n, k])).collect();
                        ws.iter().map(|w| b.linear(&x, w)).collect()
                    });
                }
            }
        }
    }

    #[test]
    fn quantized() {
        // Alone, these matmuls would have different tiles: 4096 or more columns have their own.
        for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0] {
            for (dtype, m) in [(DType::F32, 1), (DType::F16, 1), (DType::F32, 3)] {
                for columns in [&[64, 16, 16][..], &[40, 7], &[4200, 300, 300]] {
                    let expected = columns.len() as u64 - 1;
                    saves(expected, (quant, dtype, m, columns), |b| {
                        let k = 512;
                        let x = b.of(dtype, &[m, k]);
                        let matmul = |n: &usize| b.by_blocks(&x, quant, &b.blocks(quant, *n, k));
                        columns.iter().map(matmul).collect()
                    });
                }
            }
        }
    }

    #[test]
    fn with_an_op_in_between() {
        takes((1, 4), "the op that reads both is fused as well", |b| {
            let x = b.floats(&[1, 256]);
            let (gate, up) = (b.floats(&[96, 256]), b.floats(&[96, 256]));
            let gate = b.unary("usilu", &b.linear(&x, &gate));
            vec![b.binary("bmul", &gate, &b.linear(&x, &up))]
        });
    }

    #[test]
    fn stay_apart() {
        let parts = |b: &Bench| [b.floats(&[1, 64]), b.floats(&[8, 64])];
        saves(0, "other rows", |b| {
            let (x, y) = (b.floats(&[1, 64]), b.floats(&[1, 64]));
            let (v, w) = (b.floats(&[8, 64]), b.floats(&[8, 64]));
            vec![b.linear(&x, &v), b.linear(&y, &w)]
        });
        saves(0, "one depends on the result of the other", |b| {
            let ([x, v], w) = (parts(b), b.floats(&[64, 64]));
            let first = b.linear(&x, &v);
            // w is made of the result of the first matmul.
            b.copy(&first, &w.shown(&[1, 8], &[8, 1], 0));
            vec![b.linear(&x, &w), first]
        });
        saves(0, "x has changed by then", |b| {
            let ([x, v], w) = (parts(b), b.floats(&[8, 64]));
            let first = b.linear(&x, &v);
            b.copy(&w.shown(&[1, 64], &[64, 1], 0), &x);
            vec![b.linear(&x, &w), first]
        });
    }
}
