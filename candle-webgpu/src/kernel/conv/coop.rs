//! f16 convolutions with cooperative matrices: an implicit GEMM by `gemm_coop`, whose matrix b is gathered from the input.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::conv::{Geometry, Problem};
use crate::kernel::matmul::gemm_coop::{
    all_tiles, tile, tile_slots, Tile, B_OCTETS, FEATURES, OCTETS, ROUND, WHOLE_K,
};
use crate::kernel::matmul::plan;
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::store::put;
use crate::kernel::writes;
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32};
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub static CONV_COOP: Kernel = Kernel {
    name: "conv_coop",
    workgroup: 128,
    shared: |spec| tile(spec).shared(),
    features: FEATURES,
    slots,
    ..kernel!("matmul", "gemm_coop", Params::LAYOUT; read_bound_rw a, read_bound_rw b, write y)
};

/// Output channels from which at least half of a tile's rows are used.
const LEAST_CHANNELS: usize = 32;
/// Positions in all from which at least half of its columns are.
const LEAST_COLUMNS: usize = 32;
/// Limits of taps and of input channels, which share a word.
const MOST_TAPS: usize = 1 << 12;
const MOST_CHANNELS: usize = 1 << 19;
/// Positions of a line are rounded up to a multiple of it.
const OCTET: usize = 8;

params! {
    struct Params {
        matmul: MatmulParams,
        /// The shader's next field is aligned to 8 bytes.
        pad: u32,
        geometry: Geometry,
        channel: u32,
        line: u32,
        columns: u32,
        over: u32,
    }
}

fn spec(tile: &Tile, steps: bool, whole_k: bool, y: (DType, Access)) -> Specialization {
    let raw = (DType::F16, Access::Raw);
    let name = tile.names[if steps { 2 } else { 0 }];
    Specialization::new(&CONV_COOP, name, &[raw, raw, y])
        .with("A_ALONG_K", 1)
        .with("B_ALONG_K", 0)
        .with("WHOLE_K", whole_k.into())
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    text.file(wgsl!("kernel/conv/gemm_coop_image.wgsl"));
    let tile = tile(spec);
    tile_slots(tile, tile.n, text);
    text.part(WHOLE_K);
    text.line("alias BLoad = u32;");
    text.part(B_OCTETS);
    let reads = OCTETS.replace("fn b_octet(at: u32) -> Octet { return b[at]; }\n", "");
    text.part(&reads);
    text.part(if spec.op == tile.names[2] {
        wgsl!("kernel/conv/image_octet_strided.wgsl")
    } else {
        wgsl!("kernel/conv/image_octet_adjacent.wgsl")
    });
    put(spec, 2, text)
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    let tiles = all_tiles().filter(|t| t.convolves());
    for (tile, steps) in tiles.flat_map(|t| [(t, false), (t, true)]) {
        for whole_k in [true, false] {
            // f32 holds the partial sums of split-K.
            for y in [DType::F16, DType::F32] {
                all.push(spec(tile, steps, whole_k, (y, Access::Put)));
                all.push(spec(tile, steps, whole_k, (y, Access::Set)));
            }
        }
    }
    all
}

impl Problem<'_> {
    /// Runs on cooperative matrices; None unless the adapter has them, the weights of a channel are whole octets, lines of the input are
    /// contiguous, and the result fills tiles.
    pub fn cooperative(&self, device: &Recorder) -> Result<Option<Value>> {
        let op = self.op;
        let Some(all) = device.coop_tiles() else {
            return Ok(None);
        };
        let [images, c_in, _, w_in] = self.x.dims;
        let [c_out, _, kh, kw] = self.w.dims;
        let taps = kh * kw;
        let weights = merge(op, &self.w.dims[1..], [&self.w.strides[1..]])?;
        let close = weights.rank == 1 && weights.strides[0][0] == 1;
        let close = close && (w_in == 1 || self.x.strides[3] == 1);
        let columns = self.out[1].next_multiple_of(OCTET);
        let n = self.out[0] * columns;
        let fits = self.dtype == DType::F16 && !self.transposed && self.groups == 1;
        let packs = taps < MOST_TAPS && taps * kw < 1 << 16 && c_in < MOST_CHANNELS;
        let full = c_out >= LEAST_CHANNELS && images * n >= LEAST_COLUMNS;
        if !(fits && close && packs && full && columns < 2 * self.out[1]) {
            return Ok(None);
        }
        let (x_range, (x_offset, x_strides)) = self.x.bind(device, op)?;
        let (w_range, (w_offset, w_strides)) = self.w.bind(device, op)?;
        let k = to_u32(op, self.k())?;
        if !(k | w_strides[0] | w_offset).is_multiple_of(OCTET as u32) {
            return Ok(None);
        }
        let limit = device.limits().max_compute_workgroup_storage_size;
        let tiles = |t: &Tile| {
            let across = n.div_ceil(t.n as usize) * c_out.div_ceil(t.m as usize);
            (across * images) as u64
        };
        // Gathering costs small tiles more: 96 large ones take 88 us, 320 small ones 101 us (NVIDIA H200).
        let fitting = |t: &&Tile| tiles(t) >= device.scaled(t.least) * 3 / 4 && t.shared() <= limit;
        let Some(tile) = all.iter().filter(|t| t.convolves()).find(fitting) else {
            return Ok(None);
        };
        let outputs = self.outputs();
        let parts = plan::parts(device, [k, ROUND], tiles(tile), outputs as u64);
        let access = writes(self.out[1].is_multiple_of(4));
        let dtype = if parts == 1 { self.dtype } else { DType::F32 };
        let whole_k = k.is_multiple_of(ROUND * parts);
        let spec = spec(tile, self.stride[1] > 1, whole_k, (dtype, access));
        if device.denies_variant(&spec) {
            return Ok(None);
        }
        let rows = c_out.div_ceil(tile.m as usize) as u32;
        let groups = rows * n.div_ceil(tile.n as usize) as u32;
        let matmul = MatmulParams {
            m: c_out as u32,
            n: to_u32(op, n)?,
            k: k / parts,
            batch: images as u32 * parts,
            groups,
            rows,
            a_offset: w_offset,
            b_offset: x_offset,
            a_m: w_strides[0],
            a_k: 1,
            dims: [images as u32, parts, 1, 1],
            a_batch: [0, k / parts, 0, 0],
            b_batch: [x_strides[0], 0, 0, 0],
            blocks: 1,
            rounds: 1,
            ..bytemuck::Zeroable::zeroed()
        };
        let params = Params {
            matmul,
            pad: 0,
            geometry: self.geometry(),
            channel: x_strides[1],
            line: x_strides[2],
            columns: columns as u32,
            over: (1u32 << 16).div_ceil(kw as u32),
        };
        let y = device.output(op, parts as usize * outputs, dtype)?;
        let grid = Grid::Linear(u64::from(groups) * images as u64 * u64::from(parts));
        let ranges = [w_range, x_range, (&y).into()];
        device.record(spec, &ranges, &params, grid)?;
        device.add_up(y, parts as usize, self.dtype).map(Some)
    }
}
