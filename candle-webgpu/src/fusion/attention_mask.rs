//! The masks of the rule `attention`: an added tensor, or a u8 tensor that marks which scores one value replaces.

use crate::dtype::DType;
use crate::fusion::graph::Graph;
use crate::fusion::trace::{Axis, CopyMap, OperandView};
use crate::kernel::attention::plan::Mask;
use crate::kernel::elementwise::binary::BINARY;
use crate::kernel::elementwise::where_cond::WHERE_COND;
use crate::kernel::Strided;
use crate::memory::buffer::Value;
use crate::recorder::op::Op;
use crate::shader::Access;

/// How an op masks scores of a dtype, and which of its operands the scores are.
pub(super) fn mask_of(op: &Op, dtype: DType) -> Option<(Mask, usize)> {
    let flat = |i: usize, offset: u32| op.spec.operands[i].1 == Access::Flat && offset == 0;
    if op.is_of(&BINARY) && op.spec.op == "badd" {
        let params: Strided<2> = op.params();
        let mask = Mask::Add(op.spec.dtype(0));
        return flat(0, params.offsets[0]).then_some((mask, 0));
    }
    if !op.is_of(&WHERE_COND) || op.spec.dtype(0) != DType::U8 {
        return None;
    }
    let params: Strided<3> = op.params();
    [1, 2].into_iter().find_map(|filled| {
        let scores = 3 - filled;
        let strides = &params.strides[filled][..params.rank as usize];
        let mut steps = strides.iter().zip(params.dims);
        let same = steps.all(|(stride, dim)| *stride == 0 || dim == 1);
        let mask = Mask::Fill {
            fill: dtype,
            marked: filled == 1,
        };
        (same && flat(scores, params.offsets[scores])).then_some((mask, scores))
    })
}

/// The mask along (batch, queries, keys), and where the value lies that it fills scores with.
#[allow(clippy::type_complexity, reason = "the parts of a mask")]
pub(super) fn mask_view(
    graph: &Graph,
    (at, how): (usize, Mask),
    [batch, i, j]: [u32; 3],
) -> Option<(OperandView<3>, Mask, Option<((Value, u64), u32)>)> {
    let op = graph.op(at)?;
    let [batch, i, j] = [batch, i, j].map(|n| n as usize);
    let axis = |size, stride| Axis::from_slice(&[(size, stride)]);
    let scores = OperandView {
        reader: at,
        operand: 0,
        dtype: op.spec.dtype(0),
        offset: 0,
        axes: [axis(batch, i * j), axis(i, j), axis(j, 1)],
    };
    let Mask::Fill { marked, .. } = how else {
        let map = CopyMap::strided::<2>(&op.params(), 1, op.spec.dtype(1));
        return Some((scores.through(&map, at, 1)?, how, None));
    };
    let params: Strided<3> = op.params();
    let map = CopyMap::strided(&params, 0, DType::U8);
    let filled = if marked { 1 } else { 2 };
    let bound = (op.operands[filled].clone(), params.offsets[filled]);
    Some((scores.through(&map, at, 0)?, how, Some(bound)))
}
