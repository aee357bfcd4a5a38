//! Filling, and copies into existing memory.

use crate::buffer::Value;
use crate::cut::Part;
use crate::device::Device;
use crate::elem::{Compute, Elem};
use crate::error::{Error, Result};
use crate::kernel::{quads, threads, Strided, WORKGROUP};
use crate::layout::{merge, to_u32, Merged, View};
use crate::link::{read, write, Access, Kernel, Spec, Text};

pub static FILL: Kernel = Kernel {
    name: "fill",
    source: include_str!("../../wgsl/kernel/fill.wgsl"),
    bindings: &[write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        let value = match spec.row(0)?.compute {
            Compute::I64 => "p.value",
            _ => "p.value.x",
        };
        text.line(format!("fn value() -> YV {{ return {value}; }}"));
        Ok(())
    },
};

pub static COPY_QUADS: Kernel = Kernel {
    name: "copy_quads",
    source: include_str!("../../wgsl/kernel/copy_quads.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: both_at,
};

pub static COPY_ELEMS: Kernel = Kernel {
    name: "copy_elems",
    source: include_str!("../../wgsl/kernel/copy_elems.wgsl"),
    bindings: &[read("x"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        text.ops(spec.row(0)?.compute); // `y_add`, which every Set operand has, adds with it
        both_at(spec, text)
    },
};

fn both_at(_: &Spec, text: &mut Text) -> Result<()> {
    text.strided_at("x");
    text.strided_at("y");
    Ok(())
}

const BITS: [Elem; 4] = [Elem::U8, Elem::U16, Elem::U32, Elem::I64];

pub fn catalogue() -> Vec<Spec> {
    let each = |e| {
        [
            Spec::new(&FILL, "", &[(e, Access::Put)]),
            Spec::new(&COPY_QUADS, "", &[(e, Access::Quads), (e, Access::Quads)]),
            Spec::new(&COPY_ELEMS, "", &[(e, Access::Words), (e, Access::Set)]),
        ]
    };
    BITS.into_iter().flat_map(each).collect()
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct FillParams {
    n: u32,
    pad: u32,
    value: [u32; 2],
}

const OP: &str = "copy";

/// Strides, dims and offsets of a copy, in elements of the widest type that both sides can be moved in.
struct Wide {
    elem: Elem,
    n: usize,
    merged: Merged<2>,
    offsets: [usize; 2],
}

impl Wide {
    fn new(x: View<'_>, y: View<'_>) -> Result<Self> {
        let mut wide = Wide {
            elem: x.elem.bits(),
            n: x.count(),
            merged: merge(OP, x.dims, [x.strides, y.strides])?,
            offsets: [x.offset, y.offset],
        };
        while wide.elem.size() < 4 && wide.rows_of(2) {
            wide.double();
        }
        Ok(wide)
    }

    /// Both sides are made of contiguous runs of `k` elements.
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
        self.elem = match self.elem.size() {
            1 => Elem::U16,
            _ => Elem::U32,
        };
        self.n /= 2;
        self.merged.dims[inner] /= 2;
        for s in &mut self.merged.strides {
            s[..inner].iter_mut().for_each(|s| *s /= 2);
        }
        self.offsets = self.offsets.map(|o| o / 2);
    }
}

impl Device {
    /// A value of `count` elements that all have the bits `bits`.
    pub fn fill(&self, count: usize, elem: Elem, bits: u64) -> Result<Value> {
        let y = self.output("fill", count, elem)?;
        self.fill_in(&y, count, elem, bits)?;
        Ok(y)
    }

    /// Overwrites the first `count` elements of a value; they have to be all of it.
    pub fn fill_in(&self, y: &Value, count: usize, elem: Elem, bits: u64) -> Result<()> {
        const OP: &str = "fill";
        let elem = elem.bits();
        self.each(OP, &[Part::all(y, elem, &[count])], 1, &mut |parts| {
            let line = parts[0].view();
            let params = FillParams {
                n: to_u32(OP, line.count())?,
                pad: 0,
                value: [bits as u32, (bits >> 32) as u32],
            };
            let spec = Spec::new(&FILL, "", &[(elem, Access::Put)]);
            self.write(OP, line, |window| {
                self.record(spec, &[window], &params, quads(line.count()))
            })
        })
    }

    /// `y = x` where both are views of the same dims and element size, and y's elements are distinct.
    pub fn copy_into(&self, x: View<'_>, y: View<'_>) -> Result<()> {
        if x.dims != y.dims || x.elem.size() != y.elem.size() {
            return Err(Error::Invalid {
                op: OP,
                message: format!(
                    "{:?} {} does not fit {:?} {}",
                    x.dims, x.elem, y.dims, y.elem
                ),
            });
        }
        if x.count() == 0 {
            return Ok(());
        }
        if self.fits(x) && self.fits(y) {
            return self.copy_piece(x, y);
        }
        self.each(OP, &[x.into(), y.into()], x.dims.len(), &mut |parts| {
            self.copy_piece(parts[0].view(), parts[1].view())
        })
    }

    fn copy_piece(&self, x: View<'_>, y: View<'_>) -> Result<()> {
        let (x_window, x) = self.window(OP, x)?;
        let (y_window, y) = self.window(OP, y)?;
        let wide = Wide::new(x, y)?;
        let e = wide.elem;
        let [x0, y0] = wide.offsets.map(|o| o as u32);
        let params = Strided::new(to_u32(OP, wide.n)?, &wide.merged, [x0, y0, 0, 0]);
        let (spec, grid) = if wide.rows_of(4) {
            let operands = [(e, Access::Quads), (e, Access::Quads)];
            (Spec::new(&COPY_QUADS, "", &operands), quads(wide.n))
        } else {
            let operands = [(e, Access::Words), (e, Access::Set)];
            (Spec::new(&COPY_ELEMS, "", &operands), threads(wide.n))
        };
        self.record(spec, &[x_window, y_window], &params, grid)
    }
}
