//! Selects the kernel of a convolution, its tile, and the parts of its sums.

use crate::dtype::DType;
use crate::kernel::conv::specialization::{self, Tile, BK, TILES};
use crate::kernel::conv::Problem;
use crate::kernel::{reads, threads, writes};
use crate::memory::merge::merge;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{Access, Specialization};

/// Tiles of 64 columns that keep a large adapter busy; with fewer, smaller tiles are faster. (320 channels of 64 x 64 are 96 of the
/// largest tiles: 16 TFLOP/s on an NVIDIA H200, against 32 TFLOP/s for 2048 of them.)
const BUSY: u64 = 96;
/// Workgroups of all split-K parts, and the fewest terms of a part.
const SPLIT_BUSY: u64 = 512;
const MIN_PART: usize = 256;

/// A kernel and its grid.
pub(super) struct Plan {
    pub spec: Specialization,
    /// Tiles along the output channels.
    pub rows: u32,
    /// Terms of a split-K part, and the number of parts, whose results are added up by a second kernel.
    pub part: u32,
    pub parts: usize,
    pub grid: Grid,
}

impl Problem<'_> {
    pub(super) fn plan(&self, device: &Recorder, n: usize) -> Plan {
        let c_out = self.w.dims[0];
        if self.is_direct() {
            return Plan {
                spec: specialization::direct(self.dtype, self.transposed),
                rows: 0,
                part: 0,
                parts: 1,
                grid: threads(n.div_ceil(4)),
            };
        }
        let columns = self.columns();
        let limit = device.limits().max_compute_workgroup_storage_size;
        let tiles = |t: &Tile| {
            let across = columns.div_ceil(t.columns() as usize) as u64;
            across * c_out.div_ceil(t.channels() as usize) as u64
        };
        let last = TILES.len() - 1;
        let tile = TILES[..last]
            .iter()
            .find(|t| {
                c_out > t.channels() as usize / 2
                    && tiles(t) >= device.scaled(BUSY) * u64::from(t.columns() / 64)
                    && t.shared(0) <= limit
            })
            .unwrap_or(&TILES[last]);
        let (part, parts) = self.split_k(device, tiles(tile), n);
        let partial = if parts > 1 { DType::F32 } else { self.dtype };
        let y = writes(self.positions().is_multiple_of(4));
        let spec = specialization::gemm(
            tile.name(self.transposed),
            (self.dtype, self.kernel_access()),
            (partial, y),
            if tile.shared(4) <= limit { 4 } else { 0 },
        );
        Plan {
            spec,
            rows: c_out.div_ceil(tile.channels() as usize) as u32,
            part,
            parts,
            grid: Grid::Linear(parts as u64 * tiles(tile)),
        }
    }

    /// The terms of a split-K part and the number of parts: more than one if `tiles` keep only a few workgroups of a GPU busy, as with the
    /// gradient of a kernel, whose sums run over all positions of a batch.
    fn split_k(&self, device: &Recorder, tiles: u64, n: usize) -> (u32, usize) {
        let k = self.k();
        let room = device.binding_limit() / (4 * n as u64);
        let parts = (device.scaled(SPLIT_BUSY) / tiles)
            .min((k / MIN_PART) as u64)
            .min(room);
        if parts < 2 {
            return (k as u32, 1);
        }
        let part = k.div_ceil(parts as usize).next_multiple_of(BK as usize);
        (part as u32, k.div_ceil(part))
    }

    /// `Quads` if each channel's weights are contiguous and begin at a multiple of 4.
    fn kernel_access(&self) -> Access {
        let [_, c, h, w] = self.w.dims;
        let line = merge(self.op, &[c, h, w], [&self.w.strides[1..]]);
        let dense = line.is_ok_and(|l| l.rank == 1 && l.strides[0][0] == 1);
        let row = match self.w.dims[0] {
            1 => 0,
            _ => self.w.strides[0],
        };
        reads(dense && (self.k() | row | self.w.offset).is_multiple_of(4))
    }
}
