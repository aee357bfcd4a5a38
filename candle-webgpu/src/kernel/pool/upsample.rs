//! Nearest-neighbour and bilinear upsampling.
//!
//! The host computes the source of each row and column in f64, as Candle's CPU backend does; shaders have no f64.

use crate::dtype::{Compute, DType, BITS, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::conv::image::{count, Image};
use crate::kernel::elementwise::unary::{apply, CAST_OP};
use crate::kernel::{threads, words, RAW};
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::View;
use crate::op::CAST;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub static UPSAMPLE_NEAREST: Kernel =
    kernel!("pool", "upsample_nearest", Params::LAYOUT; read x, read places, write y);

pub static UPSAMPLE_BILINEAR: Kernel = Kernel {
    slots: bilinear_slots,
    ..kernel!("pool", "upsample_bilinear", Params::LAYOUT; read x, read places, write y)
};

const BILINEAR: &str = "upsample_bilinear2d";

/// Whether values are accumulated in f32. The others are in f64, as on the CPU: integers would differ by one.
fn in_f32(dtype: DType) -> bool {
    dtype.info().compute == Compute::F32
}

fn bilinear_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let dtype = spec.dtype(0);
    if in_f32(dtype) {
        text.line("alias V = f32;");
        text.line("fn mix_two(a: V, near: V, b: V, far: V) -> V { return a * near + b * far; }");
    } else {
        text.ops(Compute::F64);
        text.line("alias V = vec2<u32>;");
        text.line("fn mix_two(a: V, near: V, b: V, far: V) -> V { return badd(bmul(a, near), bmul(b, far)); }");
    }
    let [widen, narrow] = if in_f32(dtype) || dtype == DType::F64 {
        ["v"; 2].map(String::from)
    } else {
        text.file(CAST);
        let cast = |from, to| apply(CAST_OP, (from, to), "v", [""; 2]);
        [cast(dtype, DType::F64)?, cast(DType::F64, dtype)?]
    };
    text.line(format!("fn widen(v: XV) -> V {{ return {widen}; }}"));
    text.line(format!("fn narrow(v: V) -> YV {{ return {narrow}; }}"));
    Ok(())
}

fn spec(kernel: &'static Kernel, dtype: DType) -> Specialization {
    let operands = [(dtype, Access::Words), RAW, (dtype, Access::PutWord)];
    Specialization::new(kernel, "", &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let nearest = BITS.map(|e| spec(&UPSAMPLE_NEAREST, e));
    let bilinear = NUMBERS.map(|e| spec(&UPSAMPLE_BILINEAR, e));
    [&nearest[..], &bilinear[..]].concat()
}

params! {
    struct Params {
        n: u32,
        channels: u32,
        x_offset: u32,
        pad: u32,
        out: [u32; 2],
        pad2: [u32; 2],
        x_strides: [u32; 4],
    }
}

/// How positions of the output map to the input.
#[derive(Debug, Clone, Copy)]
pub enum Corners {
    /// The first and the last elements of both coincide (`align_corners`).
    Aligned,
    /// Elements are areas. A given scale, along h and w, replaces the ratio of sizes.
    Areas([Option<f64>; 2]),
}

/// The index, below `size`, that each of `out` positions takes: computed in f64 and truncated.
fn nearest(size: usize, out: usize) -> impl Iterator<Item = u32> {
    let scale = size as f64 / out as f64;
    (0..out).map(move |i| (size - 1).min((i as f64 * scale) as usize) as u32)
}

/// The shader's `Place` of each of `out` positions along dim `d`: two neighbours and their weights.
fn bilinear(
    (size, out): (usize, usize),
    corners: Corners,
    d: usize,
    in_f32: bool,
) -> impl Iterator<Item = Vec<u32>> {
    let last = size - 1;
    let (scale, shift) = match corners {
        Corners::Aligned if out > 1 => (last as f64 / (out - 1) as f64, 0.0),
        Corners::Aligned => (0.0, 0.0),
        Corners::Areas(scales) => {
            let ratio = scales[d].map_or(size as f64 / out as f64, |s| 1.0 / s);
            (ratio, 0.5)
        }
    };
    (0..out).map(move |i| {
        let at = (scale * (i as f64 + shift) - shift).max(0.0);
        let low = (at.floor() as usize).min(last);
        let weight = (at - low as f64).clamp(0.0, 1.0);
        let weights = [1.0 - weight, weight];
        let mut place = vec![low as u32, (low + 1).min(last) as u32];
        match in_f32 {
            true => place.extend(weights.map(|w| (w as f32).to_bits())),
            false => place.extend(weights.map(|w| words(w.to_bits())).as_flattened()),
        }
        place
    })
}

impl Recorder {
    /// `x` (b, c, l) resized to (b, c, out).
    pub fn upsample_nearest1d(&self, x: View<'_>, out: usize) -> Result<Value> {
        self.upsample_nearest("upsample_nearest1d", x, [1, out])
    }

    /// `x` (b, c, h, w) resized to `(b, c, out[0], out[1])`.
    pub fn upsample_nearest2d(&self, x: View<'_>, out: [usize; 2]) -> Result<Value> {
        self.upsample_nearest("upsample_nearest2d", x, out)
    }

    /// Nearest-neighbour upsampling of any dtype.
    fn upsample_nearest(&self, op: &'static str, x: View<'_>, out: [usize; 2]) -> Result<Value> {
        let x = x.with_dtype(x.dtype.bits());
        self.upsample(op, &UPSAMPLE_NEAREST, x, out, |h, w| {
            nearest(h, out[0]).chain(nearest(w, out[1])).collect()
        })
    }

    /// `x` (b, c, h, w) resized to `(b, c, out[0], out[1])` by bilinear interpolation.
    pub fn upsample_bilinear2d(
        &self,
        x: View<'_>,
        out: [usize; 2],
        corners: Corners,
    ) -> Result<Value> {
        let dtype = x.dtype;
        dtype.one_of(&NUMBERS, BILINEAR)?;
        let in_f32 = in_f32(dtype);
        if x.dims.ends_with(&out) {
            return self.contiguous(x);
        }
        self.upsample(BILINEAR, &UPSAMPLE_BILINEAR, x, out, |h, w| {
            let rows = bilinear((h, out[0]), corners, 0, in_f32);
            let columns = bilinear((w, out[1]), corners, 1, in_f32);
            rows.chain(columns).flatten().collect()
        })
    }

    fn upsample(
        &self,
        op: &'static str,
        kernel: &'static Kernel,
        x: View<'_>,
        out: [usize; 2],
        places: impl FnOnce(usize, usize) -> Vec<u32>,
    ) -> Result<Value> {
        let image = Image::new(op, x)?;
        let [.., h, w] = image.dims;
        let mut dims = x.dims.to_vec();
        let spatial = &mut dims[2..];
        let lines = spatial.len();
        spatial.copy_from_slice(&out[2 - lines..]);
        if dims.contains(&0) {
            return self.output(op, 0, x.dtype);
        }
        if h == 0 || w == 0 {
            let message = format!("cannot resize an empty image {:?} to {out:?}", x.dims);
            return Err(Error::Invalid { op, message });
        }
        let places = self.upload_buffer(bytemuck::cast_slice(&places(h, w)))?;
        let y = (x.dtype, &dims[..]);
        self.in_bound_parts(op, [x], y, Loops::First(2), |[x], ranges| {
            let image = Image::new(op, x)?;
            let [b, c, ..] = image.dims;
            let n = count(op, [b, c, out[0], out[1]])?;
            let (x_offset, x_strides) = image.steps(op)?;
            let params = Params {
                n: n as u32,
                channels: c as u32,
                x_offset,
                pad: 0,
                out: out.map(|v| v as u32),
                pad2: [0; 2],
                x_strides,
            };
            let words = n.div_ceil(x.dtype.info().lanes as usize);
            let ranges = [ranges[0], (&places).into(), ranges[1]];
            self.record(spec(kernel, x.dtype), &ranges, &params, threads(words))
        })
    }
}
