//! Selects the kernel of a matmul by its shape, its strides and the adapter.

use crate::dtype::quant::Quant;
use crate::dtype::DType;
use crate::kernel::matmul::epilogue::is_bare;
use crate::kernel::matmul::gemm::{self, GEMM};
use crate::kernel::matmul::gemm_coop::{self, GEMM_COOP};
use crate::kernel::matmul::gemv::{self, Partition, GEMV_K, GEMV_N, GEMV_N_COLS, MAX_ROWS};
use crate::kernel::matmul::gemv_coop::{self, GEMV_COOP};
use crate::kernel::matmul::gemv_dot::{self, Request};
use crate::kernel::matmul::gemv_variant::Reduction;
use crate::kernel::matmul::problem::Problem;
use crate::kernel::{reads, writes};
use crate::recorder::gpu::Gpu;
use crate::recorder::Recorder;
use crate::shader::{Access, Specialization};

/// Tiles that fill a large adapter: with fewer, smaller tiles or split-K are faster.
const BUSY: u64 = 256;

/// The length of a split-K part of a cooperative tile from which on it is faster even if smaller tiles fill an adapter: where weights are in
/// no cache yet, as in a model. Smaller tiles load more.
const SPLIT_LONG: u32 = 512;

/// Split-K: the most parts, and the smallest k of a part.
const MAX_PARTS: u32 = 8;
const MIN_PART: u32 = 128;

/// Whether an op is a plain matmul of two dense tensors, with [`Params`](crate::kernel::matmul::problem::Params).
pub(crate) fn is_matmul(spec: &Specialization) -> bool {
    let mut kernels = [&GEMM, &GEMM_COOP, &GEMV_COOP, &GEMV_K, &GEMV_N].into_iter();
    // Only ops of these kernels are known to have a second operand.
    kernels.any(|kernel| spec.is_of(kernel))
        && is_bare(spec)
        && !matches!(spec.operands[1].1, Access::Quant(_))
}

/// A kernel and its grid: `groups` workgroups for each of the `blocks` row blocks of each matrix of the batch.
pub(crate) struct Plan {
    pub spec: Specialization,
    pub groups: u32,
    pub blocks: u32,
    /// Tiles along m; in a mixture of experts, the number of experts.
    pub rows: u32,
    /// Column blocks that a workgroup computes one after the other.
    pub rounds: u32,
    /// Split-K parts, whose partial results are added up by a second kernel.
    pub parts: u32,
}

impl Plan {
    pub fn new(spec: Specialization, groups: u32) -> Self {
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

/// The number of split-K parts, each a multiple of `step` long: the most for which `tiles` per part do not overfill the adapter
/// and the partial results, of `outputs` f32 elements each, fit in a binding.
pub(crate) fn parts(device: &Gpu, [k, step]: [u32; 2], tiles: u64, outputs: u64) -> u32 {
    let busy = device.scaled(BUSY);
    let fits = |parts: u32| {
        k.is_multiple_of(step * parts)
            && k / parts >= MIN_PART
            && tiles * u64::from(parts) <= busy
            && u64::from(parts) * outputs * 4 <= device.binding_limit()
    };
    let mut parts = MAX_PARTS;
    while parts > 1 && !fits(parts) {
        parts /= 2;
    }
    parts
}

/// Whether split-K parts of so many cooperative tiles are faster than smaller tiles. `busy`: the fewest that can be.
fn prefers_parts(tiles: u64, parts: u32, k: u32, busy: u64) -> bool {
    // Smaller tiles need no second kernel if they fill the adapter.
    let few = tiles * 2 < busy;
    let short = parts > 1 && k / parts < SPLIT_LONG;
    tiles * u64::from(parts) >= busy && (few || !short)
}

/// The fastest reduction of a GPU.
fn best_reduction(device: &Recorder) -> Reduction {
    match device.subgroup {
        Some(_) if device.wide_subgroups() => Reduction::WideSubgroups,
        Some(_) => Reduction::Subgroups,
        None => Reduction::Memory,
    }
}

impl Problem {
    /// Tries the kernels from the most to the least specialized.
    pub fn plan(&self, device: &Recorder) -> Plan {
        if let Some(plan) = self.plan_dot(device, false) {
            return plan;
        }
        if let Some(plan) = self.plan_gemv_coop(device) {
            return plan;
        }
        if self.m <= MAX_ROWS || self.quant.is_some() && self.m <= gemv_dot::MAX_ROWS {
            return self.plan_gemv(device);
        }
        let readings = self.readings();
        if let Some(plan) = self.plan_coop(device) {
            return plan;
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let count = |t: &gemm::Tile| self.tiles(t.m(), t.n());
        let depth = gemm::Tile::depth(readings[1].access);
        let parts = |t: &gemm::Tile| self.parts(device, count(t), depth);
        let tiles = gemm::candidates(readings[1].access, device.wide_subgroups());
        let last = tiles.len() - 1;
        let tile = tiles[..last]
            .iter()
            .find(|t| {
                self.m > t.m() / 2
                    && self.n > t.n() / 2
                    && count(t) * u64::from(parts(t)) >= device.scaled(t.least)
                    && t.shared(readings[1].access, 0) <= limit
            })
            .unwrap_or(&tiles[last]);
        self.tiled([tile.m(), tile.n()], depth, parts(tile), |whole_k, y| {
            gemm::spec(self.dtype, tile, readings, whole_k, y, limit)
        })
    }

    /// The plan for tiles of m rows and n columns and `parts` split-K parts. `spec` makes the specialization, given whether each part is a
    /// multiple of `depth` long, and the dtype and access of y.
    fn tiled(
        &self,
        [m, n]: [u32; 2],
        depth: u32,
        parts: u32,
        spec: impl FnOnce(bool, (DType, Access)) -> Specialization,
    ) -> Plan {
        let rows = self.m.div_ceil(m);
        let out = if parts == 1 { self.out } else { DType::F32 };
        let y = writes(self.n.is_multiple_of(4));
        let spec = spec(self.k.is_multiple_of(depth * parts), (out, y));
        Plan {
            rows,
            parts,
            ..Plan::new(spec, rows * self.n.div_ceil(n))
        }
    }

    /// Cooperative matrices, if the adapter has them and both operands are made of aligned quads of f16.
    pub(super) fn plan_coop(&self, device: &Recorder) -> Option<Plan> {
        let readings = self.readings();
        // Units of a quantized matrix are unpacked to such.
        let mut accesses = readings.iter().map(|r| r.access);
        let able = accesses.all(|access| self.scaled || access == Access::Quads);
        if !(self.dtype == DType::F16 && able) {
            return None;
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let count = |t: &gemm_coop::Tile| self.tiles(t.m, t.n);
        // Parts of k are whole spans.
        let span = self.quant.map_or(0, |quant| 32 * quant.info().span);
        let round = gemm_coop::ROUND.max(span);
        let parts = |t: &gemm_coop::Tile| self.parts(device, count(t), round);
        let tiles = device.coop_tiles()?.iter();
        let mut tiles = tiles.filter(|t| t.rows.contains(&self.m) && t.shared() <= limit);
        let tile = tiles.find(|t| {
            count(t) >= device.scaled(t.least)
                || prefers_parts(count(t), parts(t), self.k, device.scaled(t.parts))
        })?;
        let along_k = readings.map(|r| r.along_k);
        let octets = [(&self.a, along_k[0]), (&self.b, along_k[1])];
        let octets = octets.iter().all(|(s, along)| s.aligned(8, *along, self.k));
        let b = match readings[1].access {
            Access::Quant(quant) => (DType::F16, Access::Quant(quant)),
            _ => (self.b_dtype, Access::Raw),
        };
        let depth = tile.depth(b.1);
        // The rule `split_k` makes the parts.
        let plan = self.tiled([tile.m, tile.n], depth, 1, |whole_k, y| {
            gemm_coop::spec(tile, octets, along_k, whole_k, y, self.scaled, b)
        });
        Some(plan).filter(|plan| !device.denies_variant(&plan.spec))
    }

    /// GEMV with cooperative matrices, if the adapter has them and both operands are aligned lines along k of f16.
    fn plan_gemv_coop(&self, device: &Recorder) -> Option<Plan> {
        let lines = [self.a, self.b].iter().all(|s| s.aligned(8, true, self.k));
        let suits =
            self.dtype == DType::F16 && self.quant.is_none() && !self.scaled && self.batch == 1;
        let kind = device.coop_tiles()?.last()?;
        if !(suits && lines && gemv_coop::suits(device, kind)) {
            return None;
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let tile = gemv_coop::tile_for([self.m, self.n, self.k], limit)?;
        let plan = Plan::new(gemv_coop::spec(tile, self.out), self.n / tile.cols);
        Some(plan).filter(|plan| !device.denies_variant(&plan.spec))
    }

    /// The number of tiles of `m` rows and `n` columns.
    fn tiles(&self, m: u32, n: u32) -> u64 {
        u64::from(self.m.div_ceil(m)) * u64::from(self.n.div_ceil(n)) * u64::from(self.batch)
    }

    /// GEMV: a few rows, in blocks of as many as a thread accumulates.
    fn plan_gemv(&self, device: &Recorder) -> Plan {
        let dtypes = (self.dtype, self.out);
        let vec4 = self.vec4();
        let by_k = self.b.k == 1 && (self.m == 1 || vec4 == [true, true]);
        if !by_k && self.quant.is_none() {
            let quads = self.b.aligned(4, false, self.k);
            let whole = self.n.is_multiple_of(4);
            let spec = gemv::spec_n(dtypes, self.m, quads, whole);
            return Plan::new(spec, self.n.div_ceil(GEMV_N_COLS));
        }
        let size = (self.m, self.n, self.k);
        let batch = u64::from(self.batch);
        let usual = match device.software {
            true => Reduction::Alone,
            false => best_reduction(device),
        };
        self.reduced(device, usual, |by| {
            gemv::partition(dtypes, self.quant, size, vec4, batch, by)
        })
    }

    /// The plan with the reduction `usual`, or in workgroup memory if its variant is denied.
    fn reduced(
        &self,
        device: &Recorder,
        usual: Reduction,
        partition: impl Fn(Reduction) -> Partition,
    ) -> Plan {
        let allowed = Some(partition(usual)).filter(|p| !device.denies_variant(&p.spec));
        let partition = allowed.unwrap_or_else(|| partition(Reduction::Memory));
        partition.plan(self.m, self.n, self.batch)
    }

    /// GEMV with a quantized matrix in integer arithmetic, on adapters with a fast packed dot product.
    fn plan_dot(&self, device: &Recorder, experts: bool) -> Option<Plan> {
        let quant = self.quant.filter(|_| device.dot4())?;
        let a = reads(self.a.aligned(4, true, self.k));
        let mut request = Request {
            experts,
            ..Request::new(device, (self.dtype, a), quant)
        };
        let size = (self.m, self.n, self.k);
        let mut partition = gemv_dot::partition(&request, size)?;
        if device.denies_variant(&partition.spec) {
            request.subgroup = None;
            partition = gemv_dot::partition(&request, size)
                .filter(|partition| !device.denies_variant(&partition.spec))?;
        }
        Some(partition.plan(self.m, self.n, self.batch))
    }

    /// GEMV of one row with one of a stack of quantized matrices.
    pub fn plan_expert(&self, device: &Recorder, quant: Quant) -> Plan {
        if let Some(plan) = self.plan_dot(device, true) {
            return plan;
        }
        let vec4 = self.vec4()[0];
        self.reduced(device, best_reduction(device), |by| {
            gemv::partition_experts(self.dtype, quant, self.k, vec4, by)
        })
    }

    /// Whether a and b can be read by aligned 16-byte loads along k.
    fn vec4(&self) -> [bool; 2] {
        let by_16_bytes = 16 / self.dtype.size() as u32;
        [&self.a, &self.b].map(|s| self.k.is_multiple_of(8) && s.aligned(by_16_bytes, true, self.k))
    }

    /// [`parts`] of a single matmul; a batch is not split.
    fn parts(&self, device: &Gpu, tiles: u64, step: u32) -> u32 {
        let outputs = u64::from(self.m) * u64::from(self.n);
        if self.batch == 1 {
            parts(device, [self.k, step], tiles, outputs)
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::matmul::gemm::Reading;

    /// Workgroup memory, in bytes, of DX12 and of most other adapters.
    const COMMON: u32 = 32 << 10;

    /// With wide subgroups, the choice falls on tiles that run at four waves a SIMD on AMD's GCN, as far as there are such tiles.
    #[test]
    fn wide_subgroups_take_smaller_tiles() {
        let gemv = |quant: Option<Quant>, m, n, by| {
            let dtypes = (DType::F16, DType::F16);
            let spec = gemv::partition(dtypes, quant, (m, n, 2048), [true; 2], 1, by).spec;
            (spec.op, spec.variant)
        };
        let wide = Reduction::WideSubgroups;
        let quant = Some(Quant::Q4_0);
        assert_eq!(gemv(None, 1, 1024, wide), ("1x2", "sub128"));
        assert_eq!(gemv(None, 1, 8192, wide), ("1x2", ""));
        assert_eq!(gemv(None, 4, 1024, wide), ("4x4", ""));
        assert_eq!(gemv(quant, 2, 8192, wide), ("2x2", ""));
        assert_eq!(gemv(quant, 8, 8192, wide), ("4x2", ""));
        let usual = Reduction::Subgroups;
        assert_eq!(gemv(None, 4, 1024, usual), ("4x4", "sub128"));
        assert_eq!(gemv(quant, 2, 8192, usual), ("2x4", "sub32"));
        let names = |b, wide| {
            let tiles = gemm::candidates(b, wide).iter();
            tiles.map(|t| t.name).collect::<Vec<_>>()
        };
        let blocks = Access::Quant(Quant::Q4_0);
        assert_eq!(names(blocks, true), ["32x64"]);
        assert_eq!(names(Access::Quads, true), names(blocks, false));
    }

    /// On an NVIDIA H200, by the figures of docs/kernels/gemm_coop.md.
    #[test]
    fn few_large_tiles_take_parts() {
        let [large, wide, _] = gemm_coop::TILES[0] else {
            panic!("three tiles")
        };
        let prefers = |tiles, parts, k| prefers_parts(tiles, parts, k, large.parts);
        // TinyLlama's q, and its k, for 65 to 128 rows; for 512, in parts of 512 elements.
        assert!(prefers(16, 8, 2048));
        assert!(!prefers(2, 8, 2048));
        assert!(prefers(64, 4, 2048));
        // 1024^3: smaller tiles fill the adapter.
        assert!(!prefers(64, 4, 1024));
        // Up to 64 rows: q and down of 8B, and its gate or up, but not its k, nor any of TinyLlama.
        let prefers = |tiles, parts, k| prefers_parts(tiles, parts, k, wide.parts);
        assert!(prefers(32, 8, 4096) && prefers(112, 2, 4096));
        assert!(!prefers(8, 8, 4096) && !prefers(16, 8, 2048) && !prefers(88, 2, 2048));
    }

    /// Every kernel fits, except the padded tiles of gemm, which lose their padding under this limit, and kernels with cooperative
    /// matrices, which are chosen by the adapter's limit and which DX12 does not have.
    #[test]
    fn kernels_fit_common_workgroup_memory() {
        let taken = |spec: &Specialization| (spec.kernel.shared)(spec);
        for spec in crate::kernel::catalogue() {
            let padded = spec.is_of(&gemm::GEMM) && spec.value("PAD") == Some(4);
            let features = spec.features;
            let coop = features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
            let fits = taken(&spec) <= COMMON || padded || coop;
            assert!(fits, "{}", spec.name());
        }
        let y = (DType::F32, Access::Put);
        for tile in gemm::TILES {
            for access in [Access::Quads, Access::Quant(Quant::Q4_0)] {
                let reading = |access| Reading {
                    access,
                    along_k: true,
                };
                let readings = [reading(Access::Quads), reading(access)];
                let spec = gemm::spec(DType::F32, tile, readings, true, y, COMMON);
                assert!(taken(&spec) <= COMMON, "{}", spec.name());
            }
        }
    }
}
