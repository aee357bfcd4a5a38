//! Products of the same few rows with two or three matrices (q, k, v; gate, up) become one kernel. Bit for bit: each is added up
//! as its own kernel does it.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::gemv_projections;
use crate::kernel::matmul::gemv_projections::MOST;
use crate::kernel::matmul::problem::Params as Product;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op};

/// Places of products that share their rows.
type Projections = SmallVec<[usize; MOST]>;

pub(crate) const RULE: Rule = Rule {
    name: "fused_projections",
    about: "matmuls of the same few rows with two or three matrices: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    apply: Apply::Batch(Scan::Due, find),
};

/// A product and those after it that can be computed with it, where, and by what.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let first = graph.op(at)?;
    if !gemv_projections::suits(&first.spec) {
        return None;
    }
    let product: Product = first.params();
    let mut members = Projections::from_slice(&[at]);
    let mut to = at;
    let mut readers = SmallVec::<[usize; 8]>::from_slice(graph.readers(&first.operands.first()?.0));
    readers.retain(|next| *next > at);
    readers.sort_unstable();
    readers.dedup();
    for next in readers {
        let same = graph
            .op(next)
            .is_some_and(|op| are_projections((first, &product), op));
        if !same {
            continue;
        }
        let with: Projections = members.iter().copied().chain([next]).collect();
        // At the first of them, or else at the last.
        let Some(place) = [at, next].into_iter().find(|p| graph.can_move(&with, *p)) else {
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

/// Whether two products differ only in their matrix, the number of its columns, and where they go.
fn are_projections((first, product): (&Op, &Product), op: &Op) -> bool {
    let ([a, b, y], [a1, b1, y1]) = (&first.operands[..], &op.operands[..]) else {
        return false;
    };
    let apart = a.0.same(&a1.0)
        && a.1 == a1.1
        && !y1.0.same(&y.0)
        && !y1.0.same(&b.0)
        // The same product again is asked for by a benchmark.
        && !b1.0.same(&b.0);
    let rows = |p: &Product| (p.m, p.k, p.batch, p.blocks, p.a_offset, p.a_m, p.a_k, p.b_k);
    apart
        && gemv_projections::together(&first.spec, &op.spec)
        && product.batch == 1
        && rows(product) == rows(&op.params())
}

fn joined(device: &Gpu, graph: &Graph, members: &[usize]) -> Option<Op> {
    let first = graph.op(*members.first()?)?;
    let mut operands = SmallVec::from_iter([first.operands.first()?.clone()]);
    let mut products = SmallVec::<[Product; MOST]>::new();
    for &member in members {
        let op = graph.op(member)?;
        products.push(op.params());
        operands.extend(op.operands.iter().skip(1).cloned());
    }
    let (spec, params, groups) = gemv_projections::joined(device, &first.spec, &products)?;
    let grid = device.split(&spec, Grid::Linear(groups.into())).ok()?;
    Some(Op::new(spec, operands, &params, grid))
}

#[cfg(test)]
mod tests {
    use crate::dtype::quant::Quant;
    use crate::dtype::DType;
    use crate::fusion::testing::{same_bits, saved, T};

    #[test]
    fn two_or_three() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for (m, k) in [(1, 2048), (1, 64), (2, 512), (7, 96)] {
                for columns in [&[64, 16, 16][..], &[40, 7], &[5, 6, 7, 8]] {
                    let one = same_bits(|b| {
                        let x = b.of(dtype, &[m, k]);
                        let ws: Vec<T> = columns.iter().map(|n| b.of(dtype, &[*n, k])).collect();
                        ws.iter().map(|w| b.linear(&x, w)).collect()
                    });
                    let expected = columns.len().min(3) as u64 - 1;
                    assert_eq!(saved(one), expected, "{dtype} {m} {k} {columns:?}");
                }
            }
        }
    }

    #[test]
    fn quantized() {
        // Columns that alone would have other forms: 4096 or more have one of their own.
        for quant in [Quant::Q4_0, Quant::Q6K, Quant::Q8_0] {
            for (dtype, m) in [(DType::F32, 1), (DType::F16, 1), (DType::F32, 3)] {
                for columns in [&[64, 16, 16][..], &[40, 7], &[4200, 300, 300]] {
                    let (with, without) = same_bits(|b| {
                        let k = 512;
                        let x = b.of(dtype, &[m, k]);
                        let product = |n: &usize| b.by_blocks(&x, quant, &b.blocks(quant, *n, k));
                        columns.iter().map(product).collect()
                    });
                    let expected = columns.len() as u64 - 1;
                    assert_eq!(
                        without - with,
                        expected,
                        "{quant:?} {dtype} {m} {columns:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn with_an_op_in_between() {
        let counts = same_bits(|b| {
            let x = b.floats(&[1, 256]);
            let (gate, up) = (b.floats(&[96, 256]), b.floats(&[96, 256]));
            let gate = b.unary("usilu", &b.linear(&x, &gate));
            vec![b.binary("bmul", &gate, &b.linear(&x, &up))]
        });
        assert_eq!(counts, (1, 4), "what reads both is in it as well");
    }

    #[test]
    fn stay_apart() {
        assert_eq!(
            0,
            saved(same_bits(|b| {
                let (x, y) = (b.floats(&[1, 64]), b.floats(&[1, 64]));
                let (v, w) = (b.floats(&[8, 64]), b.floats(&[8, 64]));
                vec![b.linear(&x, &v), b.linear(&y, &w)]
            })),
            "other rows"
        );
        assert_eq!(
            0,
            saved(same_bits(|b| {
                let x = b.floats(&[1, 64]);
                let (v, w) = (b.floats(&[8, 64]), b.floats(&[64, 64]));
                let first = b.linear(&x, &v);
                // w is made of what the first product gives.
                let row = w.shown(&[1, 8], &[8, 1], 0);
                b.device.copy_into(first.v(), row.v()).expect("copy");
                vec![b.linear(&x, &w), first]
            })),
            "what one needs comes of the other"
        );
        assert_eq!(
            0,
            saved(same_bits(|b| {
                let x = b.floats(&[1, 64]);
                let (v, w) = (b.floats(&[8, 64]), b.floats(&[8, 64]));
                let first = b.linear(&x, &v);
                b.device
                    .copy_into(w.shown(&[1, 64], &[64, 1], 0).v(), x.v())
                    .expect("copy");
                vec![b.linear(&x, &w), first]
            })),
            "x is another by then"
        );
    }
}
