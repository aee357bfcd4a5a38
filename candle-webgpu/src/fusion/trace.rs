//! Traces an operand back through copies and lossless casts to the strided tensor that its elements come from.

use smallvec::{smallvec, SmallVec};

use crate::dtype::DType;
use crate::fusion::graph::{Graph, Places};
use crate::kernel::elementwise::unary::{CAST_OP, COPY, UNARY};
use crate::kernel::Strided;
use crate::memory::buffer::Value;
use crate::recorder::op::Op;

/// (size, stride) of the dims that make up one axis, outermost first.
pub(crate) type Axis = SmallVec<[(usize, usize); 4]>;

/// An operand as an `N`-axis strided tensor. An axis may consist of several dims.
#[derive(Debug, Clone)]
pub(crate) struct OperandView<const N: usize> {
    /// The place of the op that reads it, and the index of the operand. There is no handle of the value, since the number of handles
    /// decides whether it is private.
    pub reader: usize,
    pub operand: usize,
    pub dtype: DType,
    pub offset: usize,
    pub axes: [Axis; N],
}

/// How a copy moves elements: for each dim, outermost first, its size, the stride of the output and the stride of the input. The output is
/// dense: every element is written once.
pub(crate) struct CopyMap {
    pub dtype: DType,
    offset: usize,
    dims: SmallVec<[(usize, usize, usize); 8]>,
}

impl CopyMap {
    /// For an op that copies a value, or casts it without loss, to an output of `dtype`.
    fn of(op: &Op, dtype: DType) -> Option<CopyMap> {
        let Some(run) = &op.run else {
            let from = match (op.spec.op, op.spec.dtype(0)) {
                _ if !op.is_of(&UNARY) => return None,
                (COPY, _) => dtype,
                (CAST_OP, from @ (DType::F16 | DType::Bf16)) if dtype == DType::F32 => from,
                _ => return None,
            };
            return Some(CopyMap::strided::<1>(&op.params(), 0, from));
        };
        let [x, y] = &run.strides;
        let sizes = run.dims.iter().enumerate();
        let dims = sizes.map(|(i, n)| (*n, y[i], x[i]));
        let mut dims: SmallVec<[_; 8]> = dims.filter(|(size, ..)| *size > 1).collect();
        dims.sort_unstable_by_key(|(_, to, _)| std::cmp::Reverse(*to));
        let mut step = 1;
        let dense = dims.iter().rev().all(|(size, to, _)| {
            let dense = *to == step;
            step *= size;
            dense
        });
        let whole = dense && run.dtype.size() == dtype.size() && run.offsets[1] == 0;
        whole.then_some(CopyMap {
            dtype,
            offset: run.offsets[0],
            dims,
        })
    }

    /// For an op that copies a value to an output of `dtype`, or multiplies it by a number, which is returned.
    fn scaled(op: &Op, dtype: DType) -> Option<(CopyMap, f32)> {
        if !op.is_of(&UNARY) || op.spec.op != "affine" {
            return Some((CopyMap::of(op, dtype)?, 1.0));
        }
        let params: Strided<1> = op.params();
        let [factor, addend] = [params.offsets[2], params.pad[0]].map(f32::from_bits);
        let fits = addend == 0.0 && op.spec.dtype(0) == dtype;
        fits.then(|| (CopyMap::strided(&params, 0, dtype), factor))
    }

    /// The map of a copy of all `count` elements of a value that is read in another order: from the output to the value.
    pub fn inverse(op: &Op, dtype: DType, count: usize) -> Option<CopyMap> {
        let map = CopyMap::of(op, dtype)?;
        let mut dims = map.dims;
        dims.sort_unstable_by_key(|(_, _, from)| std::cmp::Reverse(*from));
        let mut step = 1;
        let each_once = dims.iter().rev().all(|(size, _, from)| {
            let next = *from == step;
            step *= size;
            next
        });
        let whole = each_once && step == count && map.offset == 0 && map.dtype == dtype;
        let dims = dims.iter().map(|(size, to, from)| (*size, *from, *to));
        whole.then(|| CopyMap {
            dims: dims.collect(),
            offset: 0,
            dtype,
        })
    }

    /// For operand `i` of an elementwise op.
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
        CopyMap {
            dtype,
            offset: params.offsets[i] as usize,
            dims,
        }
    }

    /// Translates `size` steps of `stride` in the output into steps in the input, and appends these to `axis`. Adds the index that they
    /// reach in each dim to `reach`.
    fn append(
        &self,
        (size, stride): (usize, usize),
        axis: &mut Axis,
        reach: &mut [usize],
    ) -> Option<()> {
        if size == 1 || stride == 0 {
            axis.push((size, 0));
            return Some(());
        }
        let (mut left, mut stride) = (size, stride);
        let outermost = axis.len();
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
            axis.push((here, step * from));
            left /= here;
            stride = to * dim;
        }
        axis[outermost..].reverse();
        (left == 1).then_some(())
    }
}

impl<const N: usize> OperandView<N> {
    /// The operand's value, and the byte at which its binding begins.
    pub fn value<'a>(&self, graph: &'a Graph) -> Option<&'a (Value, u64)> {
        graph.op(self.reader)?.operands.get(self.operand)
    }

    /// The same elements in operand `operand` of the op at `producer`, which copies that operand by `map`.
    pub fn through(&self, map: &CopyMap, producer: usize, operand: usize) -> Option<Self> {
        let mut reach: SmallVec<[usize; 8]> = smallvec![0; map.dims.len()];
        let (mut rest, mut offset) = (self.offset, map.offset);
        for ((_, to, from), digit) in map.dims.iter().zip(&mut reach) {
            *digit = rest / to;
            rest %= to;
            offset += *digit * from;
        }
        let mut axes = std::array::from_fn(|_| Axis::new());
        for (axis, new) in self.axes.iter().zip(&mut axes) {
            for steps in axis {
                map.append(*steps, new, &mut reach)?;
            }
        }
        let mut reached = map.dims.iter().zip(&reach);
        let inside = reached.all(|((dim, ..), far)| far < dim);
        inside.then_some(OperandView {
            reader: producer,
            operand,
            dtype: map.dtype,
            offset,
            axes,
        })
    }

    /// Follows the operand back through copies that no other op reads, and adds their places to `members`. Stops where an axis other than
    /// the first would need several dims. With a `scale`, also follows multiplications by a number, which multiply it.
    pub fn trace(
        mut self,
        graph: &Graph,
        members: &mut Places,
        mut scale: Option<&mut f32>,
    ) -> OperandView<N> {
        let scales = scale.is_some();
        let before = |view: &OperandView<N>| {
            let producer = graph.sole_producer(view.value(graph), view.reader)?;
            let (map, factor) = CopyMap::scaled(graph.op(producer)?, view.dtype)?;
            let before = view.through(&map, producer, 0)?;
            let single = before.axes[1..].iter().all(|axis| stride(axis).is_some());
            (single && (scales || factor == 1.0)).then_some((before, factor))
        };
        while let Some((found, factor)) = before(&self) {
            self = found;
            members.push(self.reader);
            if let Some(scale) = &mut scale {
                **scale *= factor;
            }
        }
        self
    }
}

/// Whether the op at a place is due, or one of the copies or elementwise ops of one operand through which its operand is traced.
pub(crate) fn may_be_due(graph: &Graph, mut at: usize, mut operand: usize) -> bool {
    let copies = |op: &&Op| op.run.is_some() || op.is_of(&UNARY);
    while !graph.due().contains(&at) {
        let bound = graph.op(at).and_then(|op| op.operands.get(operand));
        let producer = graph.sole_producer(bound, at);
        let Some(next) = producer.filter(|next| graph.op(*next).filter(copies).is_some()) else {
            return false;
        };
        (at, operand) = (next, 0);
    }
    true
}

/// The stride of an axis of one dim, 0 if its size is 1; `None` if the axis has several dims.
pub(crate) fn stride(axis: &Axis) -> Option<u32> {
    let mut steps = axis.iter().filter(|(size, _)| *size > 1);
    let first = steps.next().map_or(0, |(_, stride)| *stride);
    if steps.next().is_some() {
        return None;
    }
    u32::try_from(first).ok()
}

/// Splits axes of the same size into common dims, each with a stride for every axis; `None` if they do not divide evenly.
pub(crate) fn common_dims<const N: usize>(axes: [&Axis; N]) -> Option<Vec<(usize, [usize; N])>> {
    let mut rest = axes.map(|axis| {
        let steps = axis.iter().filter(|(size, _)| *size > 1);
        steps.copied().collect::<Axis>()
    });
    let mut dims: Vec<(usize, [usize; N])> = Vec::new();
    while rest.iter().any(|axis| !axis.is_empty()) {
        let sizes = rest.iter().map(|axis| axis.last().map(|(size, _)| *size));
        // `None` if an axis has no dims left, which is less than any size.
        let size = sizes.min()??;
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
            // Adjacent dims merge into one.
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
        let dims = common_dims([&q, &k]);
        assert_eq!(dims, Some(vec![(4, [128, 100]), (2, [64, 0])]));
        let whole = common_dims([&axis(&[(2, 40), (4, 10)]), &axis(&[(8, 1)])]);
        assert_eq!(whole, Some(vec![(8, [10, 1])]));
        assert_eq!(
            common_dims([&axis(&[(6, 1)]), &axis(&[(3, 9), (4, 0)])]),
            None
        );
        assert_eq!(common_dims([&axis(&[(1, 5)]), &axis(&[])]), Some(vec![]));
    }

    #[test]
    fn steps_through_a_repeat() {
        // Two heads of 30 elements, each three times.
        let map = CopyMap {
            dtype: DType::F32,
            offset: 0,
            dims: SmallVec::from_slice(&[(2, 90, 30), (3, 30, 0), (30, 1, 1)]),
        };
        let steps = |size, stride| {
            let mut axis = Axis::new();
            let fits = map.append((size, stride), &mut axis, &mut [0; 3]);
            fits.map(|()| axis)
        };
        assert_eq!(steps(6, 30), Some(axis(&[(2, 30), (3, 0)])), "heads");
        assert_eq!(steps(5, 6), Some(axis(&[(5, 6)])), "keys");
        assert_eq!(steps(60, 1), Some(axis(&[(2, 0), (30, 1)])), "two copies");
        assert_eq!(steps(4, 20), None, "beyond a head");
        assert_eq!(steps(2, 45), None, "half of one");
    }
}
