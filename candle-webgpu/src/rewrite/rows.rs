//! Softmax of rows that are few and long is cut into chunks. An adapter that runs workgroups in turn gains nothing and pays for a
//! second kernel, so the rule is off there. Behind `attention`, which knows it as it is recorded.

use smallvec::SmallVec;

use crate::buffer::Value;
use crate::device::Inner;
use crate::kernel::norm::SOFTMAX;
use crate::kernel::softmax::{Chunked, SoftmaxParams};
use crate::link::Access;
use crate::recorded::Op;
use crate::rewrite::graph::Graph;

pub(crate) fn rewrite(device: &Inner, graph: &mut Graph) -> u64 {
    let mut fired = 0;
    for at in graph.due() {
        if let Some(ops) = graph.op(at).and_then(|op| cut(device, op)) {
            graph.replace(&[at], at, ops);
            fired += 1;
        }
    }
    fired
}

fn cut(device: &Inner, op: &Op) -> Option<[Op; 2]> {
    let (elem, access) = *op.spec.operands.first().filter(|_| op.is_of(&SOFTMAX))?;
    let chunked = Chunked::new(op.params::<SoftmaxParams>())?;
    let sums = (Value::of_ops(&device.pool, chunked.bytes()), 0);
    let [parts, join] = chunked.specs(elem, access == Access::Quads);
    let grid = device.split(&parts, chunked.grid()).ok()?;
    let (x, y) = (op.operands[0].clone(), op.operands[1].clone());
    let to = SmallVec::from_iter([x.clone(), sums.clone()]);
    let parts = Op::new(parts, to, &chunked.params, grid);
    let from = SmallVec::from_iter([x, sums, y]);
    Some([parts, Op::new(join, from, &chunked.params, grid)])
}

#[cfg(test)]
mod tests {
    use crate::elem::Elem;
    use crate::rewrite::testing::near;

    #[test]
    fn long_rows() {
        for (elem, bound) in [(Elem::F32, 1e-7), (Elem::F16, 1e-4), (Elem::Bf16, 1e-3)] {
            for dims in [[1, 50_000], [3, 40_004], [2, 33_333]] {
                let counts = near(bound, |b| vec![b.softmax(&b.of(elem, &dims))]);
                assert_eq!(counts.0, counts.1 + 1, "{elem} {dims:?}");
            }
        }
    }

    #[test]
    fn short_rows_stay() {
        let counts = near(0.0, |b| vec![b.softmax(&b.floats(&[300, 1000]))]);
        assert_eq!(counts.0, counts.1);
    }
}
