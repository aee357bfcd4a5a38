//! Elementwise expressions: a recorded op as an expression, and an expression as an op to record.

use bytemuck::Zeroable;
use smallvec::SmallVec;

use crate::dtype::{Compute, DType};
use crate::kernel::elementwise::binary::BINARY;
use crate::kernel::elementwise::fused::{
    self, Params, FUSED_ELEMENTWISE, MAX_READS, VIEW_RANK, WHERE_COND_OP,
};
use crate::kernel::elementwise::unary::{COPY, UNARY};
use crate::kernel::elementwise::where_cond::WHERE_COND;
use crate::kernel::reduce::fused_row;
use crate::kernel::{spans, Strided};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::{Access, Arg, Kernel, Step};

/// Dims and strides of an operand that is not flat, and whether its rows are whole quads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walk {
    pub dims: [u32; VIEW_RANK],
    pub strides: [u32; VIEW_RANK],
    pub quads: bool,
}

impl Walk {
    /// Whether element i is element i / m of `rows` values.
    pub fn repeats(&self, rows: u32, m: u32) -> bool {
        let mut dims = self.dims.iter().zip(&self.strides).rev().peekable();
        let (mut along, mut next) = (1, 1);
        while let Some((dim, _)) = dims.next_if(|(dim, stride)| **stride == 0 || **dim == 1) {
            along *= dim;
        }
        let down = dims.all(|(dim, stride)| {
            let dense = *dim == 1 || *stride == next;
            next *= dim;
            dense
        });
        down && (along, next) == (m, rows)
    }
}

/// An operand of an expression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read<'a> {
    pub value: &'a Value,
    /// Start of the binding, in bytes.
    pub start: u64,
    pub dtype: DType,
    pub offset: u32,
    pub view: Option<Walk>,
}

impl<'a> Read<'a> {
    /// Whether this is all of a value, in order.
    pub fn is_whole(&self) -> bool {
        self.view.is_none() && self.offset == 0 && self.start == 0
    }

    /// Whether it is one element of a value of `rows` elements for all `m` of a row.
    pub fn is_along(&self, rows: u32, m: u32) -> bool {
        let repeats = self.view.is_some_and(|walk| walk.repeats(rows, m));
        repeats && (self.offset, self.start) == (0, 0)
    }

    /// The number of contiguous elements after which it repeats; `count` if it does not, `None` for other layouts.
    pub fn period(&self, count: u32) -> Option<u32> {
        let Some(view) = self.view else {
            return Some(count);
        };
        let mut period = 1;
        let mut repeats = false;
        for (&size, &stride) in view.dims.iter().zip(&view.strides).rev() {
            match stride {
                _ if size == 1 => {}
                0 => repeats = true,
                _ if stride == period && !repeats => period *= size,
                _ => return None,
            }
        }
        Some(period)
    }

    /// Operand `i` of an op at `offset`; `layout` returns dims and strides if it is not flat.
    fn of(
        op: &'a Op,
        i: usize,
        offset: u32,
        layout: impl FnOnce() -> Option<[[u32; VIEW_RANK]; 2]>,
    ) -> Option<Self> {
        let (dtype, access) = op.spec.operands[i];
        let (value, start) = &op.operands[i];
        let view = match access {
            Access::Flat => None,
            _ => {
                let [dims, strides] = layout()?;
                Some(Walk {
                    dims,
                    strides,
                    quads: matches!(access, Access::Rows | Access::Quads),
                })
            }
        };
        Some(Read {
            value,
            start: *start,
            dtype,
            offset,
            view,
        })
    }
}

/// How a kernel reads its operands.
type Accesses = SmallVec<[(DType, Access); MAX_READS]>;

/// An elementwise expression. Without steps it is a copy of its only operand. Its values are those of recorded ops.
#[derive(Debug, Clone)]
pub(crate) struct Expr<'a> {
    pub n: u32,
    pub reads: SmallVec<[Read<'a>; 4]>,
    pub steps: SmallVec<[Step; 4]>,
    /// Scalars of each step.
    pub scalars: SmallVec<[[u32; 4]; 4]>,
    pub y: &'a (Value, u64),
    pub out: DType,
}

impl<'a> Expr<'a> {
    /// Those of elementwise ops.
    pub const KERNELS: [&'static Kernel; 4] = [&FUSED_ELEMENTWISE, &UNARY, &BINARY, &WHERE_COND];

    /// Whether an op is elementwise and of dtypes that can be fused.
    pub fn is(op: &Op) -> bool {
        let mut operands = op.spec.operands.iter();
        Expr::KERNELS.iter().any(|kernel| op.is_of(kernel))
            && operands.all(|(dtype, _)| *dtype != DType::F64)
    }

    /// The expression of such an op.
    pub fn lift(op: &'a Op) -> Option<Self> {
        if !Expr::is(op) {
            return None;
        }
        if op.is_of(&FUSED_ELEMENTWISE) {
            return Expr::again(op, op.spec.steps.as_deref()?);
        }
        if op.is_of(&UNARY) {
            let params: Strided<1> = op.params();
            let [_, _, a0, a1] = params.offsets;
            let [b0, b1] = params.pad;
            Expr::one(op, op.spec.op, &params, [a0, a1, b0, b1])
        } else if op.is_of(&BINARY) {
            Expr::one::<2>(op, op.spec.op, &op.params(), [0; 4])
        } else if op.is_of(&WHERE_COND) {
            Expr::one::<3>(op, WHERE_COND_OP, &op.params(), [0; 4])
        } else {
            None
        }
    }

    fn one<const N: usize>(
        op: &'a Op,
        name: &'static str,
        params: &Strided<N>,
        scalars: [u32; 4],
    ) -> Option<Self> {
        let mut expr = Expr {
            n: params.n,
            reads: SmallVec::new(),
            steps: SmallVec::new(),
            scalars: SmallVec::new(),
            y: &op.operands[N],
            out: op.spec.dtype(N),
        };
        let mut args = SmallVec::new();
        for i in 0..N {
            let layout = || params.padded().map(|(dims, strides)| [dims, strides[i]]);
            let read = Read::of(op, i, params.offsets[i], layout)?;
            let dtype = read.dtype;
            args.push((expr.read(read), dtype));
        }
        if name != COPY {
            expr.steps.push(Step {
                op: name,
                args,
                out: expr.out,
            });
            expr.scalars.push(scalars);
        }
        Some(expr)
    }

    /// What [`Expr::op`] recorded.
    fn again(op: &'a Op, steps: &[Step]) -> Option<Self> {
        let mut params: Params = op.params();
        let offsets = params.offsets().map(|offset| *offset);
        let (y, reads) = op.operands.split_last()?;
        let mut views = params.views.into_iter();
        let reads = (0..reads.len()).map(|i| Read::of(op, i, offsets[i], || views.next()));
        let reads = reads.collect::<Option<_>>()?;
        let mut kept = params.scalars.iter();
        let mut scalars = |step: &Step| match step.has_scalars() {
            true => kept.next().copied().unwrap_or_default(),
            false => [0; 4],
        };
        Some(Expr {
            n: params.n,
            reads,
            scalars: steps.iter().map(&mut scalars).collect(),
            steps: steps.iter().cloned().collect(),
            y,
            out: op.spec.dtype(op.operands.len() - 1),
        })
    }

    /// Adds an operand, unless it is there.
    pub fn read(&mut self, read: Read<'a>) -> Arg {
        let same = |old: &Read| {
            old.value.same(read.value)
                && (old.start, old.dtype, old.offset, old.view)
                    == (read.start, read.dtype, read.offset, read.view)
        };
        let at = self.reads.iter().position(same).unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        });
        Arg::Read(at as u8)
    }

    /// Adds the steps of another expression, with `args` for its operands.
    pub fn append(&mut self, other: &Expr, args: &[Arg]) {
        let ready = self.steps.len() as u8;
        for (step, scalars) in other.steps.iter().zip(&other.scalars) {
            let mut step = step.clone();
            for (arg, _) in &mut step.args {
                *arg = match *arg {
                    Arg::Read(at) => args[usize::from(at)],
                    Arg::Step(at) => Arg::Step(at + ready),
                };
            }
            self.steps.push(step);
            self.scalars.push(*scalars);
        }
    }

    /// Reorders the operands: `values` first. None unless each of them is exactly one operand.
    pub fn in_front(mut self, values: &[&Value]) -> Option<Self> {
        let mut order = SmallVec::<[usize; MAX_READS]>::new();
        for value in values {
            let mut places = (0..self.reads.len()).filter(|i| self.reads[*i].value.same(value));
            order.push(places.next().filter(|_| places.next().is_none())?);
        }
        let others = (0..self.reads.len()).filter(|i| !order.contains(i));
        let order: SmallVec<[usize; MAX_READS]> = order.iter().copied().chain(others).collect();
        self.keep(&order);
        Some(self)
    }

    /// The same without operand `at`, whose elements are all zero. None unless exactly one step reads it, to add it to a float.
    pub fn without_zeros(mut self, at: usize) -> Option<Self> {
        let read = Arg::Read(at as u8);
        let reads = |step: &Step| step.args.iter().any(|(arg, _)| *arg == read);
        let mut readers = (0..self.steps.len()).filter(|i| reads(&self.steps[*i]));
        let i = readers.next().filter(|_| readers.next().is_none())?;
        let step = &mut self.steps[i];
        step.args.retain(|(arg, _)| *arg != read);
        let [(_, dtype)] = step.args[..] else {
            return None;
        };
        if step.op != "badd" || dtype.info().compute != Compute::F32 {
            return None;
        }
        // x * 1 + 0, since -0 + 0 is 0.
        step.op = "affine";
        self.scalars[i] = [1f32.to_bits(), 0, 0, 0];
        self.drop_unread();
        Some(self)
    }

    /// The scalars of the steps that have some.
    pub fn scalars(&self) -> impl Iterator<Item = &[u32; 4]> {
        let steps = self.steps.iter().zip(&self.scalars);
        steps
            .filter(|(step, _)| step.has_scalars())
            .map(|(_, scalars)| scalars)
    }

    /// Drops operands that no step reads.
    pub fn drop_unread(&mut self) {
        let args = || self.steps.iter().flat_map(|step| &step.args);
        let is_read = |at: &usize| args().any(|(arg, _)| *arg == Arg::Read(*at as u8));
        let read: SmallVec<[usize; MAX_READS]> = (0..self.reads.len()).filter(is_read).collect();
        if read.len() < self.reads.len() {
            self.keep(&read);
        }
    }

    /// Keeps the operands at these places, in this order. No step may read another.
    pub fn keep(&mut self, places: &[usize]) {
        self.reads = places.iter().map(|at| self.reads[*at]).collect();
        let args = self.steps.iter_mut().flat_map(|step| &mut step.args);
        for (arg, _) in args {
            if let Arg::Read(at) = arg {
                let place = places.iter().position(|old| *old == usize::from(*at));
                *at = place.unwrap_or_default() as u8;
            }
        }
    }

    /// The op to record.
    pub fn op(&self, device: &Gpu) -> Option<Box<Op>> {
        let (params, reads) = self.params()?;
        let spec = fused::spec(
            &FUSED_ELEMENTWISE,
            &reads,
            self.steps.to_vec().into(),
            self.out,
        );
        let grid = spans(&spec, self.n as usize);
        device.op(spec, self.operands(), &params, grid).ok()
    }

    /// The op to record if one of the steps reduces rows of `m` elements. `rows`: of a workgroup.
    pub fn row_op(&self, device: &Gpu, m: u32, rows: u32) -> Option<Box<Op>> {
        let (of, reads) = self.params()?;
        let params = fused_row::Params { of, m, pad: [0; 3] };
        let spec = fused_row::spec(&reads, self.steps.to_vec().into(), self.out, rows);
        let grid = fused_row::grid(self.n / m, rows);
        device.op(spec, self.operands(), &params, grid).ok()
    }

    /// What the kernel binds.
    fn operands(&self) -> impl Iterator<Item = (Value, u64)> + '_ {
        let bound = |read: &Read| (read.value.clone(), read.start);
        let reads = self.reads.iter().map(bound);
        reads.chain([self.y.clone()])
    }

    /// The kernel's parameters, and how it reads its operands.
    fn params(&self) -> Option<(Params, Accesses)> {
        let mut params = Params {
            n: self.n,
            ..Params::zeroed()
        };
        for (read, offset) in self.reads.iter().zip(params.offsets()) {
            *offset = read.offset;
        }
        let mut views = params.views.iter_mut();
        let mut operands = Accesses::new();
        for read in &self.reads {
            let access = match read.view {
                None => Access::Flat,
                Some(walk) => {
                    *views.next()? = [walk.dims, walk.strides];
                    if walk.quads {
                        Access::Quads
                    } else {
                        Access::Words
                    }
                }
            };
            operands.push((read.dtype, access));
        }
        for (from, to) in self.scalars().zip(&mut params.scalars) {
            *to = *from;
        }
        Some((params, operands))
    }
}
