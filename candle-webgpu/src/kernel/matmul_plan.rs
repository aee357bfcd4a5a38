//! Picks a kernel for a product from its shape, its strides and the adapter.

use crate::device::Device;
use crate::elem::Elem;
use crate::error::{Error, Result};
use crate::kernel::gemm::{self, Reading, TILES};
use crate::kernel::gemm_coop;
use crate::kernel::gemv::{self, Sums, GEMV_EXPERT_SUB32, GEMV_N_COLS, MAX_ROWS};
use crate::kernel::gemv_dot::{self, Ask};
use crate::kernel::scaled::{Lines, SCALE_LINES};
use crate::layout::{merge, to_u32, View};
use crate::link::{Access, Kernel, Spec};
use crate::quant::Quant;
use crate::queue::Grid;

pub(crate) const OP: &str = "matmul";

/// Dims of the batch that the kernels' parameters hold, once merged.
pub(crate) const BATCH_DIMS: usize = 4;

/// Tiles that keep a large adapter busy: with fewer, smaller tiles are better, or cutting along k.
const BUSY: u64 = 256;

/// Rows from which on it pays to write the operands anew for cooperative matrices.
const MANY_ROWS: u32 = 64;

/// The most parts that k is cut into, and the least k of a part.
const MAX_PARTS: u32 = 8;
const MIN_PART: u32 = 128;

#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
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

/// Whether a kernel computes a product of two tensors by [`Params`].
pub(crate) fn is_product(spec: &Spec) -> bool {
    let dense = !matches!(spec.operands[1].1, Access::Quant(_));
    dense
        && PRODUCTS
            .iter()
            .any(|kernel| std::ptr::eq(*kernel, spec.kernel))
}

const PRODUCTS: [&Kernel; 8] = [
    &gemm::GEMM,
    &gemm::GEMM_128,
    &gemm_coop::GEMM_COOP,
    &gemv::GEMV_K,
    &gemv::GEMV_K_SUB32,
    &gemv::GEMV_K_SUB128,
    &gemv::GEMV_K_ALONE,
    &gemv::GEMV_N,
];

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

pub(crate) struct Problem {
    elem: Elem,
    /// Dtype of y.
    pub out: Elem,
    /// The format of `b` where it is quantized; its offset and strides count elements all the same.
    quant: Option<Quant>,
    /// The operands are lines of f16 that are divided by what [`Scaled`](crate::kernel::scaled::Scaled) holds.
    scaled: bool,
    pub batch: u32,
    m: u32,
    n: u32,
    k: u32,
    dims: [u32; BATCH_DIMS],
    a: Side,
    b: Side,
}

/// A kernel, and how many workgroups it takes: `groups` for each of `blocks` blocks of rows of a matrix of the batch.
pub(crate) struct Plan {
    pub spec: Spec,
    pub groups: u32,
    pub blocks: u32,
    /// Tiles along m; in a mixture of experts, how many there are.
    pub rows: u32,
    /// Turns of a workgroup.
    pub rounds: u32,
    /// Parts that k is cut into, whose products are still to be added up.
    pub parts: u32,
}

impl Plan {
    pub fn new(spec: Spec, groups: u32) -> Self {
        Plan {
            spec,
            groups,
            blocks: 1,
            rows: 1,
            rounds: 1,
            parts: 1,
        }
    }
}

/// Into how many parts of whole `step`s to cut k, so that `tiles` that are too few for the adapter become enough and their
/// `outputs` stay within `limit` bytes of f32.
pub(crate) fn parts([k, step]: [u32; 2], tiles: u64, outputs: u64, limit: u64) -> u32 {
    let fits = |parts: u32| {
        k.is_multiple_of(step * parts)
            && k / parts >= MIN_PART
            && tiles * u64::from(parts) <= BUSY
            && u64::from(parts) * outputs * 4 <= limit
    };
    let mut parts = MAX_PARTS;
    while parts > 1 && !fits(parts) {
        parts /= 2;
    }
    parts
}

/// Refuses views whose last element a kernel cannot address.
fn address(v: View<'_>) -> Result<()> {
    let steps = v.dims.iter().zip(v.strides).map(|(d, s)| (d - 1) * s);
    to_u32(OP, v.offset + steps.sum::<usize>()).map(|_| ())
}

impl Problem {
    pub fn new(a: View<'_>, b: View<'_>, size: [usize; 4], out: Elem) -> Result<Self> {
        let mut problem = Self::batched(a, b, size, out)?;
        // One b for the whole batch, and rows of a that follow each other across it: one matrix.
        let outer = a.dims.len() - 2;
        let mut repeats = b.strides[..outer].iter().zip(b.dims);
        if repeats.all(|(s, d)| *s == 0 || *d == 1) {
            let rows = merge(OP, &a.dims[..=outer], [&a.strides[..=outer]])?;
            if rows.rank == 1 {
                problem.batch = 1;
                problem.dims = [1; BATCH_DIMS];
                problem.m = rows.dims[0];
                problem.a.other = if rows.dims[0] == 1 {
                    0
                } else {
                    rows.strides[0][0]
                };
                problem.a.size = rows.dims[0];
                problem.a.batch = [0; BATCH_DIMS];
            }
        }
        Ok(problem)
    }

    /// The same where each matrix of the batch stays a product of its own.
    pub fn batched(
        a: View<'_>,
        b: View<'_>,
        [batch, m, n, k]: [usize; 4],
        out: Elem,
    ) -> Result<Self> {
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
            out,
            quant: None,
            scaled: false,
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
        // The kernels take the digits of a batch index from the innermost dim on.
        for d in 0..merged.rank {
            let from = merged.rank - 1 - d;
            problem.dims[d] = merged.dims[from];
            problem.a.batch[d] = merged.strides[0][from];
            problem.b.batch[d] = merged.strides[1][from];
        }
        Ok(problem)
    }

    /// The same product with `b` in blocks of a quantized dtype.
    pub fn quantized(mut self, quant: Quant) -> Self {
        self.quant = Some(quant);
        self
    }

    /// The table of variants, from the most to the least particular.
    pub fn plan(&self, device: &Device) -> Plan {
        let elem = self.elem;
        if let Some(plan) = self.plan_dot(device, false) {
            return plan;
        }
        if self.m <= MAX_ROWS || self.quant.is_some() && self.m <= gemv_dot::MAX_ROWS {
            return self.plan_gemv(device);
        }
        let readings = [
            self.a.reading(self.k),
            match self.quant {
                Some(quant) => Reading {
                    access: Access::Quant(quant),
                    along_k: true,
                },
                None => self.b.reading(self.k),
            },
        ];
        if let Some(plan) = self.plan_coop(device, readings) {
            return plan;
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let count = |t: &gemm::Tile| self.tiles(t.m(), t.n());
        let depth = gemm::Tile::depth(readings[1].access);
        let parts = |t: &gemm::Tile| self.parts(count(t), depth, device.binding_limit());
        let last = TILES.len() - 1;
        let allowed = |t: &&gemm::Tile| !device.denies(t.kernel);
        let tile = TILES[..last]
            .iter()
            .filter(allowed)
            .find(|t| {
                self.m > t.m() / 2
                    && self.n > t.n() / 2
                    && count(t) * u64::from(parts(t)) >= t.least
                    && t.shared(readings[1].access, 0) <= limit
            })
            .or_else(|| TILES.iter().rev().find(allowed))
            .unwrap_or(&TILES[last]);
        let rows = self.m.div_ceil(tile.m());
        let parts = parts(tile);
        let out = if parts == 1 { self.out } else { Elem::F32 };
        let y = (out, self.stores());
        let whole_k = self.k.is_multiple_of(depth * parts);
        let spec = gemm::spec(elem, tile, readings, whole_k, y, limit);
        Plan {
            rows,
            parts,
            ..Plan::new(spec, rows * self.n.div_ceil(tile.n()))
        }
    }

    /// The same product of lines of f16, and the lines that are to be written for it, where cooperative matrices can take
    /// those and not what is there: bf16, or a quantized matrix.
    pub fn scaled(&self, device: &Device) -> Option<(Problem, [Lines; 2])> {
        let other = self.quant.is_some() || self.elem == Elem::Bf16;
        let able = device.cooperative() && !device.denies(&SCALE_LINES);
        if !(able && other && self.batch == 1 && self.m >= MANY_ROWS) {
            return None;
        }
        let lines = |side: &Side, x: (Elem, Access), along: bool, count: u32| Lines {
            x,
            along,
            count,
            k: self.k,
            offset: side.offset,
            strides: [side.k, side.other],
        };
        let dense = |side: &Side, count: u32| {
            let reading = side.reading(self.k);
            (reading.access == Access::Quads)
                .then(|| lines(side, (self.elem, Access::Quads), reading.along_k, count))
        };
        let a = dense(&self.a, self.m)?;
        let b = match self.quant {
            Some(quant) => lines(&self.b, (Elem::U32, Access::Quant(quant)), true, self.n),
            None => dense(&self.b, self.n)?,
        };
        if a.bytes().max(b.bytes()) > device.binding_limit() {
            return None;
        }
        let packed = |lines: &Lines| {
            let [k, other] = lines.packed();
            Side {
                offset: 0,
                k,
                other,
                size: lines.count,
                batch: [0; BATCH_DIMS],
            }
        };
        let problem = Problem {
            elem: Elem::F16,
            out: self.out,
            quant: None,
            scaled: true,
            batch: 1,
            dims: self.dims,
            a: packed(&a),
            b: packed(&b),
            ..*self
        };
        let readings = [&problem.a, &problem.b].map(|side| side.reading(self.k));
        problem.plan_coop(device, readings)?;
        Some((problem, [a, b]))
    }

    /// With cooperative matrices, where the adapter has them and both matrices lie in whole quads of f16.
    fn plan_coop(&self, device: &Device, readings: [Reading; 2]) -> Option<Plan> {
        let quads = readings.iter().all(|r| r.access == Access::Quads);
        if !(self.elem == Elem::F16 && quads) {
            return None;
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let count = |t: &gemm_coop::Tile| self.tiles(t.m, t.n);
        let mut tiles = device.coop_tiles()?.iter();
        let tile = tiles.find(|t| count(t) >= t.least && t.shared() <= limit)?;
        let round = gemm_coop::ROUND;
        let parts = self.parts(count(tile), round, device.binding_limit());
        let out = if parts == 1 { self.out } else { Elem::F32 };
        let y = (out, self.stores());
        let along_k = readings.map(|r| r.along_k);
        let whole_k = self.k.is_multiple_of(round * parts);
        let rows = self.m.div_ceil(tile.m);
        let octets = [(&self.a, along_k[0]), (&self.b, along_k[1])];
        let octets = octets.iter().all(|(s, along)| s.aligned(8, *along, self.k));
        let spec = gemm_coop::spec(tile, octets, along_k, whole_k, y, self.scaled);
        if device.denies(spec.kernel) {
            return None;
        }
        Some(Plan {
            rows,
            parts,
            ..Plan::new(spec, rows * self.n.div_ceil(tile.n))
        })
    }

    /// Tiles of `m` rows and `n` columns in all.
    fn tiles(&self, m: u32, n: u32) -> u64 {
        u64::from(self.m.div_ceil(m)) * u64::from(self.n.div_ceil(n)) * u64::from(self.batch)
    }

    /// How y is written: by whole quads where rows are made of them.
    fn stores(&self) -> Access {
        if self.n.is_multiple_of(4) {
            Access::Put
        } else {
            Access::Set
        }
    }

    /// A few rows, in blocks of as many as a thread keeps.
    fn plan_gemv(&self, device: &Device) -> Plan {
        let elems = (self.elem, self.out);
        let wide = self.wide();
        let by_k = self.b.k == 1 && (self.m == 1 || wide == [true, true]);
        if !by_k && self.quant.is_none() {
            let quads = self.b.aligned(4, false, self.k);
            let whole = self.n.is_multiple_of(4);
            let spec = gemv::spec_n(elems, self.m, quads, whole);
            return Plan::new(spec, self.n.div_ceil(GEMV_N_COLS));
        }
        let size = (self.m, self.n, self.k);
        let batch = u64::from(self.batch);
        let share = |sums| gemv::share(elems, self.quant, size, wide, batch, sums);
        let usual = match device.subgroup() {
            _ if device.in_turn() => share(Sums::Alone),
            Some(_) => share(Sums::Subgroups),
            None => share(Sums::Memory),
        };
        let share = match device.denies(usual.spec.kernel) {
            true => share(Sums::Memory),
            false => usual,
        };
        Plan {
            blocks: self.m.div_ceil(share.rows),
            ..Plan::new(share.spec, self.n.div_ceil(share.cols))
        }
    }

    /// A few rows times a quantized matrix in integers, where the adapter is fast at it.
    fn plan_dot(&self, device: &Device, experts: bool) -> Option<Plan> {
        let quant = self.quant.filter(|_| device.dot4())?;
        let mut ask = Ask {
            elem: self.elem,
            quant,
            quads: self.a.aligned(4, true, self.k),
            limit: device.limits().max_compute_workgroup_storage_size,
            subgroup: device.subgroup().map(|(least, _)| least),
            experts,
        };
        let size = (self.m, self.n, self.k);
        let mut share = gemv_dot::share(&ask, size)?;
        if device.denies(share.spec.kernel) {
            ask.subgroup = None;
            share = gemv_dot::share(&ask, size).filter(|s| !device.denies(s.spec.kernel))?;
        }
        Some(Plan {
            blocks: self.m.div_ceil(share.rows),
            rounds: share.rounds,
            ..Plan::new(share.spec, self.n.div_ceil(share.cols))
        })
    }

    /// A row times one of a stack of quantized matrices.
    pub fn plan_expert(&self, device: &Device, quant: Quant) -> Plan {
        if let Some(plan) = self.plan_dot(device, true) {
            return plan;
        }
        let subgroups = device.subgroup().is_some() && !device.denies(&GEMV_EXPERT_SUB32);
        let share = gemv::share_expert(self.elem, quant, self.k, self.wide()[0], subgroups);
        Plan::new(share.spec, self.n.div_ceil(share.cols))
    }

    /// Which of the two matrices can be read by 16 bytes along k.
    fn wide(&self) -> [bool; 2] {
        let by_16_bytes = 16 / self.elem.size() as u32;
        [&self.a, &self.b].map(|s| self.k.is_multiple_of(8) && s.aligned(by_16_bytes, true, self.k))
    }

    /// As [`parts`], for one matrix.
    fn parts(&self, tiles: u64, step: u32, limit: u64) -> u32 {
        let outputs = u64::from(self.m) * u64::from(self.n);
        if self.batch == 1 {
            parts([self.k, step], tiles, outputs, limit)
        } else {
            1
        }
    }

    /// Takes the parts along k for a batch.
    pub fn cut(&mut self, parts: u32) {
        if parts > 1 {
            self.batch = parts;
            self.k /= parts;
            self.dims[0] = parts;
            for side in [&mut self.a, &mut self.b] {
                side.batch[0] = side.k * self.k;
            }
        }
    }

    /// `op` names the op in the fault record.
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

/// The stride of a dim; 0 where there is no step to take, which counts as aligned.
fn stride(v: View<'_>, dim: usize) -> u32 {
    if v.dims[dim] == 1 {
        0
    } else {
        v.strides[dim] as u32
    }
}
