//! fold: sums, minima, maxima and their positions along dims.

use smallvec::SmallVec;

use crate::buffer::Value;
use crate::cut::Part;
use crate::device::Device;
use crate::elem::{Compute, Elem};
use crate::error::{Error, Result};
use crate::kernel::{threads, ROUNDS, WORKGROUP};
use crate::layout::{merge, to_u32, View, MAX_RANK};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::op::{Family, Op, Output, OPS};
use crate::queue::Grid;
use crate::window::Window;

/// Invocations of a workgroup that meet in a tree.
const ROW_WORKGROUP: u32 = 256;

pub static FOLD_ROW: Kernel = Kernel {
    name: "fold_row",
    source: include_str!("../../wgsl/kernel/fold_row.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: ROW_WORKGROUP,
    shared: |spec| {
        let value = match spec.row(0).map(|row| row.compute) {
            Ok(Compute::I64 | Compute::F64) => 8,
            _ => 4,
        };
        // A struct with a position is padded to its alignment.
        ROW_WORKGROUP * if is_arg(spec.op) { value * 2 } else { value }
    },
    features: wgpu::Features::empty(),
    slots,
};

pub static FOLD_COLUMN: Kernel = Kernel {
    name: "fold_column",
    source: include_str!("../../wgsl/kernel/fold_column.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

pub static FOLD_WINNER: Kernel = Kernel {
    name: "fold_winner",
    source: include_str!("../../wgsl/kernel/fold_winner.wgsl"),
    bindings: &[read("x"), read("won"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

fn is_arg(op: &str) -> bool {
    matches!(op, "argmin" | "argmax")
}

/// The accumulator: a value, or a value and its position.
fn slots(spec: &Spec, text: &mut Text) -> Result<()> {
    text.ops(spec.row(0)?.compute);
    let takes = match spec.op {
        "min" | "argmin" => "fold_min_takes",
        _ => "fold_max_takes",
    };
    text.line(match spec.op {
        "sum" => "alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return fold_sum(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a; }"
            .to_string(),
        "min" | "max" => format!(
            "alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc {{ return v; }}
fn acc_join(a: Acc, b: Acc) -> Acc {{ return select(a, b, {takes}(a, b)); }}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(a, v, first && fold_poison(v)); }}"
        ),
        // Of equal values the first in the row wins.
        _ => format!(
            "struct Acc {{ v: XV, r: u32 }}
fn acc_of(v: XV, r: u32) -> Acc {{ return Acc(v, r); }}
fn acc_join(a: Acc, b: Acc) -> Acc {{
    if {takes}(a.v, b.v) || (b.r < a.r && !{takes}(b.v, a.v)) {{ return b; }}
    return a;
}}
fn acc_end(a: Acc, first: bool, v: XV) -> YV {{ return select(a.r, 0u, first && fold_poison(v)); }}"
        ),
    });
    Ok(())
}

/// What partial results are stored as: the type in which values are computed.
fn wide(elem: Elem) -> Result<Elem> {
    Ok(elem.row("fold")?.compute.elem())
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for op in OPS.iter().filter(|op| op.family == Family::Fold) {
        for &x in op.elems {
            // One pass; the first of two; the second.
            let mut pairs = vec![(x, op.output(x))];
            if let (Output::Same, Ok(wide)) = (op.output, wide(x)) {
                if wide != x {
                    pairs.extend([(x, wide), (wide, x)]);
                }
            }
            for kernel in [&FOLD_ROW, &FOLD_COLUMN] {
                all.extend(pairs.iter().map(|&(x, y)| {
                    Spec::new(kernel, op.name, &[(x, Access::Words), (y, Access::PutWord)])
                }));
            }
            if op.output == Output::Index {
                let index = (Elem::U32, Access::Words);
                let y = (Elem::U32, Access::PutWord);
                all.push(Spec::new(
                    &FOLD_WINNER,
                    op.name,
                    &[(x, Access::Words), index, y],
                ));
            }
        }
    }
    all
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    n: u32,
    m: u32,
    chunks: u32,
    chunk: u32,
    x_offset: u32,
    rank: u32,
    m_rank: u32,
    /// 1 if other parts of the fold come before this one.
    later: u32,
    dims: [u32; MAX_RANK],
    strides: [u32; MAX_RANK],
    m_dims: [u32; MAX_RANK],
    m_strides: [u32; MAX_RANK],
}

/// How a fold is spread over threads.
struct Plan {
    column: bool,
    chunks: usize,
}

/// Outputs from which a device is busy without splitting the folded dims.
const BUSY_THREADS: usize = 1 << 17;
const BUSY_WORKGROUPS: usize = 512;
/// Outputs from which a thread each is enough for a short fold.
const COLUMN_THREADS: usize = 1 << 14;
/// Elements worth a thread, and worth a workgroup.
const THREAD_WORK: usize = 128;
const WORKGROUP_WORK: usize = 4096;

impl Plan {
    /// `limit`: bytes that partial results may take.
    fn new(params: &Params, words: usize, limit: u64) -> Self {
        let m = params.m as usize;
        let inner = params.rank as usize - 1;
        let m_inner = params.m_rank as usize - 1;
        let neighbours = params.strides[inner] == 1
            && params.dims[inner] >= 16
            && params.m_strides[m_inner] != 1;
        let column = m <= 32 || (m <= 256 && words >= COLUMN_THREADS) || neighbours;
        let chunks = if column {
            (m / THREAD_WORK).min(BUSY_THREADS / words)
        } else {
            (m / WORKGROUP_WORK).min(4 * BUSY_WORKGROUPS / words)
        };
        // A partial result has at most eight bytes.
        let chunks = chunks.min((limit / 8) as usize / params.n as usize);
        let threads = if column { 1 } else { ROW_WORKGROUP as usize };
        Plan {
            column,
            chunks: chunks.max(m.div_ceil(ROUNDS * threads)),
        }
    }
}

impl Device {
    /// Folds `dims` of `x` by a row of OPS in the fold family. The result is contiguous over the other
    /// dims. Only sums take several dims, or none that hold elements.
    pub fn fold(&self, op: &'static str, x: View<'_>, dims: &[usize]) -> Result<Value> {
        let row = Op::find(op, x.elem)?;
        let invalid = |message: String| Error::Invalid { op, message };
        if row.family != Family::Fold {
            return Err(invalid("not a reduction".into()));
        }
        if let Some(d) = dims.iter().find(|&&d| d >= x.dims.len()) {
            return Err(invalid(format!(
                "dim {d} of a tensor with {} dims",
                x.dims.len()
            )));
        }
        if op != "sum" && dims.len() != 1 {
            return Err(invalid(format!("takes one dim, not {}", dims.len())));
        }
        self.fold_into(row, x, dims, row.output(x.elem), false)
    }

    /// `later`: other parts of the fold come before this one, so that its first element is none of the fold.
    fn fold_into(
        &self,
        row: &'static Op,
        x: View<'_>,
        dims: &[usize],
        out: Elem,
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let split = |folded: bool| -> (SmallVec<[usize; 8]>, SmallVec<[usize; 8]>) {
            (0..x.dims.len())
                .filter(|d| dims.contains(d) == folded)
                .map(|d| (x.dims[d], x.strides[d]))
                .unzip()
        };
        let (kept_dims, kept_strides) = split(false);
        let (m_dims, m_strides) = split(true);
        let n: usize = kept_dims.iter().product();
        let m: usize = m_dims.iter().product();
        if n * m == 0 && op != "sum" {
            return Err(Error::Invalid {
                op,
                message: "nothing to fold".into(),
            });
        }
        if n == 0 {
            return self.output(op, 0, out);
        }
        if m == 0 {
            return self.fill(n, out, 0);
        }
        if !self.fits(x) || (n * out.size()) as u64 > self.binding_limit() {
            return self.fold_in_halves(row, x, dims, out, later);
        }
        let (window, x) = self.window(op, x)?;
        let kept = merge(op, &kept_dims, [&kept_strides[..]])?;
        let folded = merge(op, &m_dims, [&m_strides[..]])?;
        let mut params = Params {
            n: to_u32(op, n)?,
            m: to_u32(op, m)?,
            chunks: 1,
            chunk: to_u32(op, m)?,
            x_offset: x.offset as u32,
            rank: kept.rank as u32,
            m_rank: folded.rank as u32,
            later: later.into(),
            dims: kept.dims,
            strides: kept.strides[0],
            m_dims: folded.dims,
            m_strides: folded.strides[0],
        };
        let words = n.div_ceil(out.row(op)?.lanes as usize);
        let plan = Plan::new(&params, words, self.binding_limit());
        if plan.chunks == 1 {
            return self.fold_pass(row, (window, x.elem), out, &params, plan.column);
        }
        params.chunk = to_u32(op, m.div_ceil(plan.chunks))?;
        params.chunks = params.m.div_ceil(params.chunk);
        if row.output == Output::Index {
            let won = self.fold_pass(row, (window, x.elem), Elem::U32, &params, plan.column)?;
            return self.fold_winners(row, (window, x.elem), &won, &params);
        }
        let wide = wide(x.elem)?;
        let partial = self.fold_pass(row, (window, x.elem), wide, &params, plan.column)?;
        let partial = View {
            value: &partial,
            elem: wide,
            dims: &[params.chunks as usize, n],
            strides: &[n, 1],
            offset: 0,
        };
        self.fold_into(row, partial, &[0], out, later)
    }

    /// A fold of what is larger than one binding, or that gives such a value.
    fn fold_in_halves(
        &self,
        row: &'static Op,
        x: View<'_>,
        dims: &[usize],
        out: Elem,
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let mut kept = x.dims.to_vec();
        dims.iter().for_each(|d| kept[*d] = 1);
        let n = kept.iter().product();
        let y = self.output(op, n, out)?;
        let mut y_part = Part::all(&y, out, &kept);
        for &d in dims {
            (y_part.dims[d], y_part.strides[d]) = (x.dims[d], 0);
        }
        let halves = self.halve(op, &[x.into(), y_part], x.dims.len())?;
        if !dims.contains(&halves.dim) {
            for mut parts in halves.parts {
                let piece = self.fold_into(row, parts[0].view(), dims, out, later)?;
                dims.iter().for_each(|d| parts[1].dims[*d] = 1);
                self.paste(&piece, parts[1].view())?;
            }
            return Ok(y);
        }
        let [first, second] = halves.parts.map(|mut parts| parts.swap_remove(0));
        if row.output == Output::Index {
            return self.winner_of(row, [first, second], (halves.dim, halves.mid), later);
        }
        let wide = wide(x.elem)?;
        // Side by side, so that they can be cut, too.
        let both = self.output(op, 2 * n, wide)?;
        let both = Part::all(&both, wide, &[n, 2]);
        for (i, half) in [first, second].iter().enumerate() {
            let piece = self.fold_into(row, half.view(), dims, wide, later || i > 0)?;
            self.paste(&piece, both.clone().narrow(1, i, 1).view())?;
        }
        self.fold_into(row, both.view(), &[1], out, later)
    }

    /// The winners along a dim that was cut: those of the halves, and which of the two wins.
    fn winner_of(
        &self,
        row: &'static Op,
        halves: [Part<'_>; 2],
        (dim, mid): (usize, usize),
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let elem = halves[0].elem;
        let mut kept = halves[0].dims.clone();
        kept[dim] = 1;
        let n = kept.iter().product();
        let values = self.output(op, 2 * n, elem)?;
        let values = Part::all(&values, elem, &[n, 2]);
        let places = self.output(op, 2 * n, Elem::U32)?;
        let places = Part::all(&places, Elem::U32, &[n, 2]);
        for (i, half) in halves.iter().enumerate() {
            let won = self.fold_into(row, half.view(), &[dim], Elem::U32, later || i > 0)?;
            let won = Part::all(&won, Elem::U32, &kept);
            let value = self.gather(half.view(), won.view(), dim)?;
            self.paste(&value, values.clone().narrow(1, i, 1).view())?;
            let place = self.map("affine", won.view(), [1.0, (i * mid) as f64])?;
            self.paste(&place, places.clone().narrow(1, i, 1).view())?;
        }
        let best = self.fold_into(row, values.view(), &[1], Elem::U32, later)?;
        self.gather(
            places.view(),
            Part::all(&best, Elem::U32, &[n, 1]).view(),
            1,
        )
    }

    /// One dispatch: `chunks` results for each output.
    fn fold_pass(
        &self,
        row: &'static Op,
        (x, elem): (Window<'_>, Elem),
        out: Elem,
        params: &Params,
        column: bool,
    ) -> Result<Value> {
        let n = params.n as usize;
        let y = self.output(row.name, n * params.chunks as usize, out)?;
        let items = n.div_ceil(out.row(row.name)?.lanes as usize) * params.chunks as usize;
        let (kernel, grid) = if column {
            (&FOLD_COLUMN, threads(items))
        } else {
            (&FOLD_ROW, Grid::Linear(items as u64))
        };
        let operands = [(elem, Access::Words), (out, Access::PutWord)];
        let spec = Spec::new(kernel, row.name, &operands);
        self.record(spec, &[x, (&y).into()], params, grid)?;
        Ok(y)
    }

    fn fold_winners(
        &self,
        row: &'static Op,
        (x, elem): (Window<'_>, Elem),
        won: &Value,
        params: &Params,
    ) -> Result<Value> {
        let n = params.n as usize;
        let y = self.output(row.name, n, Elem::U32)?;
        let operands = [
            (elem, Access::Words),
            (Elem::U32, Access::Words),
            (Elem::U32, Access::PutWord),
        ];
        let spec = Spec::new(&FOLD_WINNER, row.name, &operands);
        let windows = [x, won.into(), (&y).into()];
        self.record(spec, &windows, params, threads(n))?;
        Ok(y)
    }
}
