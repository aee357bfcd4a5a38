//! Which attention kernel runs, with which specialization, parameters and grid.

use crate::dtype::DType;
use crate::kernel::attention::block_mask::{self, BlockMask};
use crate::kernel::attention::flash::{FLASH, TILES};
use crate::kernel::attention::flash_coop::{self, FLASH_COOP};
use crate::kernel::attention::flash_decode::{
    self, BLOCKS, FLASH_DECODE, FLASH_DECODE_SUB, THREAD_GROUP, WIDE_BLOCKS,
};
use crate::kernel::attention::flash_decode_coop::{self, FLASH_DECODE_COOP};
use crate::kernel::attention::partition::{partition, Strategy};
use crate::kernel::attention::rope_flash_decode;
use crate::kernel::matmul::store::FLOATS;
use crate::kernel::{reads, RAW};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Grid;
use crate::shader::{params, read, read_bound_rw, Access, Kernel, Specialization};

pub static FLASH_MERGE: Kernel = Kernel {
    workgroup: 64,
    ..kernel!("attention", "flash_merge", MergeParams::LAYOUT; read x, write y)
};

/// The largest last dim of q, k and v.
pub(crate) const MAX_HEAD_DIM: usize = 256;

params! {
    /// Parameters of all kernels but `flash_merge`; `params.wgsl` says what the fields mean.
    pub(crate) struct Params {
        pub head_dim: u32,
        pub v_dim: u32,
        pub queries: u32,
        pub keys: u32,
        pub rows: u32,
        pub kv_heads: u32,
        pub matrices: u32,
        pub row_tiles: u32,
        pub splits: u32,
        pub split_keys: u32,
        pub causal: u32,
        pub scale: f32,
        pub softcap: f32,
        pub neg_inf: f32,
        pub nan: f32,
        pub lowest: f32,
        pub offsets: [u32; 4],
        pub inner_strides: [u32; 4],
        pub q_strides: [u32; 4],
        pub k_strides: [u32; 4],
        pub v_strides: [u32; 4],
        pub mask_strides: [u32; 4],
        pub y_strides: [u32; 4],
        pub fill_offset: u32,
        pub unit_rows: u32,
        pub block_tile: u32,
        pub block_unit: u32,
        pub block_matrix: u32,
        pub c_offset: u32,
        pub s_offset: u32,
        pub zero: u32,
        pub u_strides: [u32; 4],
        pub t_strides: [u32; 4],
        pub caches: [u32; 4],
    }
}

params! {
    pub(crate) struct MergeParams {
        all_rows: u32,
        row_quads: u32,
        splits: u32,
        nan: f32,
        queries: u32,
        rows: u32,
        kv_heads: u32,
        pad: u32,
        y_strides: [u32; 4],
    }
}

impl Params {
    /// Without sizes and strides.
    pub fn new() -> Self {
        Params {
            softcap: 1.0,
            neg_inf: f32::NEG_INFINITY,
            nan: f32::NAN,
            lowest: f32::MIN,
            ..bytemuck::Zeroable::zeroed()
        }
    }

    /// Whether every row of q, k and v is contiguous and starts at a whole quad, and whether every row of the mask does.
    fn whole_quads(&self) -> [bool; 2] {
        let four = |n: &u32| n.is_multiple_of(4);
        let strides = [self.q_strides, self.k_strides, self.v_strides];
        let all = strides.as_flattened().iter().chain(&self.offsets[..3]);
        let mask = self.mask_strides.iter().chain(&self.offsets[3..]);
        [
            self.inner_strides[..3] == [1; 3] && { all }.all(four),
            self.inner_strides[3] == 1 && { mask }.all(four),
        ]
    }
}

/// What a mask does to scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    None,
    Add(DType),
    /// A u8 mask replaces the scores that it marks, or all others, by one value of dtype `fill`.
    Fill {
        fill: DType,
        marked: bool,
    },
}

/// Values of `override MASKED`: no mask, an added one, one that fills what it marks, one that keeps what it marks.
pub(crate) const ADD: u32 = 1;
pub(crate) const HIDE: u32 = 2;
pub(crate) const KEEP: u32 = 3;

/// What a specialization depends on besides its kernel and tile.
#[derive(Clone, Copy)]
struct Request {
    dtype: DType,
    /// Rows of q, k and v start at whole quads.
    whole: bool,
    mask: Mask,
    /// Rows of the mask start at whole quads.
    whole_mask: bool,
    /// Keys are split: y gets partial results.
    split: bool,
}

impl Request {
    fn spec(self, strategy: &Strategy, head_dim: u32) -> Specialization {
        let rows = reads(self.whole);
        match *strategy {
            Strategy::Coop(tile) => self.tiled(&FLASH_COOP, tile.name, Access::Raw),
            Strategy::Flash(tile) => self.tiled(&FLASH, tile.name, rows),
            Strategy::Decode(block) => {
                let quads = if head_dim > 128 { 64 } else { 32 };
                self.of(&FLASH_DECODE, block.name, rows)
                    .with("QUADS", quads)
            }
            Strategy::DecodeSubgroups(block, threads) => {
                // A thread reads the mask of one key, so quads of the mask are of no use.
                let request = Request {
                    whole_mask: false,
                    ..self
                };
                request
                    .of(&FLASH_DECODE_SUB, block.name, rows)
                    .with("THREAD_GROUP", threads)
            }
            Strategy::DecodeCoop(tile) => self.of(&FLASH_DECODE_COOP, tile.name, rows),
        }
    }

    /// [`Request::of`] a kernel with row tiles, which reads the block mask of a mask.
    fn tiled(self, kernel: &'static Kernel, op: &'static str, rows: Access) -> Specialization {
        let spec = self.of(kernel, op, rows);
        match self.mask {
            Mask::None => spec,
            _ => spec.bind(read("block_mask"), RAW.0, RAW.1),
        }
    }

    /// A specialization that reads q, k and v by `access`.
    fn of(self, kernel: &'static Kernel, op: &'static str, access: Access) -> Specialization {
        let x = (self.dtype, access);
        let y = if self.split { DType::F32 } else { self.dtype };
        let (mask, how) = match self.mask {
            Mask::None => (self.dtype, 0),
            Mask::Add(dtype) => (dtype, ADD),
            Mask::Fill { marked: true, .. } => (DType::U8, HIDE),
            Mask::Fill { .. } => (DType::U8, KEEP),
        };
        let mask_access = reads(self.whole_mask && self.mask != Mask::None);
        let operands = [x, x, x, (mask, mask_access), (y, Access::Put)];
        let spec = Specialization::new(kernel, op, &operands)
            .with("MASKED", how)
            .with("PARTIAL", self.split.into());
        let Mask::Fill { fill, .. } = self.mask else {
            return spec;
        };
        let binding = match kernel.bindings[0].write {
            true => read_bound_rw("fill"),
            false => read("fill"),
        };
        spec.bind(binding, fill, Access::Words)
    }
}

/// What to dispatch.
pub(crate) struct Plan {
    pub spec: Specialization,
    pub params: Params,
    pub grid: Grid,
    /// The dispatch before it, if there is one, which reads the mask.
    pub block_mask: Option<BlockMask>,
    /// The second dispatch, where keys are split.
    pub merge: Option<Merge>,
}

/// Combines the partial results of splits.
pub(crate) struct Merge {
    pub spec: Specialization,
    pub params: MergeParams,
    pub grid: Grid,
    /// Elements of the partial results: of each row and split, the accumulators and a quad with the maximum and the sum of weights.
    pub floats: usize,
}

/// Chooses the kernel and its tile, splits the keys, and fills in the parameters that depend on both.
pub(crate) fn plan(device: &Gpu, (dtype, mask): (DType, Mask), mut params: Params) -> Plan {
    let [whole, whole_mask] = params.whole_quads();
    let able = flash_coop::is_supported(device) && !device.denies(&FLASH_COOP);
    let coop = Some(dtype).filter(|_| whole && able);
    let partition = partition(device, coop, &params);
    let request = Request {
        dtype,
        whole,
        mask,
        whole_mask,
        split: partition.splits > 1,
    };
    let spec = request.spec(&partition.strategy, params.head_dim);
    params.unit_rows = partition.unit_rows;
    params.row_tiles = partition.row_tiles;
    params.splits = partition.splits;
    params.split_keys = partition.split_keys;
    let groups =
        u64::from(params.matrices) * u64::from(params.row_tiles) * u64::from(params.splits);
    let grid = match partition.strategy {
        Strategy::DecodeSubgroups(..) | Strategy::DecodeCoop(_) => flash_decode::grid(&params, 0),
        _ => Grid::Linear(groups),
    };
    let merge = request.split.then(|| merge(dtype, &params));
    let block_mask = spec.binds("block_mask").then(|| {
        let spec = block_mask::spec(&spec, partition.rows);
        BlockMask::new(spec, &mut params)
    });
    Plan {
        spec,
        params,
        grid,
        block_mask,
        merge,
    }
}

fn merge(dtype: DType, params: &Params) -> Merge {
    let all_rows = params.matrices * params.rows;
    let row = params.v_dim as usize + 4;
    let row_threads = (params.v_dim / 4).next_power_of_two();
    let threads = u64::from(all_rows) * u64::from(row_threads);
    Merge {
        spec: merge_spec(dtype),
        params: MergeParams {
            all_rows,
            row_quads: params.v_dim / 4,
            splits: params.splits,
            nan: f32::NAN,
            queries: params.queries,
            rows: params.rows,
            kv_heads: params.kv_heads,
            pad: 0,
            y_strides: params.y_strides,
        },
        grid: Grid::Linear(threads.div_ceil(FLASH_MERGE.workgroup.into())),
        floats: (all_rows as usize * row).saturating_mul(params.splits as usize),
    }
}

fn merge_spec(dtype: DType) -> Specialization {
    let operands = [(DType::F32, Access::Quads), (dtype, Access::Put)];
    Specialization::new(&FLASH_MERGE, "", &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        all.push(merge_spec(dtype));
        let mut masks = vec![Mask::None];
        for fill in [dtype, DType::F32] {
            let fills = [true, false].map(|marked| Mask::Fill { fill, marked });
            masks.extend([Mask::Add(fill)].into_iter().chain(fills));
        }
        if dtype == DType::F32 {
            masks.truncate(4);
        }
        for (i, mask) in (0..8).flat_map(|i| masks.iter().map(move |mask| (i, *mask))) {
            let [whole, split, whole_mask] = [i & 1, i & 2, i & 4].map(|bit| bit != 0);
            // The access of the mask does not depend on that of the rows, so rare pairs are left out.
            let rare = !whole && (whole_mask || ![Mask::None, Mask::Add(dtype)].contains(&mask));
            if rare || whole_mask && mask == Mask::None {
                continue;
            }
            let request = Request {
                dtype,
                whole,
                mask,
                whole_mask,
                split,
            };
            let mut add = |strategy, head_dim| all.push(request.spec(&strategy, head_dim));
            TILES.iter().for_each(|tile| add(Strategy::Flash(tile), 0));
            if whole {
                let tiles = flash_coop::TILES.iter().filter(|t| t.takes(dtype));
                tiles.for_each(|tile| add(Strategy::Coop(tile), 0));
                let tiles = flash_decode_coop::TILES
                    .iter()
                    .filter(|_| dtype == DType::F16);
                tiles.for_each(|tile| add(Strategy::DecodeCoop(tile), 0));
            }
            for block in BLOCKS {
                add(Strategy::Decode(block), 128);
                add(Strategy::Decode(block), 256);
            }
            for block in BLOCKS.iter().chain(WIDE_BLOCKS).filter(|_| !whole_mask) {
                for threads in THREAD_GROUP {
                    add(Strategy::DecodeSubgroups(block, threads), 0);
                }
            }
        }
    }
    all.extend(block_mask::catalogue(&all));
    let rope = rope_flash_decode::catalogue(&all);
    all.extend(rope);
    all
}
