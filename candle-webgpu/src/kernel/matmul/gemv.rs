//! GEMV: a few rows times a matrix, bound by the memory bandwidth of reading the matrix once.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue;
use crate::kernel::matmul::gemv_variant::{
    self, with_blocks, Reduction, Variant, ALONE, MEMORY, QUANTIZED, SUB128, SUB256, SUB32,
};
use crate::kernel::matmul::plan::Plan;
use crate::kernel::matmul::store::{store, FLOATS, PUT_OF};
use crate::kernel::{reads, writes};
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

/// The most rows of a GEMV.
pub(crate) const MAX_ROWS: u32 = 8;

pub(crate) const SUB: wgpu::Features = wgpu::Features::SUBGROUP;

/// b contiguous along k, as the weight of a Linear layer is. Run in a [`Variant`].
pub static GEMV_K: Kernel = Kernel {
    workgroup: MEMORY.workgroup,
    shared: |spec| tile(spec).rows * spec.workgroup * 16,
    slots: slots_k,
    ..kernel!("matmul", "gemv_k", epilogue::Params::LAYOUT; read a, read b, write y)
};

/// b contiguous along n, or with any strides.
pub static GEMV_N: Kernel = Kernel {
    workgroup: 256,
    shared: |_| 256 * 16,
    slots: slots_n,
    ..kernel!("matmul", "gemv_n", epilogue::Params::LAYOUT; read a, read b, write y)
};

impl Variant {
    fn spec(
        &self,
        tile: &Tile,
        (dtype, out): (DType, DType),
        [a, b]: [Access; 2],
        span: u32,
    ) -> Specialization {
        let operands = [(dtype, a), (dtype, b), (out, Access::Set)];
        let spec = Specialization::new(&GEMV_K, tile.name, &operands)
            .variant(self.name)
            .workgroup(self.workgroup)
            .with("SPAN", span);
        match self.reduction {
            Reduction::Subgroups => spec.features(SUB),
            _ => spec,
        }
    }

    /// The partition with `span` threads to a row.
    fn partition(
        &self,
        tile: &Tile,
        dtypes: (DType, DType),
        accesses: [Access; 2],
        span: u32,
    ) -> Partition {
        Partition {
            spec: self.spec(tile, dtypes, accesses, span),
            rows: tile.rows,
            cols: self.workgroup / span * tile.cols,
            rounds: 1,
        }
    }
}

/// The rows of a and columns of b that a thread, or a thread group of gemv_dot, multiplies at a time.
pub(crate) struct Tile {
    /// The `op` of the specialization.
    pub name: &'static str,
    pub rows: u32,
    pub cols: u32,
}

/// The tiles of [`GEMV_K`].
#[rustfmt::skip]
const TILES: &[Tile] = &[
    Tile { name: "1x2", rows: 1, cols: 2 },
    Tile { name: "2x4", rows: 2, cols: 4 },
    Tile { name: "4x4", rows: 4, cols: 4 },
];

/// More tiles of gemv_dot and of pairs of matrices.
#[rustfmt::skip]
const MORE_TILES: &[Tile] = &[
    Tile { name: "1x1", rows: 1, cols: 1 },
    Tile { name: "2x2", rows: 2, cols: 2 },
    Tile { name: "4x2", rows: 4, cols: 2 },
];

/// The tiles of [`GEMV_K`] for a quantized b where registers are few: they need half as many as [`TILES`].
const NARROW_TILES: [&Tile; 3] = [&TILES[0], &MORE_TILES[1], &MORE_TILES[2]];

pub(crate) fn tile(spec: &Specialization) -> &'static Tile {
    let mut all = TILES.iter().chain(MORE_TILES);
    all.find(|t| t.name == spec.op).unwrap_or(&TILES[0])
}

/// The tile of this size.
pub(crate) fn tile_of(rows: u32, cols: u32) -> Option<&'static Tile> {
    let mut all = TILES.iter().chain(MORE_TILES);
    all.find(|t| (t.rows, t.cols) == (rows, cols))
}

/// From `MANY` columns on, one subgroup a workgroup is faster, unless columns have `LONG` elements and there is one block of rows. 256
/// threads are faster for one row by such columns of 16 bits, but slower for two rows and for f32. Measured on an NVIDIA H200.
const MANY: u64 = 4096;
const LONG: u32 = 4096;

/// The most steps along k that one thread accumulates alone.
const MOST_ALONE: u32 = 2048;

/// Columns that a workgroup of [`GEMV_N`] owns.
pub(crate) const GEMV_N_COLS: u32 = 32;

/// How a matmul is divided among workgroups.
pub(crate) struct Partition {
    pub spec: Specialization,
    /// Rows of a block.
    pub rows: u32,
    /// Columns that a workgroup owns, and the rounds that it computes them in.
    pub cols: u32,
    pub rounds: u32,
}

impl Partition {
    /// The kernel and the grid for a batch of m rows and n columns each.
    pub fn plan(self, m: u32, n: u32, batch: u32) -> Plan {
        let blocks = m.div_ceil(self.rows);
        let spec = with_blocks(self.spec, u64::from(blocks) * u64::from(batch));
        Plan {
            blocks,
            rounds: self.rounds,
            ..Plan::new(spec, n.div_ceil(self.cols))
        }
    }
}

/// The partition for b contiguous along k. `dtypes` are those of the operands and of y; `vec4` says whether 16-byte loads can read a
/// and b, which a dense b requires for more than one row.
pub(crate) fn partition(
    dtypes: (DType, DType),
    quant: Option<Quant>,
    (m, n, k): (u32, u32, u32),
    vec4: [bool; 2],
    batch: u64,
    reduction: Reduction,
) -> Partition {
    let wide = reduction == Reduction::WideSubgroups;
    let size = m.clamp(1, 3) as usize - 1;
    let tile = match wide && quant.is_some() {
        true => NARROW_TILES[size],
        false => &TILES[size],
    };
    let steps = k.div_ceil(if quant.is_some() { 32 } else { 8 });
    let halves = quant.is_none() && dtypes.0 != DType::F32;
    let many = u64::from(n) * batch >= MANY && (k < LONG || m > 4);
    let variant = match reduction {
        // A single accumulator of many terms is less accurate than a tree.
        Reduction::Alone if steps <= MOST_ALONE => ALONE,
        Reduction::Alone | Reduction::Memory => MEMORY,
        _ if steps < 64 => MEMORY,
        // A workgroup of SUB32 would leave half of a subgroup idle, and subgroupAdd takes registers.
        _ if wide && (many || m > 1) => MEMORY,
        _ if many => SUB32,
        _ if k >= LONG && m == 1 && halves && !wide => SUB256,
        _ => SUB128,
    };
    let span = match variant.reduction {
        Reduction::Memory => steps.next_power_of_two().min(variant.workgroup),
        _ => variant.span(),
    };
    let b = match quant {
        Some(quant) => Access::Quant(quant),
        None => dense(vec4[1]),
    };
    variant.partition(tile, dtypes, [dense(vec4[0]), b], span)
}

/// 16-byte loads, or element by element.
fn dense(vec4: bool) -> Access {
    if vec4 {
        Access::Raw
    } else {
        Access::Words
    }
}

/// The partition for a mixture of experts: each row of the batch is multiplied by the matrix that its id selects.
pub(crate) fn partition_experts(
    dtype: DType,
    quant: Quant,
    k: u32,
    vec4: bool,
    reduction: Reduction,
) -> Partition {
    let variant = match reduction {
        Reduction::Subgroups if k >= 2048 => SUB32,
        _ => MEMORY,
    };
    let span = (k / 32).next_power_of_two().min(variant.workgroup);
    let access = [dense(vec4), Access::Quant(quant)];
    let mut partition = variant.partition(&TILES[0], (dtype, dtype), access, span);
    partition.spec = with_ids(partition.spec);
    partition
}

/// Adds the experts' ids, and the buffer that reports an id out of range.
pub(crate) fn with_ids(spec: Specialization) -> Specialization {
    spec.bind(read("ids"), DType::U32, Access::Raw)
        .bind(write("fault"), DType::U32, Access::Raw)
}

/// The specialization for b contiguous along n, read by quads if `quads`, or with any strides. `whole`: rows of y are whole quads.
pub(crate) fn spec_n(
    (dtype, out): (DType, DType),
    m: u32,
    quads: bool,
    whole: bool,
) -> Specialization {
    let rows = match m {
        1 => "1",
        2 => "2",
        3 | 4 => "4",
        _ => "8",
    };
    let [a, b, y] = [Access::Words, reads(quads), writes(whole)];
    Specialization::new(&GEMV_N, rows, &[(dtype, a), (dtype, b), (out, y)])
}

fn slots_k(spec: &Specialization, text: &mut Text) -> Result<()> {
    place_batch(spec, text);
    thread_group(spec, text);
    for (i, n) in ["a", "b"].into_iter().enumerate() {
        eights(spec, i, n, text);
    }
    if matches!(spec.operands[1].1, Access::Quant(_)) {
        text.file(wgsl!("kernel/matmul/gemv_units.wgsl"));
    } else {
        text.file(wgsl!("kernel/matmul/eight.wgsl"));
        text.file(wgsl!("kernel/matmul/early.wgsl"));
        if epilogue::is_pair(spec) {
            text.binding_of(spec, "c", "C");
            eights(spec, 3, "c", text);
            text.file(wgsl!("kernel/matmul/gemv_pair.wgsl"));
        } else {
            text.line(
                "fn b_early(first: u32, row: u32) -> u32 { return b_ahead(first, row) ^ held(); }",
            );
            text.file(wgsl!("kernel/matmul/gemv_eights.wgsl"));
        }
    }
    epilogue::hold(spec, text);
    text.unrolled(ADD_UP_OF, ["return add_up(first, rows, cols);".into()]);
    text.unrolled(PUT_OF, [store("y")]);
    epilogue::y_put(spec, tile(spec).cols, "epilogue", text)?;
    text.part(epilogue::PARAMS);
    Ok(())
}

/// The accumulators of result `which`.
pub(crate) const ADD_UP_OF: &str = "add_up_of(which: u32, first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS>";

/// What `place(group)` returns.
pub(crate) const PLACE: &str = wgsl!("kernel/matmul/place.wgsl");

/// `place(group)` of one matmul. The matrix of a row begins at 0 in b, unless it is an expert's.
pub(crate) fn place_batch(spec: &Specialization, text: &mut Text) {
    text.file(PLACE);
    text.file(wgsl!("lib/batch.wgsl"));
    text.file(wgsl!("kernel/matmul/place_batch.wgsl"));
    if spec.binds("ids") {
        text.file(wgsl!("kernel/matmul/expert.wgsl"));
    } else {
        text.line("fn b_start(batch: u32) -> u32 { return 0u; }");
    }
}

/// The register tile, the entry point and the reduction.
pub(crate) fn thread_group(spec: &Specialization, text: &mut Text) {
    let tile = tile(spec);
    text.constants(&[("ROWS", tile.rows), ("COLS", tile.cols)]);
    text.file(if spec.variant == ALONE.name {
        wgsl!("kernel/matmul/gemv_alone.wgsl")
    } else if spec.features.contains(SUB) {
        wgsl!("kernel/matmul/gemv_subgroup.wgsl")
    } else {
        wgsl!("kernel/matmul/gemv_memory.wgsl")
    });
}

/// `{n}_ahead` and `{n}_word_ahead` of an operand named `n`, whose binding holds `unit` elements in each 16 bytes.
pub(crate) fn ahead(n: &str, unit: u32, text: &mut Text) {
    text.file(wgsl!("lib/pages.wgsl"));
    let unit = format!("{unit}u");
    let file = wgsl!("kernel/matmul/ahead.wgsl");
    text.part_for(file, ["a", n], &[("UNIT", &unit)]);
}

/// `{n}_eight(row, k)`: loads of eight elements of operand `i`, named `n`, if it is dense; and `{n}_ahead`.
pub(crate) fn eights(spec: &Specialization, i: usize, n: &str, text: &mut Text) {
    let row = spec.info(i);
    // But for words, 16 bytes per load, for every dtype.
    let (file, unit) = match spec.operands[i].1 {
        Access::Quant(_) => return,
        Access::Words => (wgsl!("kernel/matmul/eight_words.wgsl"), None),
        _ if row.lanes == 1 => (wgsl!("kernel/matmul/eight_f32.wgsl"), Some(4)),
        _ => (wgsl!("kernel/matmul/eight_packed.wgsl"), Some(8)),
    };
    if let Some(unit) = unit {
        ahead(n, unit, text);
    }
    text.file(row.source);
    let unpack = format!("{}_unpack", row.name);
    text.part_for(file, ["a", n], &[("f16_unpack", &unpack)]);
}

/// The specializations that read both operands by 16-byte loads.
pub(crate) fn vec4_specs(dtype: DType) -> Vec<Specialization> {
    let both = [dense(true); 2];
    let each = |tile: &'static Tile| {
        let variants = gemv_variant::dense(tile.rows).iter();
        variants.map(move |v| v.spec(tile, (dtype, dtype), both, v.span()))
    };
    TILES.iter().flat_map(each).collect()
}

fn slots_n(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/batch.wgsl"));
    text.line(format!("const ROWS = {}u;", spec.op));
    if spec.operands[1].1 == Access::Quads {
        text.line("fn b_four(row: u32, n: u32) -> vec4<f32> { return b_get4((row + n) / 4u); }");
    } else {
        text.part(wgsl!("kernel/matmul/gemv_n_words.wgsl"));
    }
    epilogue::y_put(spec, 4, "epilogue", text)?;
    text.part(epilogue::PARAMS);
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    // Split-K parts are f32.
    let dtypes = FLOATS.into_iter().map(|dtype| (dtype, dtype));
    let partial = FLOATS.into_iter().skip(1).map(|dtype| (dtype, DType::F32));
    for dtypes in dtypes.chain(partial) {
        for x in [true, false] {
            for y in [true, false] {
                for tile in TILES.iter().filter(|t| t.rows == 1 || x && y) {
                    let access = [dense(x), dense(y)];
                    let variants = gemv_variant::dense(tile.rows).iter();
                    all.extend(variants.map(|v| v.spec(tile, dtypes, access, v.span())));
                }
                all.extend([1, 2, 4, 8].map(|m| spec_n(dtypes, m, x, y)));
            }
        }
    }
    for dtype in FLOATS {
        for x in [true, false] {
            for row in QUANTS {
                let access = [dense(x), Access::Quant(row.quant)];
                for tile in TILES {
                    let spec = |v: &Variant| v.spec(tile, (dtype, dtype), access, v.span());
                    all.extend(QUANTIZED.iter().map(spec));
                }
                let narrow = NARROW_TILES[1..].iter();
                all.extend(narrow.map(|tile| MEMORY.spec(tile, (dtype, dtype), access, 64)));
                for reduction in [Reduction::Memory, Reduction::Subgroups] {
                    all.push(partition_experts(dtype, row.quant, 2048, x, reduction).spec);
                }
            }
        }
    }
    all
}
