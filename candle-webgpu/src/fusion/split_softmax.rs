//! Softmax of rows that are few and long is cut into chunks. An adapter that runs workgroups in turn gains nothing and pays for a
//! second kernel, so the rule is off there. Behind `attention`, which knows it as it is recorded.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::norm::SOFTMAX;
use crate::kernel::softmax::{Chunked, SoftmaxParams};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "split_softmax",
    about: "softmax of few long rows: two kernels over chunks of the rows",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("softmax_last_dim"),
    needs: &[],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at).filter(|op| op.is_of(&SOFTMAX))?;
    let (dtype, access) = *op.spec.operands.first()?;
    let chunked = Chunked::new(op.params::<SoftmaxParams>())?;
    let sums = (Value::of_ops(&device.pool, chunked.bytes()), 0);
    let [parts, join] = chunked.specs(dtype, access == Access::Quads);
    let grid = device.split(&parts, chunked.grid()).ok()?;
    let (x, y) = (op.operands[0].clone(), op.operands[1].clone());
    let to = SmallVec::from_iter([x.clone(), sums.clone()]);
    let parts = Op::new(parts, to, &chunked.params, grid);
    let from = SmallVec::from_iter([x, sums, y]);
    let join = Op::new(join, from, &chunked.params, grid);
    Some(Rewrite::new(&[at], at, [parts, join]))
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::fusion::testing::near;

    #[test]
    fn long_rows() {
        for (dtype, bound) in [(DType::F32, 1e-7), (DType::F16, 1e-4), (DType::Bf16, 1e-3)] {
            for dims in [[1, 50_000], [3, 40_004], [2, 33_333]] {
                let counts = near(bound, |b| vec![b.softmax(&b.of(dtype, &dims))]);
                assert_eq!(counts.0, counts.1 + 1, "{dtype} {dims:?}");
            }
        }
    }

    #[test]
    fn short_rows_stay() {
        let counts = near(0.0, |b| vec![b.softmax(&b.floats(&[300, 1000]))]);
        assert_eq!(counts.0, counts.1);
    }
}
