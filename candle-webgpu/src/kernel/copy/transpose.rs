//! Transposing copies through tiles in workgroup memory. A rule records them.

use bytemuck::Zeroable;

use crate::dtype::{DType, BITS};
use crate::kernel::Strided;
use crate::memory::merge::MAX_RANK;
use crate::recorder::op::Grid;
use crate::shader::{params, Access, Kernel, Specialization};

/// Size of a tile along the innermost dims of x and of y, in elements.
const TILE: [u32; 2] = [32, 64];

pub static TRANSPOSE: Kernel = Kernel {
    workgroup: 128,
    shared: |spec| TILE[0] * (TILE[1] + 1) * spec.dtype(0).size().max(4) as u32,
    ..kernel!("copy", "transpose", Params::LAYOUT; read x, write y)
};

/// The same for elements of 16 bits.
const TILE_16: u32 = 64;

/// Transposes elements of 16 bits, two in a word of the tile, so that a workgroup has as many bytes in flight as with 32 bits. On an
/// NVIDIA H200, workgroup memory limits the workgroups of a multiprocessor.
pub static TRANSPOSE_16: Kernel = Kernel {
    workgroup: 128,
    shared: |_| (33 * TILE_16 + 2) * 4,
    ..kernel!("copy", "transpose16", Params::LAYOUT; read x, write y)
};

/// The specialization for a size of elements, and its tile.
fn spec(dtype: DType) -> (Specialization, [u32; 2]) {
    let (kernel, read, write, tile) = match dtype.size() {
        2 => (&TRANSPOSE_16, Access::Raw, Access::Raw, [TILE_16; 2]),
        _ => (&TRANSPOSE, Access::Quads, Access::Put, TILE),
    };
    let spec = Specialization::new(kernel, "", &[(dtype, read), (dtype, write)]);
    (spec, tile)
}

pub fn catalogue() -> Vec<Specialization> {
    BITS.map(|dtype| spec(dtype).0).into()
}

params! {
    pub(crate) struct Params {
        /// Number along k, the innermost dim of x, and l, that of y.
        tiles: [u32; 2],
        batch: u32,
        rank: u32,
        sizes: [u32; 2],
        x_offset: u32,
        y_offset: u32,
        /// Stride of l in x.
        x_step: u32,
        /// Stride of k in y.
        y_step: u32,
        pads: [u32; 2],
        dims: [u32; MAX_RANK],
        x_strides: [u32; MAX_RANK],
        y_strides: [u32; MAX_RANK],
    }
}

/// Elements along either dim below which tiles do not pay.
const LEAST: u32 = 16;

/// The tiled form of a copy from x (operand 0) to y (operand 1), if it transposes and all lines are whole quads. The elements of y are
/// distinct.
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
        sizes,
        x_offset: copy.offsets[0],
        y_offset: copy.offsets[1],
        x_step: x[l],
        y_step: y[k],
        dims: [1; MAX_RANK],
        ..Params::zeroed()
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
