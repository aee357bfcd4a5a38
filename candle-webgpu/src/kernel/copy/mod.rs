//! Fills, and copies into existing memory.

pub(crate) mod concat;
pub(crate) mod transpose;

use crate::dtype::{Compute, DType, BITS};
use crate::error::{Error, Result};
use crate::kernel::{quads, strided_layout, threads, words, Strided};
use crate::memory::buffer::Value;
use crate::memory::growable::Prefix;
use crate::memory::merge::{merge, to_u32, Merged};
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::copy_run::CopyRun;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op};
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub static FILL: Kernel = Kernel {
    slots: |spec, text| {
        let value = match spec.info(0).compute {
            Compute::I64 => "p.value",
            _ => "p.value.x",
        };
        text.line(format!("fn value() -> YV {{ return {value}; }}"));
        Ok(())
    },
    ..kernel!("copy", "fill", FillParams::LAYOUT; write y)
};

pub static COPY_QUADS: Kernel = Kernel {
    slots: both_at,
    ..kernel!("copy", "copy_quads", strided_layout!("x": 0, "y": 1); read x, write y)
};

pub static COPY_ELEMS: Kernel = Kernel {
    slots: |spec, text| {
        text.ops(spec.info(0).compute); // the unused `y_add` of a `Set` operand calls its `badd`
        both_at(spec, text)
    },
    ..kernel!("copy", "copy_elems", strided_layout!("x": 0, "y": 1); read x, write y)
};

fn both_at(_: &Specialization, text: &mut Text) -> Result<()> {
    text.strided_at("x");
    text.strided_at("y");
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let each = |e| [fill_spec(e), copy_spec(e, true), copy_spec(e, false)];
    BITS.into_iter().flat_map(each).collect()
}

fn fill_spec(dtype: DType) -> Specialization {
    Specialization::new(&FILL, "", &[(dtype, Access::Put)])
}

fn copy_spec(dtype: DType, quads: bool) -> Specialization {
    let (kernel, read, write) = match quads {
        true => (&COPY_QUADS, Access::Quads, Access::Quads),
        false => (&COPY_ELEMS, Access::Words, Access::Set),
    };
    Specialization::new(kernel, "", &[(dtype, read), (dtype, write)])
}

params! {
    pub(crate) struct FillParams {
        n: u32,
        pad: u32,
        value: [u32; 2],
    }
}

/// The dispatch that zeroes `bytes` bytes, rounded up to whole words.
pub(crate) fn zeros(bytes: u64) -> (Specialization, FillParams, Grid) {
    let params = FillParams {
        n: bytes.div_ceil(4) as u32,
        pad: 0,
        value: [0; 2],
    };
    (fill_spec(DType::U32), params, quads(params.n as usize))
}

/// Whether an op writes zeros, whatever the dtype.
pub(crate) fn is_zeros(op: &Op) -> bool {
    op.is_of(&FILL) && op.params::<FillParams>().value == [0; 2]
}

const OP: &str = "copy";

/// The dispatch of a run of copies.
pub(crate) fn dispatch(run: &CopyRun) -> Result<(Specialization, Strided<2>, Grid)> {
    let wide = Wide::new(run)?;
    let [x0, y0] = wide.offsets.map(|o| o as u32);
    let params = Strided::new(to_u32(OP, wide.n)?, &wide.merged, [x0, y0, 0, 0]);
    let whole = wide.rows_of(4);
    let grid = if whole { quads } else { threads }(wide.n);
    Ok((copy_spec(wide.dtype, whole), params, grid))
}

/// The op that copies the contents of a value from the growable one that has them.
pub(crate) fn prefix(gpu: &Gpu, value: &Value, from: &Prefix) -> Result<Box<Op>> {
    let rows = from.of.rows;
    let (matrices, row) = (rows.matrices as usize, rows.row_bytes as usize / 4);
    let run = row * from.rows as usize;
    let (source, dims) = (from.of.bound(), [matrices, run]);
    let strides = [[row * from.of.capacity as usize, 1], [run, 1]];
    let x = View::new(OP, &source, DType::U32, (&dims, &strides[0], 0))?;
    let y = View::new(OP, value, DType::U32, (&dims, &strides[1], 0))?;
    let (spec, params, grid) = dispatch(&CopyRun::new(x, y))?;
    gpu.op(
        spec,
        [(source.bound(), 0), (value.bound(), 0)],
        &params,
        grid,
    )
}

/// Selects the kernel of a copy to which others were joined. Returns how many were.
pub(crate) fn dispatch_joined(gpu: &Gpu, op: &mut Op) -> Result<u64> {
    let Some(run) = op.run.as_deref().filter(|run| run.is_joined()) else {
        return Ok(0);
    };
    let joined = run.dims[0] as u64 - 1;
    let (spec, params, grid) = dispatch(run)?;
    op.grid = gpu.split(&spec, grid)?;
    op.spec = spec;
    op.set_params(bytemuck::bytes_of(&params));
    Ok(joined)
}

/// A copy in elements of the widest dtype that both sides are aligned to.
struct Wide {
    dtype: DType,
    n: usize,
    merged: Merged<2>,
    offsets: [usize; 2],
}

impl Wide {
    fn new(run: &CopyRun) -> Result<Self> {
        let [x, y] = &run.strides;
        let mut wide = Wide {
            dtype: run.dtype.bits(),
            n: run.dims.iter().product(),
            merged: merge(OP, &run.dims, [x, y])?,
            offsets: run.offsets,
        };
        while wide.dtype.size() < 4 && wide.rows_of(2) {
            wide.double();
        }
        Ok(wide)
    }

    /// Whether both sides consist of contiguous, aligned runs of `k` elements.
    fn rows_of(&self, k: u32) -> bool {
        let inner = self.merged.rank - 1;
        self.merged.dims[inner].is_multiple_of(k)
            && self.offsets.iter().all(|o| o % k as usize == 0)
            && self
                .merged
                .strides
                .iter()
                .all(|s| s[inner] == 1 && s[..inner].iter().all(|s| s % k == 0))
    }

    fn double(&mut self) {
        let inner = self.merged.rank - 1;
        self.dtype = match self.dtype.size() {
            1 => DType::U16,
            _ => DType::U32,
        };
        self.n /= 2;
        self.merged.dims[inner] /= 2;
        for s in &mut self.merged.strides {
            s[..inner].iter_mut().for_each(|s| *s /= 2);
        }
        self.offsets = self.offsets.map(|o| o / 2);
    }
}

impl Recorder {
    /// A value of `count` elements with the bits `bits`.
    pub fn fill(&self, count: usize, dtype: DType, bits: u64) -> Result<Value> {
        let y = self.output("fill", count, dtype)?;
        self.fill_in(&y, count, dtype, bits)?;
        Ok(y)
    }

    /// Overwrites all `count` elements of a value with the bits `bits`.
    pub fn fill_in(&self, y: &Value, count: usize, dtype: DType, bits: u64) -> Result<()> {
        const OP: &str = "fill";
        let dtype = dtype.bits();
        self.each(OP, &[Part::all(y, dtype, &[count])], 1, &mut |parts| {
            let line = parts[0].view();
            let params = FillParams {
                n: to_u32(OP, line.count())?,
                pad: 0,
                value: words(bits),
            };
            self.write(OP, line, |range| {
                self.record(fill_spec(dtype), &[range], &params, quads(line.count()))
            })
        })
    }

    /// `y = x`, in place. Both views have the same dims and element size; the elements of y are distinct.
    pub fn copy_into(&self, x: View<'_>, y: View<'_>) -> Result<()> {
        if x.dims != y.dims || x.dtype.size() != y.dtype.size() {
            let message = format!(
                "{:?} {} does not fit {:?} {}",
                x.dims, x.dtype, y.dims, y.dtype
            );
            return Err(Error::Invalid { op: OP, message });
        }
        if x.count() == 0 {
            return Ok(());
        }
        if !self.fits(x) || !self.fits(y) {
            return self.each(OP, &[x.into(), y.into()], x.dims.len(), &mut |parts| {
                self.copy_into(parts[0].view(), parts[1].view())
            });
        }
        let (x_window, x) = self.binding_range(OP, x)?;
        let (y_window, y) = self.binding_range(OP, y)?;
        self.record_copy(CopyRun::new(x, y), &[x_window, y_window], dispatch)
    }
}
