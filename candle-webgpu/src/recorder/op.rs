//! A recorded op: plain data until it is encoded.

use std::cell::RefCell;

use smallvec::SmallVec;

use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::recorder::batch::MOST_OPS;
use crate::recorder::copy_run::CopyRun;
use crate::shader::{Kernel, Specialization, PARAMS_SLOT};

/// The number of workgroups of a dispatch.
#[derive(Debug, Clone, Copy)]
pub enum Grid {
    /// Split into x and y. A workgroup's index is `wid.y * num_workgroups.x + wid.x`. Kernels must check it, since the split rounds up.
    Linear(u64),
    Xyz([u32; 3]),
}

/// Parameters, stored inline for most ops.
type Parameters = SmallVec<[u8; 128]>;

/// Bound values and the first byte of each binding, stored inline for most ops.
pub(crate) type Operands = SmallVec<[(Value, u64); 7]>;

/// A recorded dispatch.
pub(crate) struct Op {
    pub spec: Specialization,
    pub operands: Operands,
    /// The kernel reads zeros after them.
    params: Parameters,
    pub grid: [u32; 3],
    /// Set if the op is a copy that others may join.
    pub run: Option<Box<CopyRun>>,
}

/// An op that is about to be recorded.
pub(crate) struct NewOp<'a> {
    pub spec: Specialization,
    pub operands: &'a [BindingRange<'a>],
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub run: Option<Box<CopyRun>>,
}

impl NewOp<'_> {
    pub fn into_op(self) -> Op {
        Op {
            spec: self.spec,
            operands: self.operands.iter().map(BindingRange::bound).collect(),
            params: Parameters::from_slice(self.params),
            grid: self.grid,
            run: self.run,
        }
    }
}

thread_local! {
    /// Boxes of finished ops, for those that come: these are in the cache of the thread's core, and the allocator would be slow, since
    /// another thread frees what it returns.
    static SPARE: RefCell<Ops> = const { RefCell::new(Ops::new()) };
}

/// Boxed, because ops are large and fusion moves them often.
pub(crate) type Ops = Vec<Box<Op>>;

impl Op {
    pub fn new(
        spec: Specialization,
        operands: Operands,
        params: &impl bytemuck::NoUninit,
        grid: [u32; 3],
    ) -> Box<Self> {
        let op = Op {
            spec,
            operands,
            params: Parameters::from_slice(bytemuck::bytes_of(params)),
            grid,
            run: None,
        };
        op.boxed()
    }

    /// Moves the op to a box, one that this thread [kept](Op::retire) if it has one.
    pub fn boxed(self) -> Box<Self> {
        let Some(mut spare) = SPARE.with_borrow_mut(Vec::pop) else {
            return Box::new(self);
        };
        *spare = self;
        spare
    }

    /// Moves the operands to `spent`, and keeps the box for another op of this thread.
    pub fn retire(mut self: Box<Self>, spent: &mut Vec<Value>) {
        spent.extend(self.operands.drain(..).map(|(value, _)| value));
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MOST_OPS {
                spare.push(self);
            }
        });
    }

    pub fn set_params(&mut self, bytes: &[u8]) {
        self.params = Parameters::from_slice(bytes);
    }

    /// Overwrites the first parameters and keeps the others.
    pub fn set_first(&mut self, params: &impl bytemuck::NoUninit) {
        let bytes = bytemuck::bytes_of(params);
        let filled = self.params.len().max(bytes.len());
        self.params.resize(filled, 0);
        self.params[..bytes.len()].copy_from_slice(bytes);
    }

    /// The parameters as the kernel reads them.
    pub fn slot(&self) -> [u8; PARAMS_SLOT as usize] {
        let mut slot = [0; PARAMS_SLOT as usize];
        slot[..self.params.len()].copy_from_slice(&self.params);
        slot
    }

    /// The first parameters as a struct.
    pub fn params<P: bytemuck::Pod>(&self) -> P {
        let mut params = P::zeroed();
        let filled = self.params.len().min(size_of::<P>());
        bytemuck::bytes_of_mut(&mut params)[..filled].copy_from_slice(&self.params[..filled]);
        params
    }

    pub fn is_of(&self, kernel: &'static Kernel) -> bool {
        self.spec.is_of(kernel)
    }
}
