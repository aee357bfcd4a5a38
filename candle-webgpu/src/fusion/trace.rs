//! Where the elements of a value come from: through copies and exact conversions, back to a value that lies anyhow.

use smallvec::{smallvec, SmallVec};

use crate::dtype::DType;
use crate::fusion::graph::{Graph, Places};
use crate::kernel::elementwise::unary::{CAST_OP, COPY, UNARY};
use crate::kernel::Strided;
use crate::memory::buffer::Value;
use crate::recorder::op::Op;

/// Sizes and strides, from the outermost on.
pub(crate) type Axis = SmallVec<[(usize, usize); 4]>;

/// An operand seen along `N` axes, each of which may be made of several dims.
#[derive(Debug, Clone)]
pub(crate) struct OperandView<const N: usize> {
    /// Where the op that reads it stands, and which operand it is. It is not held: what holds a value decides what rules may do.
    pub reader: usize,
    pub operand: usize,
    pub dtype: DType,
    pub offset: usize,
    pub axes: [Axis; N],
}

/// How an op lays what it reads: sizes, strides of what it writes and of what it reads, from the outermost on, with nothing
/// left out or written twice.
pub(crate) struct CopyMap {
    pub dtype: DType,
    offset: usize,
    dims: SmallVec<[(usize, usize, usize); 8]>,
}

impl CopyMap {
    /// Of a copy, or a conversion that loses nothing, of all of a value.
    fn of(op: &Op, dtype: DType) -> Option<CopyMap> {
        let mut dims = SmallVec::<[(usize, usize, usize); 8]>::new();
        let (from, offset) = if let Some(run) = &op.run {
            let (from, sizes, [x, y], offsets) = run.layout();
            for (i, size) in sizes.iter().enumerate() {
                dims.push((*size, y[i], x[i]));
            }
            if from.size() != dtype.size() || offsets[1] != 0 {
                return None;
            }
            (dtype, offsets[0])
        } else if op.is_of(&UNARY) {
            let from = match (op.spec.op, op.spec.dtype(0)) {
                (COPY, _) => dtype,
                (CAST_OP, from @ (DType::F16 | DType::Bf16)) if dtype == DType::F32 => from,
                _ => return None,
            };
            return Some(CopyMap::strided::<1>(&op.params(), 0, from));
        } else {
            return None;
        };
        dims.retain(|(size, ..)| *size > 1);
        dims.sort_unstable_by_key(|(_, to, _)| std::cmp::Reverse(*to));
        let mut step = 1;
        let dense = dims.iter().rev().all(|(size, to, _)| {
            let dense = *to == step;
            step *= size;
            dense
        });
        let dtype = from;
        dense.then_some(CopyMap {
            dtype,
            offset,
            dims,
        })
    }

    /// Of operand `i` of an elementwise op.
    pub fn strided<const N: usize>(params: &Strided<N>, i: usize, dtype: DType) -> CopyMap {
        let mut dims = SmallVec::new();
        let mut step = 1;
        for d in (0..params.rank as usize).rev() {
            let size = params.dims[d] as usize;
            if size > 1 {
                dims.insert(0, (size, step, params.strides[i][d] as usize));
            }
            step *= size;
        }
        let offset = params.offsets[i] as usize;
        CopyMap {
            dtype,
            offset,
            dims,
        }
    }

    /// Steps along what is written as steps along what is read. `reach` counts how far into each dim all steps go.
    fn axis(&self, size: usize, stride: usize, reach: &mut [usize]) -> Option<Axis> {
        if size == 1 || stride == 0 {
            return Some(smallvec![(size, 0)]);
        }
        let (mut left, mut stride) = (size, stride);
        let mut axis = Axis::new();
        for (i, &(dim, to, from)) in self.dims.iter().enumerate().rev() {
            if stride >= to * dim || left == 1 {
                continue;
            }
            if stride % to != 0 {
                return None;
            }
            let step = stride / to;
            let here = left.min(dim / step);
            if here < left && (dim % step != 0 || left % here != 0) {
                return None;
            }
            reach[i] += (here - 1) * step;
            axis.insert(0, (here, step * from));
            left /= here;
            stride = to * dim;
        }
        (left == 1).then_some(axis)
    }
}

impl<const N: usize> OperandView<N> {
    /// The value, and the byte from which it is bound.
    pub fn value<'a>(&self, graph: &'a Graph) -> Option<&'a (Value, u64)> {
        graph.op(self.reader)?.operands.get(self.operand)
    }

    /// The same elements in what operand `operand` of the op at `maker` is, which lays it so.
    pub fn through(&self, laid: &CopyMap, maker: usize, operand: usize) -> Option<OperandView<N>> {
        let mut reach: SmallVec<[usize; 8]> = smallvec![0; laid.dims.len()];
        let (mut rest, mut offset) = (self.offset, laid.offset);
        for ((_, to, from), digit) in laid.dims.iter().zip(&mut reach) {
            *digit = rest / to;
            rest %= to;
            offset += *digit * from;
        }
        let mut axes = std::array::from_fn(|_| Axis::new());
        for (axis, new) in self.axes.iter().zip(&mut axes) {
            for (size, stride) in axis {
                new.extend(laid.axis(*size, *stride, &mut reach)?);
            }
        }
        let inside = laid
            .dims
            .iter()
            .zip(&reach)
            .all(|((dim, ..), far)| far < dim);
        inside.then_some(OperandView {
            reader: maker,
            operand,
            dtype: laid.dtype,
            offset,
            axes,
        })
    }

    /// Goes back through ops whose results only the next one reads, and adds them to `members`. All axes but the first stay
    /// single dims.
    pub fn trace(mut self, graph: &Graph, members: &mut Places) -> OperandView<N> {
        let before = |seen: &OperandView<N>| {
            let maker = graph.sole_producer(seen.value(graph), seen.reader)?;
            let laid = CopyMap::of(graph.op(maker)?, seen.dtype)?;
            let before = seen.through(&laid, maker, 0)?;
            let single = before.axes[1..].iter().all(|axis| stride(axis).is_some());
            single.then_some(before)
        };
        while let Some(found) = before(&self) {
            self = found;
            members.push(self.reader);
        }
        self
    }
}

/// The stride of an axis that is one dim; 0 where there is no step to take.
pub(crate) fn stride(axis: &Axis) -> Option<u32> {
    let mut steps = axis.iter().filter(|(size, _)| *size > 1);
    let first = steps.next().map_or(0, |(_, stride)| *stride);
    if steps.next().is_some() {
        return None;
    }
    u32::try_from(first).ok()
}

/// Axes of the same size as one list of dims, with a stride for each axis.
pub(crate) fn common<const N: usize>(axes: [&Axis; N]) -> Option<Vec<(usize, [usize; N])>> {
    let mut rest = axes.map(|axis| {
        let steps = axis.iter().filter(|(size, _)| *size > 1);
        steps.copied().collect::<Axis>()
    });
    let mut dims: Vec<(usize, [usize; N])> = Vec::new();
    while rest.iter().any(|axis| !axis.is_empty()) {
        let sizes = rest.iter().map(|axis| axis.last().map(|(size, _)| *size));
        let size = sizes.collect::<Option<Vec<_>>>()?.into_iter().min()?;
        let mut strides = [0; N];
        for (axis, stride) in rest.iter_mut().zip(&mut strides) {
            let (left, step) = axis.last_mut()?;
            if *left % size != 0 {
                return None;
            }
            *stride = *step;
            *left /= size;
            *step *= size;
            if *left == 1 {
                axis.pop();
            }
        }
        match dims.first_mut() {
            // One walk goes on where the last one ends.
            Some((inner, steps)) if (0..N).all(|i| strides[i] == steps[i] * *inner) => {
                *inner *= size;
            }
            _ => dims.insert(0, (size, strides)),
        }
    }
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(dims: &[(usize, usize)]) -> Axis {
        Axis::from_slice(dims)
    }

    #[test]
    fn axes_in_common_dims() {
        let (q, k) = (axis(&[(8, 64)]), axis(&[(4, 100), (2, 0)]));
        let dims = common([&q, &k]);
        assert_eq!(dims, Some(vec![(4, [128, 100]), (2, [64, 0])]));
        let whole = common([&axis(&[(2, 40), (4, 10)]), &axis(&[(8, 1)])]);
        assert_eq!(whole, Some(vec![(8, [10, 1])]));
        assert_eq!(common([&axis(&[(6, 1)]), &axis(&[(3, 9), (4, 0)])]), None);
        assert_eq!(common([&axis(&[(1, 5)]), &axis(&[])]), Some(vec![]));
    }

    #[test]
    fn steps_through_a_repeat() {
        // Two heads of 30 elements, each three times.
        let laid = CopyMap {
            dtype: DType::F32,
            offset: 0,
            dims: SmallVec::from_slice(&[(2, 90, 30), (3, 30, 0), (30, 1, 1)]),
        };
        let steps = |size, stride| {
            let mut reach = [0; 3];
            laid.axis(size, stride, &mut reach)
        };
        assert_eq!(steps(6, 30), Some(axis(&[(2, 30), (3, 0)])), "heads");
        assert_eq!(steps(5, 6), Some(axis(&[(5, 6)])), "keys");
        assert_eq!(steps(60, 1), Some(axis(&[(2, 0), (30, 1)])), "two copies");
        assert_eq!(steps(4, 20), None, "beyond a head");
        assert_eq!(steps(2, 45), None, "half of one");
    }
}
