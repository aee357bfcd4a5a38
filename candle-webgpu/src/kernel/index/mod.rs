//! index_select and gather. An index out of range gives 0, and [`Error::IndexOutOfRange`] at the next readback or synchronize.

pub mod scatter;

use crate::dtype::{DType, BITS, INTEGERS};
use crate::error::{Error, Result};
use crate::kernel::{quads, reads, RAW};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32, MAX_RANK};
use crate::memory::split::{Dims, Loops, Part};
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub static GATHER: Kernel = Kernel {
    slots: |spec, text| {
        let dtype = spec.info(2).name;
        text.line(format!(
            "fn y_quad_get(q: u32) -> YL {{ return {dtype}_unpack(y[q]); }}"
        ));
        ids_slots(spec, text)
    },
    ..kernel!("index", "gather", GatherParams::LAYOUT; read src, read ids, write y, write fault)
};

pub static GATHER_ROWS: Kernel = Kernel {
    slots: ids_slots,
    ..kernel!("index", "gather_rows", RowsParams::LAYOUT; read src, read ids, write y, write fault)
};

/// Slots of the indices, which are operand 1 of these kernels and of scatter.
pub(crate) fn ids_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.file(wgsl!("lib/index.wgsl"));
    let ids = spec.info(1).name;
    text.line(format!(
        "fn id_get(at: u32) -> vec2<u32> {{ return id_of_{ids}(ids_get(at)); }}"
    ));
    Ok(())
}

/// `rows`: ids select whole rows, of whole quads.
fn spec(rows: bool, dtype: DType, ids: DType) -> Specialization {
    let kernel = if rows { &GATHER_ROWS } else { &GATHER };
    let [src, ids] = [(dtype, reads(rows)), (ids, Access::Words)];
    Specialization::new(kernel, "", &[src, ids, (dtype, Access::Put), RAW])
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for ids in INTEGERS {
        for dtype in BITS {
            all.extend([true, false].map(|rows| spec(rows, dtype, ids)));
        }
    }
    all
}

params! {
    struct GatherParams {
        n: u32,
        rank: u32,
        src_offset: u32,
        ids_offset: u32,
        size: u32,
        step: u32,
        op: u32,
        first: u32,
        shown: u32,
        pad: [u32; 3],
        dims: [u32; MAX_RANK],
        src_strides: [u32; MAX_RANK],
        ids_strides: [u32; MAX_RANK],
    }
}

params! {
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
        first: u32,
        shown: u32,
    }
}

/// Whether `inner` has the rank of `outer` and is no larger, except along `dim`.
fn fits(inner: &[usize], outer: &[usize], dim: usize) -> bool {
    let mut sizes = inner.iter().zip(outer).enumerate();
    inner.len() == outer.len() && dim < inner.len() && sizes.all(|(d, (i, o))| d == dim || i <= o)
}

/// One-dimensional ids along dim `dim` of `dims`.
fn spread<'a>(ids: View<'a>, dims: &[usize], dim: usize) -> Part<'a> {
    let mut part = Part {
        dims: dims.into(),
        strides: Dims::from_elem(0, dims.len()),
        ..ids.into()
    };
    part.strides[dim] = ids.strides[0];
    part
}

/// The indexed operand in loops over `dims`: it does not move along `dim`.
fn along<'a>(indexed: View<'a>, dims: &[usize], dim: usize) -> Part<'a> {
    let mut part = Part {
        dims: dims.into(),
        ..indexed.into()
    };
    part.strides[dim] = 0;
    if indexed.dims[dim] == 0 {
        // An empty view may have any strides.
        part.strides.fill(0);
    }
    part
}

impl Recorder {
    /// `y[.., i, ..] = src[.., ids[i], ..]`: dim `dim` of `src` indexed by one-dimensional `ids`. Any dtype.
    pub fn index_select(&self, src: View<'_>, ids: View<'_>, dim: usize) -> Result<Value> {
        const OP: &str = "index_select";
        ids.dtype.one_of(&INTEGERS, OP)?;
        if dim >= src.dims.len() || ids.dims.len() != 1 {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(Error::Invalid { op: OP, message });
        }
        let mut dims = Dims::from(src.dims);
        dims[dim] = ids.dims[0];
        self.gather_as(OP, src, spread(ids, &dims, dim).view(), dim)
    }

    /// `y[.., i, ..] = src[.., ids[.., i, ..], ..]`, with the dims of `ids`. Any dtype.
    pub fn gather(&self, src: View<'_>, ids: View<'_>, dim: usize) -> Result<Value> {
        const OP: &str = "gather";
        ids.dtype.one_of(&INTEGERS, OP)?;
        if !fits(ids.dims, src.dims, dim) {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(Error::Invalid { op: OP, message });
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
        let src = src.with_dtype(src.dtype.bits());
        let (size, step) = (src.dims[dim], src.step(dim));
        let along = along(src, ids.dims, dim);
        let (reads, y) = ([along.view(), ids], (src.dtype, ids.dims));
        let loops = Loops::First(ids.dims.len());
        self.in_parts(op, reads, y, loops, |[along, ids], y| {
            let mut src = Part::from(along);
            (src.dims[dim], src.strides[dim]) = (size, step);
            let (ids_range, ids) = self.binding_range(op, ids)?;
            // A table larger than one binding is read in ranges of its rows, one dispatch each.
            for (first, shown) in self.pool.ranges(&src, dim) {
                let range = src.clone().narrow(dim, first, shown);
                let (src_range, range) = self.binding_range(op, range.view())?;
                let ranges = [src_range, ids_range, y, (&self.fault).into()];
                self.gather_range(op, [range, ids], &ranges, dim, (size, first))?;
            }
            Ok(())
        })
    }

    /// One dispatch. `src` holds the indices of `dim` from `first` on, of `size` in all.
    fn gather_range(
        &self,
        op: &'static str,
        [src, ids]: [View<'_>; 2],
        ranges: &[BindingRange<'_>],
        dim: usize,
        (size, first): (usize, usize),
    ) -> Result<()> {
        let n = ids.count();
        let row: usize = ids.dims[dim + 1..].iter().product();
        let outer = merge(op, &ids.dims[..dim], [&src.strides[..dim]])?;
        let inner = View {
            dims: &ids.dims[dim + 1..],
            strides: &src.strides[dim + 1..],
            ..src
        };
        let outer_stride = outer.strides[0][0];
        let aligned = [row, src.offset, src.strides[dim], outer_stride as usize]
            .iter()
            .all(|v| v % 4 == 0);
        let one_row = (0..ids.dims.len()).all(|d| d == dim || ids.strides[d] == 0);
        // The fast path: one row of ids selects contiguous rows of whole quads.
        if one_row && aligned && outer.rank == 1 && inner.is_contiguous() {
            let params = RowsParams {
                n: to_u32(op, n)? / 4,
                row: to_u32(op, row)? / 4,
                count: to_u32(op, ids.dims[dim])?,
                ids_offset: ids.offset as u32,
                ids_step: to_u32(op, ids.step(dim))?,
                src_offset: src.offset as u32 / 4,
                src_outer: outer_stride / 4,
                src_step: to_u32(op, src.strides[dim])? / 4,
                size: to_u32(op, size)?,
                op: self.note_fault(op),
                first: first as u32,
                shown: src.dims[dim] as u32,
            };
            return self.record(spec(true, src.dtype, ids.dtype), ranges, &params, quads(n));
        }
        let mut strides = Dims::from(src.strides);
        strides[dim] = 0;
        let merged = merge(op, ids.dims, [&strides, ids.strides])?;
        let params = GatherParams {
            n: to_u32(op, n)?,
            rank: merged.rank as u32,
            src_offset: src.offset as u32,
            ids_offset: ids.offset as u32,
            size: to_u32(op, size)?,
            step: to_u32(op, src.strides[dim])?,
            op: self.note_fault(op),
            first: first as u32,
            shown: src.dims[dim] as u32,
            pad: [0; 3],
            dims: merged.dims,
            src_strides: merged.strides[0],
            ids_strides: merged.strides[1],
        };
        self.record(spec(false, src.dtype, ids.dtype), ranges, &params, quads(n))
    }
}
