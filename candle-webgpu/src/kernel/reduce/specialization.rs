//! The kernels of reductions, and what is linked for each op.

use crate::dtype::{Compute, DType};
use crate::error::Result;
use crate::kernel::{threads, WORKGROUP};
use crate::op::{Family, Output, OPS};
use crate::recorder::op::Grid;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

/// Invocations of a workgroup that meet in a tree.
pub(crate) const TREE_WORKGROUP: u32 = 256;

pub static REDUCE_ROW: Kernel = Kernel {
    name: "reduce_row",
    source: wgsl!("kernel/reduce/reduce_row.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), write("y")],
    workgroup: TREE_WORKGROUP,
    shared: |spec| TREE_WORKGROUP * acc_bytes(spec),
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        let unit = UNITS.iter().find(|u| u.access == spec.operands[0].1);
        text.line(unit.map_or("", |u| u.slots));
        slots(spec, text)
    },
};

/// What a load of `REDUCE_ROW` gives.
pub(crate) struct Unit {
    access: Access,
    /// Elements.
    pub size: u32,
    slots: &'static str,
}

pub(crate) const UNITS: [Unit; 2] = [
    Unit {
        access: Access::Quads,
        size: 4,
        slots: "alias Unit = XL;
const UNIT = 4u;
fn x_unit(base: u32, r: u32) -> Unit { return x_get4((base + r) / 4u); }
fn x_first(base: u32) -> XV { return x_get4(base / 4u)[0]; }
fn acc_unit(v: Unit, r: u32) -> Acc {
    let a = acc_next(acc_of(v[0], r), acc_of(v[1], r + 1u));
    return acc_next(a, acc_next(acc_of(v[2], r + 2u), acc_of(v[3], r + 3u)));
}",
    },
    Unit {
        access: Access::Words,
        size: 1,
        slots: "alias Unit = XV;
const UNIT = 1u;
fn x_unit(base: u32, r: u32) -> Unit { return x_get(base + folded_at(r)); }
fn x_first(base: u32) -> XV { return x_get(base); }
fn acc_unit(v: Unit, r: u32) -> Acc { return acc_of(v, r); }",
    },
];

/// Size of an accumulator.
fn acc_bytes(spec: &Specialization) -> u32 {
    let value = spec.info(0).compute.size() as u32;
    // A struct with a position is padded to its alignment.
    if is_arg(spec.op) {
        value * 2
    } else {
        value
    }
}

pub static REDUCE_COLUMN: Kernel = Kernel {
    name: "reduce_column",
    source: wgsl!("kernel/reduce/reduce_column.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

pub static REDUCE_COLUMNS: Kernel = Kernel {
    name: "reduce_columns",
    source: wgsl!("kernel/reduce/reduce_columns.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), write("y")],
    workgroup: TREE_WORKGROUP,
    shared: |spec| TREE_WORKGROUP * 4 * acc_bytes(spec),
    features: wgpu::Features::empty(),
    slots,
};

pub static REDUCE_ARG: Kernel = Kernel {
    name: "reduce_winner",
    source: wgsl!("kernel/reduce/reduce_arg.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), read("won"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

fn is_arg(op: &str) -> bool {
    matches!(op, "argmin" | "argmax")
}

/// The accumulator: a value, for minima and maxima of floats its place in their order, and a position if that is asked for.
/// `acc_next` joins where all of a comes before b.
fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let compute = spec.info(0).compute;
    text.ops(compute);
    let (takes, key) = match spec.op {
        "min" => ("reduce_min_takes", "reduce_min_key"),
        "max" => ("reduce_max_takes", "reduce_max_key"),
        "argmin" => ("reduce_min_takes", "reduce_argmin_key"),
        _ => ("reduce_max_takes", "reduce_argmax_key"),
    };
    if !is_arg(spec.op) {
        text.line("fn acc_next(a: Acc, b: Acc) -> Acc { return acc_join(a, b); }");
    }
    text.line(match (spec.op, compute) {
        ("sum", _) => "alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return reduce_sum(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a; }"
            .to_string(),
        ("min" | "max", Compute::F32) => format!(
            "alias Acc = i32;
fn acc_of(v: XV, r: u32) -> Acc {{ return {key}(v); }}
fn acc_join(a: Acc, b: Acc) -> Acc {{ return {}(a, b); }}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(reduce_of_key(a), v, first && reduce_poison(v)); }}",
            spec.op
        ),
        ("min" | "max", _) => format!(
            "alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc {{ return v; }}
fn acc_join(a: Acc, b: Acc) -> Acc {{ return select(a, b, {takes}(a, b)); }}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(a, v, first && reduce_poison(v)); }}"
        ),
        // Of equal values the first in the row wins.
        (_, Compute::F32) => format!(
            "struct Acc {{ v: i32, r: u32 }}
fn acc_of(v: XV, r: u32) -> Acc {{ return Acc({key}(v), r); }}
fn acc_next(a: Acc, b: Acc) -> Acc {{
    if b.v > a.v {{ return b; }}
    return a;
}}
fn acc_join(a: Acc, b: Acc) -> Acc {{
    if b.v > a.v || (b.v == a.v && b.r < a.r) {{ return b; }}
    return a;
}}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(a.r, 0u, first && reduce_poison(v)); }}"
        ),
        _ => format!(
            "struct Acc {{ v: XV, r: u32 }}
fn acc_of(v: XV, r: u32) -> Acc {{ return Acc(v, r); }}
fn acc_next(a: Acc, b: Acc) -> Acc {{
    if {takes}(a.v, b.v) {{ return b; }}
    return a;
}}
fn acc_join(a: Acc, b: Acc) -> Acc {{
    if {takes}(a.v, b.v) || (b.r < a.r && !{takes}(b.v, a.v)) {{ return b; }}
    return a;
}}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(a.r, 0u, first && reduce_poison(v)); }}"
        ),
    });
    Ok(())
}

/// How a fold is spread over threads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// Workgroups of `rows` outputs each, by quads of a contiguous row or by elements.
    Row { quads: bool, rows: u32 },
    /// Threads of a word of outputs each.
    Column,
    /// Workgroups of quads of outputs, `down` threads each.
    Columns { down: u32 },
}

impl Way {
    pub fn spec(self, op: &'static str, x: DType, y: DType) -> Specialization {
        let new = |kernel, read, write| Specialization::new(kernel, op, &[(x, read), (y, write)]);
        match self {
            Way::Row { quads, rows } => {
                let unit = &UNITS[usize::from(!quads)];
                new(&REDUCE_ROW, unit.access, Access::PutWord).with("ROWS", rows)
            }
            Way::Column => new(&REDUCE_COLUMN, Access::Words, Access::PutWord),
            Way::Columns { down } => {
                new(&REDUCE_COLUMNS, Access::Quads, Access::Put).with("DOWN", down)
            }
        }
    }

    /// For `n` outputs, `lanes` in a word, from each of `chunks` chunks.
    pub fn grid(self, n: usize, lanes: usize, chunks: usize) -> Grid {
        match self {
            Way::Row { rows, .. } => Grid::Linear((n.div_ceil(rows as usize) * chunks) as u64),
            Way::Column => threads(n.div_ceil(lanes) * chunks),
            Way::Columns { down } => {
                let across = (TREE_WORKGROUP / down) as usize;
                Grid::Linear(((n / 4).div_ceil(across) * chunks) as u64)
            }
        }
    }
}

/// What partial results are stored as: the type in which values are computed.
pub(crate) fn wide(dtype: DType) -> DType {
    dtype.info().compute.dtype()
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Reduce) {
        for &x in op.dtypes {
            // One pass; the first of two; the second.
            let mut pairs = vec![(x, op.output(x))];
            let wide = wide(x);
            if op.output == Output::Same && wide != x {
                pairs.extend([(x, wide), (wide, x)]);
            }
            for way in [
                Way::Row {
                    quads: true,
                    rows: 4,
                },
                Way::Row {
                    quads: false,
                    rows: 4,
                },
                Way::Column,
                Way::Columns { down: 8 },
            ] {
                all.extend(pairs.iter().map(|&(x, y)| way.spec(op.name, x, y)));
            }
            if op.output == Output::Index {
                let index = (DType::U32, Access::Words);
                let y = (DType::U32, Access::PutWord);
                all.push(Specialization::new(
                    &REDUCE_ARG,
                    op.name,
                    &[(x, Access::Words), index, y],
                ));
            }
        }
    }
    all
}
