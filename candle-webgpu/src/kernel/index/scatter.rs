//! scatter_set, scatter_add and index_add. An index out of range writes nothing and gives [`crate::Error::IndexOutOfRange`] at the next
//! readback or synchronize.

use crate::dtype::{DType, BITS, INTEGERS, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::index::{along, fits, ids_slots, spread};
use crate::kernel::{threads, RAW, ROUNDS};
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32, MAX_RANK};
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization};

pub static SCATTER: Kernel = Kernel {
    slots: |spec, text| {
        // `dst_add` of a `Set` operand calls the dtype's `badd`.
        text.ops(spec.info(0).compute);
        let put = if spec.op == ADD { "dst_add" } else { "dst_set" };
        text.line(format!("fn put(at: u32, v: SRCV) {{ {put}(at, v); }}"));
        ids_slots(spec, text)
    },
    ..kernel!("index", "scatter", ScatterParams::LAYOUT; write dst, read ids, read src, write fault)
};

/// Ops of the scatter kernel.
const SET: &str = "set";
const ADD: &str = "add";

fn scatter_spec(op: &'static str, dtype: DType, ids: DType) -> Specialization {
    let [src, ids] = [(dtype, Access::Words), (ids, Access::Words)];
    Specialization::new(&SCATTER, op, &[(dtype, Access::Set), ids, src, RAW])
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for ids in INTEGERS {
        all.extend(BITS.iter().map(|&e| scatter_spec(SET, e, ids)));
        all.extend(NUMBERS.iter().map(|&e| scatter_spec(ADD, e, ids)));
    }
    all
}

params! {
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
        first: u32,
        shown: u32,
        pad: [u32; 3],
        dims: [u32; MAX_RANK],
        dst_strides: [u32; MAX_RANK],
        ids_strides: [u32; MAX_RANK],
        src_strides: [u32; MAX_RANK],
    }
}

impl Recorder {
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
        dst.dtype.one_of(&NUMBERS, "scatter_add")?;
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
        dst.dtype.one_of(&NUMBERS, OP)?;
        if dim >= src.dims.len() || ids.dims != [src.dims[dim]] {
            let message = format!("ids {:?} on dim {dim} of {:?}", ids.dims, src.dims);
            return Err(Error::Invalid { op: OP, message });
        }
        let y = self.contiguous(dst)?;
        let sum = Part::all(&y, dst.dtype, dst.dims);
        let ids = spread(ids, src.dims, dim);
        self.scatter(OP, ADD, [sum.view(), ids.view(), src], dim)?;
        Ok(y)
    }

    fn scatter(
        &self,
        op: &'static str,
        how: &'static str,
        [dst, ids, src]: [View<'_>; 3],
        dim: usize,
    ) -> Result<()> {
        ids.dtype.one_of(&INTEGERS, op)?;
        if !fits(src.dims, dst.dims, dim) || ids.dims != src.dims || dst.dtype != src.dtype {
            let message = format!(
                "{:?} {} by ids {:?} on dim {dim} of {:?} {}",
                src.dims, src.dtype, ids.dims, dst.dims, dst.dtype
            );
            return Err(Error::Invalid { op, message });
        }
        // Setting moves bits.
        let [dst, src] = match how {
            SET => [dst, src].map(|v| v.with_dtype(v.dtype.bits())),
            _ => [dst, src],
        };
        if src.count() == 0 {
            return Ok(());
        }
        // A dispatch cannot read and write one buffer: copy operands that share dst's.
        for at in [2, 1] {
            let mut views = [dst, ids, src];
            let view = views[at];
            if view.value.same(dst.value) {
                let copy = self.contiguous(view)?;
                let copy = Part::all(&copy, view.dtype, view.dims);
                views[at] = copy.view();
                return self.scatter(op, how, views, dim);
            }
        }
        let (size, step) = (dst.dims[dim], dst.step(dim));
        let parts = [along(dst, src.dims, dim), ids.into(), src.into()];
        self.each(op, &parts, src.dims.len(), &mut |parts| {
            let mut dst = parts[0].clone();
            (dst.dims[dim], dst.strides[dim]) = (size, step);
            // A dst larger than one binding is written in ranges of the dim, one dispatch each.
            for (first, shown) in self.pool.ranges(&dst, dim) {
                let range = dst.clone().narrow(dim, first, shown);
                let length = parts[1].dims[dim];
                for from in (0..length).step_by(ROUNDS) {
                    let [ids, src] = [&parts[1], &parts[2]]
                        .map(|part| part.clone().narrow(dim, from, ROUNDS.min(length - from)));
                    let views = [range.view(), ids.view(), src.view()];
                    self.scatter_range(op, how, views, dim, (size, first))?;
                }
            }
            Ok(())
        })
    }

    /// One dispatch. `dst` holds the indices of `dim` from `first` on, of `size` in all.
    fn scatter_range(
        &self,
        op: &'static str,
        how: &'static str,
        [dst, ids, src]: [View<'_>; 3],
        dim: usize,
        (size, first): (usize, usize),
    ) -> Result<()> {
        let (dst_window, dst) = self.binding_range(op, dst)?;
        let (ids_window, ids) = self.binding_range(op, ids)?;
        let (src_window, src) = self.binding_range(op, src)?;
        let length = src.dims[dim];
        let n = src.count() / length;
        let others = [dst, ids, src].map(|v| Part::from(v).without(dim));
        let strides = others.each_ref().map(|v| &v.strides[..]);
        let merged = merge(op, &others[2].dims, strides)?;
        let params = ScatterParams {
            n: to_u32(op, n)?,
            rank: merged.rank as u32,
            length: to_u32(op, length)?,
            size: to_u32(op, size)?,
            dst_offset: dst.offset as u32,
            ids_offset: ids.offset as u32,
            src_offset: src.offset as u32,
            dst_step: to_u32(op, dst.strides[dim])?,
            ids_step: to_u32(op, ids.step(dim))?,
            src_step: to_u32(op, src.step(dim))?,
            op: self.note_fault(op),
            first: first as u32,
            shown: dst.dims[dim] as u32,
            pad: [0; 3],
            dims: merged.dims,
            dst_strides: merged.strides[0],
            ids_strides: merged.strides[1],
            src_strides: merged.strides[2],
        };
        self.record(
            scatter_spec(how, dst.dtype, ids.dtype),
            &[dst_window, ids_window, src_window, (&self.fault).into()],
            &params,
            threads(n),
        )
    }
}
