//! A recorded op: plain data until it is encoded.

use std::cell::RefCell;

use smallvec::SmallVec;

use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::recorder::copy_run::CopyRun;
use crate::shader::{Kernel, Specialization, PARAMS_SLOT};

/// The number of workgroups of a dispatch.
#[derive(Debug, Clone, Copy)]
pub enum Grid {
    /// Split into x and y. A workgroup's index is `wid.y * num_workgroups.x + wid.x`. Kernels must check it, since the split rounds up.
    Linear(u64),
    Xyz([u32; 3]),
}

/// Bound values and the first byte of each binding, stored inline for most ops.
pub(crate) type Operands = SmallVec<[(Value, u64); 7]>;

/// A recorded dispatch.
pub(crate) struct Op {
    pub spec: Specialization,
    pub operands: Operands,
    /// The first `filled` bytes are valid; the kernel reads zeros after them.
    params: [u8; PARAMS_SLOT as usize],
    filled: usize,
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
    /// Reuses a recycled op if one is available. Writes as little of it as possible, since another thread used it last and its cache lines
    /// are remote.
    pub fn into_op(self, recycled: &mut Ops) -> Box<Op> {
        let mut op = Op::in_box(recycled.pop(), self.spec, self.grid);
        op.operands
            .extend(self.operands.iter().map(BindingRange::bound));
        op.set_params(self.params);
        op.run = self.run;
        op
    }
}

/// Boxes that a thread keeps.
const MAX_SPARE: usize = 32;

thread_local! {
    /// Boxes of ops that rules replaced, for those that they make: these are in the cache of the thread's core, and the allocator would be
    /// slow, since another thread frees what it returns.
    static SPARE: RefCell<Ops> = const { RefCell::new(Ops::new()) };
}

/// Boxed, because ops are large and fusion moves them often.
pub(crate) type Ops = Vec<Box<Op>>;

impl Op {
    /// An op without operands, in a new box or in that of another.
    fn in_box(of: Option<Box<Self>>, spec: Specialization, grid: [u32; 3]) -> Box<Self> {
        match of {
            Some(mut op) => {
                op.spec = spec;
                op.operands.clear();
                op.grid = grid;
                op
            }
            None => Box::new(Op {
                spec,
                operands: Operands::new(),
                params: [0; PARAMS_SLOT as usize],
                filled: 0,
                grid,
                run: None,
            }),
        }
    }

    pub fn new(
        spec: Specialization,
        operands: Operands,
        params: &impl bytemuck::NoUninit,
        grid: [u32; 3],
    ) -> Box<Self> {
        let mut op = Op::in_box(SPARE.with_borrow_mut(Vec::pop), spec, grid);
        op.operands = operands;
        op.run = None;
        op.set_params(bytemuck::bytes_of(params));
        op
    }

    /// Keeps the box of an op without operands for the next [`Op::new`] of this thread, or returns it if enough are kept.
    pub fn reuse(self: Box<Self>) -> Option<Box<Self>> {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() == MAX_SPARE {
                return Some(self);
            }
            spare.push(self);
            None
        })
    }

    pub fn set_params(&mut self, bytes: &[u8]) {
        self.params[..bytes.len()].copy_from_slice(bytes);
        self.filled = bytes.len();
    }

    /// Overwrites the first parameters and keeps the others.
    pub fn set_first(&mut self, params: &impl bytemuck::NoUninit) {
        let bytes = bytemuck::bytes_of(params);
        self.params[..bytes.len()].copy_from_slice(bytes);
        self.filled = self.filled.max(bytes.len());
    }

    /// The parameters as the kernel reads them.
    pub fn slot(&self) -> [u8; PARAMS_SLOT as usize] {
        let mut slot = [0; PARAMS_SLOT as usize];
        slot[..self.filled].copy_from_slice(&self.params[..self.filled]);
        slot
    }

    /// The first parameters as a struct.
    pub fn params<P: bytemuck::Pod>(&self) -> P {
        let mut params = P::zeroed();
        let filled = self.filled.min(size_of::<P>());
        bytemuck::bytes_of_mut(&mut params)[..filled].copy_from_slice(&self.params[..filled]);
        params
    }

    pub fn is_of(&self, kernel: &'static Kernel) -> bool {
        self.spec.is_of(kernel)
    }
}
