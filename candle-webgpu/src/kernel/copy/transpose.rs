//! transpose: copies whose innermost dim is not that of what they read, through tiles in workgroup memory. Recorded by a rule.

use crate::dtype::{DType, BITS};
use crate::kernel::Strided;
use crate::memory::view::MAX_RANK;
use crate::recorder::op::Grid;
use crate::shader::{params, read, write, Access, Kernel, Specialization};

/// Elements of a tile along the innermost dim of x and along that of y.
const TILE: [u32; 2] = [32, 64];

pub static TRANSPOSE: Kernel = Kernel {
    name: "transpose",
    source: wgsl!("kernel/copy/transpose.wgsl"),
    params: Params::LAYOUT,
    bindings: &[read("x"), write("y")],
    workgroup: 128,
    shared: |spec| TILE[0] * (TILE[1] + 1) * spec.dtype(0).size().max(4) as u32,
    features: wgpu::Features::empty(),
    slots: |_, _| Ok(()),
};

/// Elements of a tile of 16 bits along either.
const TILE_16: u32 = 64;

/// The same of elements of 16 bits, two of which share a word of the tile: as many bytes under way as of 32 bits, for as much
/// workgroup memory. On an NVIDIA H200 that memory is what limits the workgroups of a multiprocessor.
pub static TRANSPOSE_16: Kernel = Kernel {
    name: "transpose16",
    source: wgsl!("kernel/copy/transpose16.wgsl"),
    params: Params::LAYOUT,
    bindings: &[read("x"), write("y")],
    workgroup: 128,
    shared: |_| (33 * TILE_16 + 2) * 4,
    features: wgpu::Features::empty(),
    slots: |_, _| Ok(()),
};

/// The kernel for a size of elements, and its tile.
fn spec(dtype: DType) -> (Specialization, [u32; 2]) {
    if dtype.size() == 2 {
        let operands = [(dtype, Access::Raw), (dtype, Access::Raw)];
        return (
            Specialization::new(&TRANSPOSE_16, "", &operands),
            [TILE_16; 2],
        );
    }
    let operands = [(dtype, Access::Quads), (dtype, Access::Put)];
    (Specialization::new(&TRANSPOSE, "", &operands), TILE)
}

pub fn catalogue() -> Vec<Specialization> {
    BITS.map(|dtype| spec(dtype).0).into()
}

params! {
    pub(crate) struct Params {
        /// Along k, the innermost dim of x, and l, that of y.
        tiles: [u32; 2],
        batch: u32,
        rank: u32,
        sizes: [u32; 2],
        x_offset: u32,
        y_offset: u32,
        /// Of l.
        x_step: u32,
        /// Of k.
        y_step: u32,
        pads: [u32; 2],
        dims: [u32; MAX_RANK],
        x_strides: [u32; MAX_RANK],
        y_strides: [u32; MAX_RANK],
    }
}

/// The fewest elements along either dim that are scale a tile.
const LEAST: u32 = 16;

/// A copy of bits as one through tiles, if it transposes and all its lines are whole quads. Dims, strides and offsets are those of
/// x and of y; y's elements are distinct.
pub(crate) fn plan(dtype: DType, copy: &Strided<2>) -> Option<(Specialization, Params, Grid)> {
    let rank = copy.rank as usize;
    let dims = &copy.dims[..rank];
    let [x, y] = &copy.strides;
    let inner = |strides: &[u32]| (0..rank).find(|&d| strides[d] == 1 && dims[d] > 1);
    let (k, l) = (inner(x)?, inner(y)?);
    let whole = |i: u32| i.is_multiple_of(4);
    let fits = k != l
        && [k, l].iter().all(|&d| whole(dims[d]) && dims[d] >= LEAST)
        && copy.offsets[..2].iter().all(|o| whole(*o))
        && (0..rank).all(|d| (d == k || whole(x[d])) && (d == l || whole(y[d])));
    if !fits {
        return None;
    }
    let (spec, tile) = spec(dtype);
    let sizes = [dims[k], dims[l]];
    let mut params = Params {
        tiles: [0, 1].map(|i| sizes[i].div_ceil(tile[i])),
        batch: 1,
        rank: 0,
        sizes,
        x_offset: copy.offsets[0],
        y_offset: copy.offsets[1],
        x_step: x[l],
        y_step: y[k],
        pads: [0; 2],
        dims: [1; MAX_RANK],
        x_strides: [0; MAX_RANK],
        y_strides: [0; MAX_RANK],
    };
    for d in (0..rank).filter(|d| ![k, l].contains(d)) {
        let at = params.rank as usize;
        params.dims[at] = dims[d];
        params.x_strides[at] = x[d];
        params.y_strides[at] = y[d];
        params.batch *= dims[d];
        params.rank += 1;
    }
    let tiles = u64::from(params.tiles[0]) * u64::from(params.tiles[1]);
    let grid = Grid::Linear(tiles * u64::from(params.batch));
    Some((spec, params, grid))
}
