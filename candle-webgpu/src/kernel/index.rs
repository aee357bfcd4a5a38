//! index: gathering and scattering by ids that are tensors. An id out of range touches nothing and comes
//! back as [`Error::IndexOutOfRange`] at the next readback or synchronize.

use crate::buffer::Value;
use crate::device::Device;
use crate::elem::Elem;
use crate::error::{Error, Result};
use crate::kernel::{quads, threads, WORKGROUP};
use crate::layout::{merge, to_u32, Merged, View, MAX_RANK};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::op::{Op, OPS};

pub static GATHER: Kernel = Kernel {
    name: "gather",
    source: include_str!("../../wgsl/kernel/gather.wgsl"),
    bindings: &[read("src"), read("ids"), write("y"), write("fault")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: ids_slots,
};

pub static GATHER_ROWS: Kernel = Kernel {
    name: "gather_rows",
    source: include_str!("../../wgsl/kernel/gather_rows.wgsl"),
    bindings: &[read("src"), read("ids"), write("y"), write("fault")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: ids_slots,
};

pub static SCATTER: Kernel = Kernel {
    name: "scatter",
    source: include_str!("../../wgsl/kernel/scatter.wgsl"),
    bindings: &[write("dst"), read("ids"), read("src"), write("fault")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        // Every `Set` operand has a `dst_add`, which adds with the dtype's `badd`.
        text.ops(spec.row(0)?.compute);
        let put = if spec.op == ADD { "dst_add" } else { "dst_set" };
        text.line(format!("fn put(at: u32, v: SRCV) {{ {put}(at, v); }}"));
        ids_slots(spec, text)
    },
};

/// Ops of the scatter kernel.
const SET: &str = "set";
const ADD: &str = "add";

/// Dtypes of ids.
const IDS: [Elem; 5] = [Elem::U8, Elem::U32, Elem::I16, Elem::I32, Elem::I64];
/// Dtypes that moves are reduced to.
const BITS: [Elem; 4] = [Elem::U8, Elem::U16, Elem::U32, Elem::I64];

/// In all three kernels ids are the second operand.
fn ids_slots(spec: &Spec, text: &mut Text) -> Result<()> {
    text.file(include_str!("../../wgsl/lib/ids.wgsl"));
    let ids = spec.row(1)?.name;
    text.line(format!(
        "fn id_get(at: u32) -> vec2<u32> {{ return id_of_{ids}(ids_get(at)); }}"
    ));
    Ok(())
}

const FAULT: (Elem, Access) = (Elem::U32, Access::Raw);

fn gather_spec(elem: Elem, ids: Elem) -> Spec {
    let [src, ids] = [(elem, Access::Words), (ids, Access::Words)];
    Spec::new(&GATHER, "", &[src, ids, (elem, Access::Put), FAULT])
}

fn rows_spec(elem: Elem, ids: Elem) -> Spec {
    let [src, ids] = [(elem, Access::Quads), (ids, Access::Words)];
    Spec::new(&GATHER_ROWS, "", &[src, ids, (elem, Access::Put), FAULT])
}

fn scatter_spec(op: &'static str, elem: Elem, ids: Elem) -> Spec {
    let [src, ids] = [(elem, Access::Words), (ids, Access::Words)];
    Spec::new(&SCATTER, op, &[(elem, Access::Set), ids, src, FAULT])
}

/// Dtypes that add.
fn addable() -> &'static [Elem] {
    OPS.iter()
        .find(|op| op.name == "badd")
        .map_or(&[], |op| op.elems)
}

pub fn catalogue() -> Vec<Spec> {
    let mut all = Vec::new();
    for ids in IDS {
        for elem in BITS {
            all.push(gather_spec(elem, ids));
            all.push(rows_spec(elem, ids));
            all.push(scatter_spec(SET, elem, ids));
        }
        all.extend(addable().iter().map(|&e| scatter_spec(ADD, e, ids)));
    }
    all
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct GatherParams {
    n: u32,
    rank: u32,
    src_offset: u32,
    ids_offset: u32,
    size: u32,
    step: u32,
    op: u32,
    pad: u32,
    dims: [u32; MAX_RANK],
    strides: [[u32; MAX_RANK]; 2],
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct RowsParams {
    n: u32,
    row: u32,
    count: u32,
    ids_offset: u32,
    ids_step: u32,
    src_offset: u32,
    src_outer: u32,
    src_step: u32,
    size: u32,
    op: u32,
    pad: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct ScatterParams {
    n: u32,
    rank: u32,
    length: u32,
    size: u32,
    dst_offset: u32,
    ids_offset: u32,
    src_offset: u32,
    dst_step: u32,
    ids_step: u32,
    src_step: u32,
    op: u32,
    pad: u32,
    dims: [u32; MAX_RANK],
    strides: [[u32; MAX_RANK]; 3],
}

fn invalid(op: &'static str, message: String) -> Error {
    Error::Invalid { op, message }
}

fn check_ids(op: &'static str, ids: View<'_>) -> Result<()> {
    if IDS.contains(&ids.elem) {
        Ok(())
    } else {
        Err(Error::Unsupported { op, elem: ids.elem })
    }
}

/// Dims with `dim` last, where no operand merges with it: `(dims, strides)` of the others.
fn others<const N: usize>(
    op: &'static str,
    dims: &[usize],
    strides: [&[usize]; N],
    dim: usize,
) -> Result<Merged<N>> {
    let without = |s: &[usize]| -> Vec<usize> {
        let kept = s.iter().enumerate().filter(|(d, _)| *d != dim);
        kept.map(|(_, &v)| v).collect()
    };
    let kept = strides.map(without);
    merge(op, &without(dims), std::array::from_fn(|k| &kept[k][..]))
}

impl Device {
    /// `y[.., i, ..] = src[.., ids[i], ..]`: dim `dim` of `src` indexed by a row of ids. Moves bits.
    pub fn index_select(&self, src: View<'_>, ids: View<'_>, dim: usize) -> Result<Value> {
        const OP: &str = "index_select";
        check_ids(OP, ids)?;
        if dim >= src.dims.len() || ids.dims.len() != 1 {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(invalid(OP, message));
        }
        if let Some(y) = self.select_rows(OP, src, ids, dim)? {
            return Ok(y);
        }
        let mut dims = src.dims.to_vec();
        dims[dim] = ids.dims[0];
        let mut ids_strides = vec![0; dims.len()];
        ids_strides[dim] = ids.strides[0];
        let ids = View {
            dims: &dims,
            strides: &ids_strides,
            ..ids
        };
        self.gather_as(OP, src, ids, dim)
    }

    /// The quick path: whole quads of contiguous rows.
    fn select_rows(
        &self,
        op: &'static str,
        src: View<'_>,
        ids: View<'_>,
        dim: usize,
    ) -> Result<Option<Value>> {
        let row: usize = src.dims[dim + 1..].iter().product();
        let outer = merge(op, &src.dims[..dim], [&src.strides[..dim]])?;
        let inner = View {
            dims: &src.dims[dim + 1..],
            strides: &src.strides[dim + 1..],
            ..src
        };
        let outer_stride = outer.strides[0][0] as usize;
        let aligned = [row, src.offset, src.strides[dim], outer_stride]
            .iter()
            .all(|v| v % 4 == 0);
        if row == 0 || outer.rank > 1 || !inner.is_contiguous() || !aligned {
            return Ok(None);
        }
        let elem = src.elem.bits();
        let count = ids.dims[0];
        let n = outer.dims[0] as usize * count * row;
        let y = self.output(op, n, elem)?;
        if n == 0 {
            return Ok(Some(y));
        }
        let params = RowsParams {
            n: to_u32(op, n)? / 4,
            row: to_u32(op, row)? / 4,
            count: to_u32(op, count)?,
            ids_offset: to_u32(op, ids.offset)?,
            ids_step: to_u32(op, ids.strides[0])?,
            src_offset: to_u32(op, src.offset)? / 4,
            src_outer: outer.strides[0][0] / 4,
            src_step: to_u32(op, src.strides[dim])? / 4,
            size: to_u32(op, src.dims[dim])?,
            op: self.note_fault(op),
            pad: [0; 2],
        };
        self.record(
            rows_spec(elem, ids.elem),
            &[src.value, ids.value, &y, self.fault()],
            &params,
            quads(n),
        )?;
        Ok(Some(y))
    }

    /// `y[.., i, ..] = src[.., ids[.., i, ..], ..]`, with the dims of `ids`. Moves bits.
    pub fn gather(&self, src: View<'_>, ids: View<'_>, dim: usize) -> Result<Value> {
        const OP: &str = "gather";
        check_ids(OP, ids)?;
        let fits = src.dims.len() == ids.dims.len()
            && dim < ids.dims.len()
            && (0..ids.dims.len()).all(|d| d == dim || ids.dims[d] <= src.dims[d]);
        if !fits {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(invalid(OP, message));
        }
        self.gather_as(OP, src, ids, dim)
    }

    fn gather_as(
        &self,
        op: &'static str,
        src: View<'_>,
        ids: View<'_>,
        dim: usize,
    ) -> Result<Value> {
        let elem = src.elem.bits();
        let n = ids.count();
        let y = self.output(op, n, elem)?;
        if n == 0 {
            return Ok(y);
        }
        let mut src_strides = src.strides.to_vec();
        src_strides[dim] = 0;
        let merged = merge(op, ids.dims, [&src_strides[..], ids.strides])?;
        let params = GatherParams {
            n: to_u32(op, n)?,
            rank: merged.rank as u32,
            src_offset: to_u32(op, src.offset)?,
            ids_offset: to_u32(op, ids.offset)?,
            size: to_u32(op, src.dims[dim])?,
            step: to_u32(op, src.strides[dim])?,
            op: self.note_fault(op),
            pad: 0,
            dims: merged.dims,
            strides: merged.strides,
        };
        self.record(
            gather_spec(elem, ids.elem),
            &[src.value, ids.value, &y, self.fault()],
            &params,
            quads(n),
        )?;
        Ok(y)
    }

    /// `dst[.., ids[.., i, ..], ..] = src[.., i, ..]` in place, for i in order. `src` has the dims of `ids`.
    pub fn scatter_set(
        &self,
        dst: View<'_>,
        ids: View<'_>,
        src: View<'_>,
        dim: usize,
    ) -> Result<()> {
        self.scatter("scatter_set", SET, [dst, ids, src], dim)
    }

    /// `dst[.., ids[.., i, ..], ..] += src[.., i, ..]` in place, for i in order.
    pub fn scatter_add(
        &self,
        dst: View<'_>,
        ids: View<'_>,
        src: View<'_>,
        dim: usize,
    ) -> Result<()> {
        Op::find("badd", dst.elem)?;
        self.scatter("scatter_add", ADD, [dst, ids, src], dim)
    }

    /// A contiguous copy of `dst` with `y[.., ids[i], ..] += src[.., i, ..]`, for i in order.
    pub fn index_add(
        &self,
        dst: View<'_>,
        ids: View<'_>,
        src: View<'_>,
        dim: usize,
    ) -> Result<Value> {
        const OP: &str = "index_add";
        Op::find("badd", dst.elem)?;
        if dim >= src.dims.len() || ids.dims != [src.dims[dim]] {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(invalid(OP, message));
        }
        let y = self.contiguous(dst)?;
        let strides = contiguous_strides(dst.dims);
        let sum = View {
            value: &y,
            strides: &strides,
            offset: 0,
            ..dst
        };
        let mut ids_strides = vec![0; src.dims.len()];
        ids_strides[dim] = ids.strides[0];
        let ids = View {
            dims: src.dims,
            strides: &ids_strides,
            ..ids
        };
        self.scatter(OP, ADD, [sum, ids, src], dim)?;
        Ok(y)
    }

    fn scatter(
        &self,
        op: &'static str,
        how: &'static str,
        [dst, ids, src]: [View<'_>; 3],
        dim: usize,
    ) -> Result<()> {
        check_ids(op, ids)?;
        let fits = dst.dims.len() == src.dims.len()
            && ids.dims == src.dims
            && dim < src.dims.len()
            && dst.elem == src.elem
            && (0..src.dims.len()).all(|d| d == dim || src.dims[d] <= dst.dims[d]);
        if !fits {
            let message = format!(
                "{:?} {} by ids {:?} on dim {dim} of {:?} {}",
                src.dims, src.elem, ids.dims, dst.dims, dst.elem
            );
            return Err(invalid(op, message));
        }
        // What only moves is bits.
        let [dst, src] = match how {
            SET => [dst, src].map(|v| v.with_elem(v.elem.bits())),
            _ => [dst, src],
        };
        let length = src.dims[dim];
        if src.count() == 0 {
            return Ok(());
        }
        // A buffer cannot be read and written in one dispatch.
        for (view, ids_alias) in [(src, false), (ids, true)] {
            if view.value.same(dst.value) {
                let copy = self.contiguous(view)?;
                let strides = contiguous_strides(view.dims);
                let view = View {
                    value: &copy,
                    strides: &strides,
                    offset: 0,
                    ..view
                };
                let views = if ids_alias {
                    [dst, view, src]
                } else {
                    [dst, ids, view]
                };
                return self.scatter(op, how, views, dim);
            }
        }
        let n = src.count() / length;
        let merged = others(op, src.dims, [dst.strides, ids.strides, src.strides], dim)?;
        let params = ScatterParams {
            n: to_u32(op, n)?,
            rank: merged.rank as u32,
            length: to_u32(op, length)?,
            size: to_u32(op, dst.dims[dim])?,
            dst_offset: to_u32(op, dst.offset)?,
            ids_offset: to_u32(op, ids.offset)?,
            src_offset: to_u32(op, src.offset)?,
            dst_step: to_u32(op, dst.strides[dim])?,
            ids_step: to_u32(op, ids.strides[dim])?,
            src_step: to_u32(op, src.strides[dim])?,
            op: self.note_fault(op),
            pad: 0,
            dims: merged.dims,
            strides: merged.strides,
        };
        self.record(
            scatter_spec(how, dst.elem, ids.elem),
            &[dst.value, ids.value, src.value, self.fault()],
            &params,
            threads(n),
        )
    }
}

/// Strides of a contiguous layout.
fn contiguous_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    strides
}
