//! What is recorded of an op. It is plain data until it is encoded.

use smallvec::SmallVec;

use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::recorder::copy_run::CopyRun;
use crate::shader::{Kernel, Specialization, PARAMS_SLOT};

/// How many workgroups.
#[derive(Debug, Clone, Copy)]
pub enum Grid {
    /// Split into x and y: a kernel numbers its workgroups `wid.y * num_workgroups.x + wid.x` and
    /// guards, since the split rounds up.
    Linear(u64),
    Xyz([u32; 3]),
}

/// Values, and the byte from which each is bound. As many as most ops have lie in place.
pub(crate) type Operands = SmallVec<[(Value, u64); 7]>;

/// A recorded op: plain data.
pub(crate) struct Op {
    pub spec: Specialization,
    pub operands: Operands,
    /// The first `filled` bytes count, the others are zeros to its kernel.
    params: [u8; PARAMS_SLOT as usize],
    filled: usize,
    pub grid: [u32; 3],
    /// What it copies, if a copy is all that it does.
    pub run: Option<CopyRun>,
}

/// An op that is about to be recorded.
pub(crate) struct NewOp<'a> {
    pub spec: Specialization,
    pub operands: &'a [BindingRange<'a>],
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub run: Option<CopyRun>,
}

impl NewOp<'_> {
    /// Reuses a recycled op if one is available, and writes no more of it than it must: another thread touched it last, so its cache lines are
    /// far away.
    pub fn recycle(self, recycled: &mut Ops) -> Box<Op> {
        let mut op = match recycled.pop() {
            Some(mut op) => {
                op.spec = self.spec;
                op.operands.clear();
                op.grid = self.grid;
                op
            }
            None => Box::new(Op::new(self.spec, Operands::new(), &(), self.grid)),
        };
        op.operands
            .extend(self.operands.iter().map(BindingRange::bound));
        op.set_params(self.params);
        op.run = self.run;
        op
    }
}

/// Boxed, since they are large, and moved often while they are rewritten.
pub(crate) type Ops = Vec<Box<Op>>;

/// Reuses a recycled `Box` if one is available: allocators are slow where one thread frees what another allocated.
pub(crate) fn boxed(op: Op, recycled: &mut Ops) -> Box<Op> {
    match recycled.pop() {
        Some(mut place) => {
            *place = op;
            place
        }
        None => Box::new(op),
    }
}

impl Op {
    pub fn new(
        spec: Specialization,
        operands: Operands,
        params: &impl bytemuck::NoUninit,
        grid: [u32; 3],
    ) -> Self {
        let mut op = Op {
            spec,
            operands,
            params: [0; PARAMS_SLOT as usize],
            filled: 0,
            grid,
            run: None,
        };
        op.set_params(bytemuck::bytes_of(params));
        op
    }

    pub fn set_params(&mut self, bytes: &[u8]) {
        self.params[..bytes.len()].copy_from_slice(bytes);
        self.filled = bytes.len();
    }

    /// Sets the first of them; the others stay.
    pub fn set_first(&mut self, params: &impl bytemuck::NoUninit) {
        let bytes = bytemuck::bytes_of(params);
        self.params[..bytes.len()].copy_from_slice(bytes);
        self.filled = self.filled.max(bytes.len());
    }

    /// The parameters as its kernel sees them.
    pub fn slot(&self) -> [u8; PARAMS_SLOT as usize] {
        let mut slot = [0; PARAMS_SLOT as usize];
        slot[..self.filled].copy_from_slice(&self.params[..self.filled]);
        slot
    }

    /// The first of them.
    pub fn params<P: bytemuck::Pod>(&self) -> P {
        let mut params = P::zeroed();
        let filled = self.filled.min(size_of::<P>());
        bytemuck::bytes_of_mut(&mut params)[..filled].copy_from_slice(&self.params[..filled]);
        params
    }

    pub fn is_of(&self, kernel: &'static Kernel) -> bool {
        std::ptr::eq(self.spec.kernel, kernel)
    }
}
