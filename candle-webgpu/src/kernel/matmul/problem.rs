//! A matmul, or a batch of them, as the kernels see it: sizes, strides and the kernel parameters.

use crate::dtype::quant::Quant;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::gemm::Reading;
use crate::kernel::matmul::plan::Plan;
use crate::kernel::reads;
use crate::memory::merge::{merge, to_u32};
use crate::memory::view::View;
use crate::recorder::op::Grid;
use crate::shader::{params, Access};

pub(crate) const OP: &str = "matmul";

/// Batch dims, after merging, that fit into the kernel parameters.
pub(crate) const BATCH_DIMS: usize = 4;

params! {
    pub(crate) struct Params {
        pub m: u32,
        pub n: u32,
        pub k: u32,
        pub batch: u32,
        pub groups: u32,
        pub rows: u32,
        pub a_offset: u32,
        pub b_offset: u32,
        pub a_m: u32,
        pub a_k: u32,
        pub b_k: u32,
        pub b_n: u32,
        pub dims: [u32; BATCH_DIMS],
        pub a_batch: [u32; BATCH_DIMS],
        pub b_batch: [u32; BATCH_DIMS],
        pub op: u32,
        pub blocks: u32,
        pub rounds: u32,
    }
}

/// An operand: its strides, in elements, along k, along the other dim (m or n) and across the batch.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub offset: u32,
    pub k: u32,
    pub other: u32,
    /// Size of the other dim.
    pub size: u32,
    pub batch: [u32; BATCH_DIMS],
}

impl Side {
    /// Whether every run of `n` elements along k, or along the other dim, is contiguous and starts at a multiple of `n`.
    pub fn aligned(&self, n: u32, along_k: bool, k: u32) -> bool {
        let (step, run, across) = if along_k {
            (self.k, k, self.other)
        } else {
            (self.other, self.size, self.k)
        };
        step == 1
            && [run, across, self.offset]
                .iter()
                .chain(&self.batch)
                .all(|v| v.is_multiple_of(n))
    }

    pub fn reading(&self, k: u32) -> Reading {
        let aligned = [true, false]
            .into_iter()
            .find(|along_k| self.aligned(4, *along_k, k));
        Reading {
            access: reads(aligned.is_some()),
            along_k: aligned.unwrap_or(self.k <= self.other),
        }
    }
}

pub(crate) struct Problem {
    pub dtype: DType,
    /// The dtype of y.
    pub out: DType,
    /// The format of a quantized `b`, whose offset and strides still count elements.
    pub quant: Option<Quant>,
    /// The operands are f16 lines, each divided by its scale (see [`scaled`](crate::kernel::matmul::scaled)).
    pub scaled: bool,
    /// The dtype of a dense `b`, which the matmul converts to that of a if they differ.
    pub b_dtype: DType,
    pub batch: u32,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub dims: [u32; BATCH_DIMS],
    pub a: Side,
    pub b: Side,
}

/// Fails for views whose last element a u32 index cannot address.
fn address(v: View<'_>) -> Result<()> {
    let steps = v.dims.iter().zip(v.strides).map(|(d, s)| (d - 1) * s);
    to_u32(OP, v.offset + steps.sum::<usize>()).map(|_| ())
}

impl Problem {
    pub fn new(a: View<'_>, b: View<'_>, size: [usize; 4], out: DType) -> Result<Self> {
        let mut problem = Self::batched(a, b, size, out)?;
        // If the batch shares one b and the rows of a are evenly spaced across it, the batch folds into m.
        let outer = a.dims.len() - 2;
        let mut repeats = b.strides[..outer].iter().zip(b.dims);
        if repeats.all(|(s, d)| *s == 0 || *d == 1) {
            let rows = merge(OP, &a.dims[..=outer], [&a.strides[..=outer]])?;
            if rows.rank == 1 {
                problem.batch = 1;
                problem.dims = [1; BATCH_DIMS];
                problem.m = rows.dims[0];
                problem.a.other = rows.strides[0][0];
                problem.a.size = rows.dims[0];
                problem.a.batch = [0; BATCH_DIMS];
            }
        }
        Ok(problem)
    }

    /// Like [`new`](Self::new), but never folds the batch into m.
    pub fn batched(
        a: View<'_>,
        b: View<'_>,
        [batch, m, n, k]: [usize; 4],
        out: DType,
    ) -> Result<Self> {
        address(a)?;
        address(b)?;
        to_u32(OP, batch * m * n)?;
        let outer = a.dims.len() - 2;
        let (a_batch, b_batch) = (&a.strides[..outer], &b.strides[..outer]);
        // A stride of 0 counts as aligned.
        let side = |v: View<'_>, k_dim: usize, other: usize| Side {
            offset: v.offset as u32,
            k: v.step(k_dim) as u32,
            other: v.step(other) as u32,
            size: v.dims[other] as u32,
            batch: [0; BATCH_DIMS],
        };
        let mut problem = Problem {
            dtype: a.dtype,
            out,
            quant: None,
            scaled: false,
            b_dtype: a.dtype,
            batch: batch as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            dims: [1; BATCH_DIMS],
            a: side(a, outer + 1, outer),
            b: side(b, outer, outer + 1),
        };

        let merged = merge(OP, &a.dims[..outer], [a_batch, b_batch])?;
        if merged.rank > BATCH_DIMS {
            return Err(Error::Invalid {
                op: OP,
                message: format!("more than {BATCH_DIMS} batch dims that do not merge"),
            });
        }
        // The kernels decompose a batch index from the innermost dim outward.
        for d in 0..merged.rank {
            let from = merged.rank - 1 - d;
            problem.dims[d] = merged.dims[from];
            problem.a.batch[d] = merged.strides[0][from];
            problem.b.batch[d] = merged.strides[1][from];
        }
        Ok(problem)
    }

    /// The same matmul with a quantized `b`.
    pub fn quantized(mut self, quant: Quant) -> Self {
        self.quant = Some(quant);
        self
    }

    /// How a and b can be read.
    pub fn readings(&self) -> [Reading; 2] {
        let b = match self.quant {
            Some(quant) => Reading {
                access: Access::Quant(quant),
                along_k: true,
            },
            None => self.b.reading(self.k),
        };
        [self.a.reading(self.k), b]
    }

    /// Split-K: turns `parts` equal ranges of k into a batch.
    pub fn split_k(&mut self, parts: u32) {
        if parts > 1 {
            self.batch = parts;
            self.k /= parts;
            self.dims[0] = parts;
            for side in [&mut self.a, &mut self.b] {
                side.batch[0] = side.k * self.k;
            }
        }
    }

    /// The kernel parameters; `op` identifies the op in a fault report.
    pub fn params(&self, plan: &Plan, op: u32) -> Params {
        Params {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch,
            groups: plan.groups,
            rows: plan.rows,
            a_offset: self.a.offset,
            b_offset: self.b.offset,
            a_m: self.a.other,
            a_k: self.a.k,
            b_k: self.b.k,
            b_n: self.b.other,
            dims: self.dims,
            a_batch: self.a.batch,
            b_batch: self.b.batch,
            op,
            blocks: plan.blocks,
            rounds: plan.rounds,
        }
    }

    pub fn grid(&self, plan: &Plan) -> Grid {
        Grid::Linear(u64::from(plan.groups) * u64::from(plan.blocks) * u64::from(self.batch))
    }
}
