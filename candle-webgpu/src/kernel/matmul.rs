//! matmul: picks a kernel for a product from its shape, its strides and the adapter. Nothing is
//! copied first: any strides and offsets are read where they lie.

use crate::buffer::Value;
use crate::device::Device;
use crate::elem::Elem;
use crate::error::{Error, Result};
use crate::kernel::gemm::{self, Reading, TILES};
use crate::kernel::gemv::{self, GEMV_N_COLS, MAX_ROWS};
use crate::kernel::threads;
use crate::kernel::wide::matmul_spec;
use crate::layout::{merge, to_u32, View};
use crate::link::{Access, Spec};
use crate::queue::Grid;

const OP: &str = "matmul";

/// Dims of the batch that the kernels' parameters hold, once merged.
const BATCH_DIMS: usize = 4;

/// Tiles that keep a large adapter busy: with fewer, smaller tiles are better, or cutting along k.
const BUSY: u64 = 256;

/// The most parts that k is cut into, and the least k of a part.
const MAX_PARTS: u32 = 8;
const MIN_PART: u32 = 128;

#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32,
    rows: u32,
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: [u32; BATCH_DIMS],
    a_batch: [u32; BATCH_DIMS],
    b_batch: [u32; BATCH_DIMS],
}

/// One of the two matrices: strides along k, along the other dim and of the batch.
struct Side {
    offset: u32,
    k: u32,
    other: u32,
    /// Size of the other dim.
    size: u32,
    batch: [u32; BATCH_DIMS],
}

impl Side {
    /// `n` neighbours along k, or along the other dim, always start at a multiple of `n`.
    fn aligned(&self, n: u32, along_k: bool, k: u32) -> bool {
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

    fn reading(&self, k: u32) -> Reading {
        for along_k in [true, false] {
            if self.aligned(4, along_k, k) {
                let access = Access::Quads;
                return Reading { access, along_k };
            }
        }
        Reading {
            access: Access::Words,
            along_k: self.k <= self.other,
        }
    }
}

struct Problem {
    elem: Elem,
    batch: u32,
    m: u32,
    n: u32,
    k: u32,
    dims: [u32; BATCH_DIMS],
    a: Side,
    b: Side,
}

/// A kernel, the workgroups of one matrix of the batch, how many of them lie along m, and into how many
/// parts k is cut, whose products are still to be added up.
struct Plan {
    spec: Spec,
    groups: u32,
    rows: u32,
    parts: u32,
}

impl Device {
    /// `y[.., m, n] = sum over k of a[.., m, k] b[.., k, n]`, contiguous, added up in f32, or in f64 for f64. The dims of
    /// `a` and `b` before the last two are `batch` matrices in all.
    pub fn matmul(
        &self,
        a: View<'_>,
        b: View<'_>,
        (batch, m, n, k): (usize, usize, usize, usize),
    ) -> Result<Value> {
        if !matches!(a.elem, Elem::F32 | Elem::F16 | Elem::Bf16 | Elem::F64) {
            return Err(Error::Unsupported {
                op: OP,
                elem: a.elem,
            });
        }
        check(a, b, [batch, m, n, k])?;
        let count = batch * m * n;
        if count == 0 || k == 0 {
            return self.fill(count, a.elem, 0);
        }
        let mut problem = Problem::new(a, b, [batch, m, n, k])?;
        if a.elem == Elem::F64 {
            let y = self.output(OP, count, a.elem)?;
            let operands = [a.value, b.value, &y];
            self.record(
                matmul_spec(a.elem),
                &operands,
                &problem.params(1, 1),
                threads(count),
            )?;
            return Ok(y);
        }
        let plan = problem.plan(self);
        problem.cut(plan.parts);
        let parts = plan.parts as usize;
        let elem = plan.spec.elem(2);
        let y = self.output(OP, parts * count, elem)?;
        self.record(
            plan.spec.clone(),
            &[a.value, b.value, &y],
            &problem.params(plan.groups, plan.rows),
            Grid::Linear(u64::from(plan.groups) * u64::from(problem.batch)),
        )?;
        if parts == 1 {
            return Ok(y);
        }
        let dims = [parts, count];
        let parts = View {
            value: &y,
            elem,
            dims: &dims,
            strides: &[count, 1],
            offset: 0,
        };
        let sum = self.fold("sum", parts, &[0])?;
        if a.elem == elem {
            return Ok(sum);
        }
        let sum = View {
            value: &sum,
            elem,
            dims: &[count],
            strides: &[1],
            offset: 0,
        };
        self.cast(sum, a.elem)
    }
}

fn check(a: View<'_>, b: View<'_>, [batch, m, n, k]: [usize; 4]) -> Result<()> {
    let fits = |v: View<'_>, rows, cols| {
        v.dims.len() == v.strides.len()
            && v.dims.ends_with(&[rows, cols])
            && v.dims[..v.dims.len() - 2].iter().product::<usize>() == batch
    };
    let same_batch = || a.dims[..a.dims.len() - 2] == b.dims[..b.dims.len() - 2];
    if a.elem == b.elem && fits(a, m, k) && fits(b, k, n) && same_batch() {
        return Ok(());
    }
    Err(Error::Invalid {
        op: OP,
        message: format!(
            "{:?} {} times {:?} {} is not {batch} products ({m}, {k}) ({k}, {n})",
            a.dims, a.elem, b.dims, b.elem
        ),
    })
}

/// Refuses views whose last element a kernel cannot address.
fn address(v: View<'_>) -> Result<()> {
    let steps = v.dims.iter().zip(v.strides).map(|(d, s)| (d - 1) * s);
    to_u32(OP, v.offset + steps.sum::<usize>()).map(|_| ())
}

impl Problem {
    fn new(a: View<'_>, b: View<'_>, [batch, m, n, k]: [usize; 4]) -> Result<Self> {
        address(a)?;
        address(b)?;
        to_u32(OP, batch * m * n)?;
        let outer = a.dims.len() - 2;
        let (a_batch, b_batch) = (&a.strides[..outer], &b.strides[..outer]);
        let side = |v: View<'_>, k_dim: usize, other: usize| Side {
            offset: v.offset as u32,
            k: stride(v, k_dim),
            other: stride(v, other),
            size: v.dims[other] as u32,
            batch: [0; BATCH_DIMS],
        };
        let mut problem = Problem {
            elem: a.elem,
            batch: batch as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            dims: [1; BATCH_DIMS],
            a: side(a, outer + 1, outer),
            b: side(b, outer, outer + 1),
        };

        // One b for the whole batch, and rows of a that follow each other across it: one matrix.
        if b_batch.iter().zip(b.dims).all(|(s, d)| *s == 0 || *d == 1) {
            let rows = merge(OP, &a.dims[..=outer], [&a.strides[..=outer]])?;
            if rows.rank == 1 {
                problem.batch = 1;
                problem.m = rows.dims[0];
                problem.a.other = if rows.dims[0] == 1 {
                    0
                } else {
                    rows.strides[0][0]
                };
                problem.a.size = rows.dims[0];
                return Ok(problem);
            }
        }
        let merged = merge(OP, &a.dims[..outer], [a_batch, b_batch])?;
        if merged.rank > BATCH_DIMS {
            return Err(Error::Invalid {
                op: OP,
                message: format!("more than {BATCH_DIMS} batch dims that do not merge"),
            });
        }
        // The kernels take the digits of a batch index from the innermost dim on.
        for d in 0..merged.rank {
            let from = merged.rank - 1 - d;
            problem.dims[d] = merged.dims[from];
            problem.a.batch[d] = merged.strides[0][from];
            problem.b.batch[d] = merged.strides[1][from];
        }
        Ok(problem)
    }

    /// The table of variants, from the most to the least particular.
    fn plan(&self, device: &Device) -> Plan {
        let elem = self.elem;
        let whole = self.n.is_multiple_of(4);
        if self.m <= MAX_ROWS {
            let by_16_bytes = 16 / elem.size() as u32;
            let wide = [&self.a, &self.b]
                .map(|s| self.k.is_multiple_of(8) && s.aligned(by_16_bytes, true, self.k));
            let (spec, cols) = if self.b.k == 1 && (self.m == 1 || wide == [true, true]) {
                gemv::spec_k(
                    elem,
                    (self.m, self.n, self.k),
                    wide,
                    u64::from(self.batch),
                    device.subgroup().is_some(),
                )
            } else {
                let quads = self.b.aligned(4, false, self.k);
                (gemv::spec_n(elem, self.m, quads, whole), GEMV_N_COLS)
            };
            return Plan {
                spec,
                groups: self.n.div_ceil(cols),
                rows: 1,
                parts: 1,
            };
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let count = |t: &gemm::Tile| {
            let tiles = u64::from(self.m.div_ceil(t.m())) * u64::from(self.n.div_ceil(t.n()));
            tiles * u64::from(self.batch)
        };
        let last = TILES.len() - 1;
        let tile = TILES[..last]
            .iter()
            .find(|t| {
                self.m > t.m() / 2
                    && self.n > t.n() / 2
                    && count(t) >= BUSY
                    && t.shared(elem, 0) <= limit
            })
            .unwrap_or(&TILES[last]);
        let readings = [&self.a, &self.b].map(|side| side.reading(self.k));
        let rows = self.m.div_ceil(tile.m());
        let parts = self.parts(count(tile));
        let y = (
            if parts == 1 { elem } else { Elem::F32 },
            if whole { Access::Put } else { Access::Set },
        );
        Plan {
            spec: gemm::spec(elem, tile, readings, y, limit),
            groups: rows * self.n.div_ceil(tile.n()),
            rows,
            parts,
        }
    }

    /// Into how many parts to cut k, so that `tiles` that are too few for the adapter become enough.
    fn parts(&self, tiles: u64) -> u32 {
        let mut parts = if self.batch == 1 { MAX_PARTS } else { 1 };
        let fits = |parts| {
            self.k.is_multiple_of(16 * parts)
                && self.k / parts >= MIN_PART
                && tiles * u64::from(parts) <= BUSY
        };
        while parts > 1 && !fits(parts) {
            parts /= 2;
        }
        parts
    }

    /// Takes the parts along k for a batch.
    fn cut(&mut self, parts: u32) {
        if parts > 1 {
            self.batch = parts;
            self.k /= parts;
            self.dims[0] = parts;
            for side in [&mut self.a, &mut self.b] {
                side.batch[0] = side.k * self.k;
            }
        }
    }

    fn params(&self, groups: u32, rows: u32) -> Params {
        Params {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch,
            groups,
            rows,
            a_offset: self.a.offset,
            b_offset: self.b.offset,
            a_m: self.a.other,
            a_k: self.a.k,
            b_k: self.b.k,
            b_n: self.b.other,
            dims: self.dims,
            a_batch: self.a.batch,
            b_batch: self.b.batch,
        }
    }
}

/// The stride of a dim; 0 where there is no step to take, which counts as aligned.
fn stride(v: View<'_>, dim: usize) -> u32 {
    if v.dims[dim] == 1 {
        0
    } else {
        v.strides[dim] as u32
    }
}
