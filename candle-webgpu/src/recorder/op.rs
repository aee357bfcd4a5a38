//! A recorded op: plain data until it is encoded.

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
        let mut op = match recycled.pop() {
            Some(mut op) => {
                op.spec = self.spec;
                op.operands.clear();
                op.grid = self.grid;
                op
            }
            None => Op::new(self.spec, Operands::new(), &(), self.grid),
        };
        op.operands
            .extend(self.operands.iter().map(BindingRange::bound));
        op.set_params(self.params);
        op.run = self.run;
        op
    }
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
        let mut op = Box::new(Op {
            spec,
            operands,
            params: [0; PARAMS_SLOT as usize],
            filled: 0,
            grid,
            run: None,
        });
        op.set_params(bytemuck::bytes_of(params));
        op
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
