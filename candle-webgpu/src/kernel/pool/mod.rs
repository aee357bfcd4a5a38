//! avg_pool2d and max_pool2d.

pub mod upsample;

use crate::dtype::{DType, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::conv::image::{count, Image};
use crate::kernel::elementwise::unary::scalar;
use crate::kernel::threads;
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub static POOL: Kernel = Kernel {
    slots,
    ..kernel!("pool", "pool", Params::LAYOUT; read x, write y)
};

const AVG: &str = "avg_pool2d";
const MAX: &str = "max_pool2d";

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let compute = spec.info(0).compute;
    text.ops(compute);
    if spec.op == MAX {
        // A NaN wins only as the first element of its window, as on the CPU.
        text.line("fn join(a: XV, b: XV) -> XV { return bmaximum(a, b); }");
        text.line("fn finish(a: XV) -> XV { return a; }");
        return Ok(());
    }
    let scale = compute.of_words("p.scale");
    text.line("fn join(a: XV, b: XV) -> XV { return badd(a, b); }");
    text.line(format!(
        "fn finish(a: XV) -> XV {{ return bmul(a, {scale}); }}"
    ));
    Ok(())
}

fn spec(op: &'static str, dtype: DType) -> Specialization {
    let operands = [(dtype, Access::Words), (dtype, Access::PutWord)];
    Specialization::new(&POOL, op, &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let of = |op| NUMBERS.map(|e| spec(op, e));
    [of(AVG), of(MAX)].concat()
}

params! {
    struct Params {
        n: u32,
        channels: u32,
        x_offset: u32,
        pad: u32,
        out: [u32; 2],
        taps: [u32; 2],
        stride: [u32; 2],
        scale: [u32; 2],
        x_strides: [u32; 4],
    }
}

impl Recorder {
    /// Means of the windows of `x` (b, c, h, w). `taps` is the window's (height, width).
    pub fn avg_pool2d(&self, x: View<'_>, taps: [usize; 2], stride: [usize; 2]) -> Result<Value> {
        self.pool(AVG, x, taps, stride)
    }

    /// Maxima of the windows of `x` (b, c, h, w). `taps` is the window's (height, width).
    pub fn max_pool2d(&self, x: View<'_>, taps: [usize; 2], stride: [usize; 2]) -> Result<Value> {
        self.pool(MAX, x, taps, stride)
    }

    fn pool(
        &self,
        op: &'static str,
        x: View<'_>,
        taps: [usize; 2],
        stride: [usize; 2],
    ) -> Result<Value> {
        x.dtype.one_of(&NUMBERS, op)?;
        let image = Image::new(op, x)?;
        let [b, c, h, w] = image.dims;
        let fits = |size: usize, taps: usize, stride: usize| {
            let room = size.checked_sub(taps).filter(|_| taps > 0)?;
            Some(room.checked_div(stride)? + 1)
        };
        let (Some(out_h), Some(out_w)) = (fits(h, taps[0], stride[0]), fits(w, taps[1], stride[1]))
        else {
            let message = format!("a window {taps:?} by steps of {stride:?} over {:?}", x.dims);
            return Err(Error::Invalid { op, message });
        };
        // Along a dim with one position, any stride is valid.
        let step = |out: usize, stride: usize| if out == 1 { 0 } else { stride };
        // The rows of x that each row of the result reads; they overlap.
        let [s_b, s_c, s_h, s_w] = image.strides;
        let rows = View {
            dims: &[b, c, out_h, taps[0], w],
            strides: &[s_b, s_c, step(out_h, stride[0]) * s_h, s_h, s_w],
            ..x
        };
        let out = (x.dtype, &[b, c, out_h, out_w][..]);
        self.in_bound_parts(op, [rows], out, Loops::First(3), |[rows], ranges| {
            let [b, c, out_h] = [0, 1, 2].map(|d| rows.dims[d]);
            let n = count(op, [b, c, out_h, out_w])?;
            let image = Image {
                dims: [b, c, (out_h - 1) * stride[0] + taps[0], w],
                offset: rows.offset,
                ..image
            };
            let (x_offset, x_strides) = image.steps(op)?;
            let params = Params {
                n: n as u32,
                channels: c as u32,
                x_offset,
                pad: 0,
                out: [out_h as u32, out_w as u32],
                taps: taps.map(|v| v as u32),
                stride: [step(out_h, stride[0]) as u32, step(out_w, stride[1]) as u32],
                // Rounded to the dtype as on the CPU: 0 for integers, unless the window has one element.
                scale: scalar(x.dtype, 1.0 / (taps[0] as f64 * taps[1] as f64)),
                x_strides,
            };
            let words = n.div_ceil(x.dtype.info().lanes as usize);
            self.record(spec(op, x.dtype), ranges, &params, threads(words))
        })
    }
}
