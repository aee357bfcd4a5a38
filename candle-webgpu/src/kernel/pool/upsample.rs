//! Nearest-neighbour and bilinear upsampling.
//!
//! The host computes the source of each row and column in f64, as Candle's CPU backend does; shaders have no f64.

use crate::dtype::{Compute, DType, BITS, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::conv::image::{count, Image};
use crate::kernel::{threads, WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::View;
use crate::op::{cast, CAST};
use crate::recorder::Recorder;
use crate::shader::{params, read, write, Access, Kernel, Specialization, Text};

pub static UPSAMPLE_NEAREST: Kernel = Kernel {
    name: "upsample_nearest",
    source: wgsl!("kernel/pool/upsample_nearest.wgsl"),
    params: Params::LAYOUT,
    bindings: &[read("x"), read("places"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |_, _| Ok(()),
};

pub static UPSAMPLE_BILINEAR: Kernel = Kernel {
    name: "upsample_bilinear",
    source: wgsl!("kernel/pool/upsample_bilinear.wgsl"),
    params: Params::LAYOUT,
    bindings: &[read("x"), read("places"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: bilinear_slots,
};

const BILINEAR: &str = "upsample_bilinear2d";

/// Whether values are accumulated in f32. The others are in f64, as on the CPU: integers would differ by one.
fn in_f32(dtype: DType) -> bool {
    dtype.info().compute == Compute::F32
}

fn bilinear_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let dtype = spec.dtype(0);
    let call = |f: Option<String>| f.map_or("v".to_string(), |f| format!("{f}(v)"));
    if in_f32(dtype) {
        text.line("alias V = f32;");
        text.line("fn mix_two(a: V, near: V, b: V, far: V) -> V { return a * near + b * far; }");
    } else {
        text.ops(Compute::F64);
        text.line("alias V = vec2<u32>;");
        text.line("fn mix_two(a: V, near: V, b: V, far: V) -> V { return badd(bmul(a, near), bmul(b, far)); }");
    }
    let (widen, narrow) = match in_f32(dtype) || dtype == DType::F64 {
        true => (None, None),
        false => {
            text.file(CAST);
            (cast(dtype, DType::F64)?, cast(DType::F64, dtype)?)
        }
    };
    text.line(format!(
        "fn widen(v: XV) -> V {{ return {}; }}",
        call(widen)
    ));
    text.line(format!(
        "fn narrow(v: V) -> YV {{ return {}; }}",
        call(narrow)
    ));
    Ok(())
}

fn spec(kernel: &'static Kernel, dtype: DType) -> Specialization {
    Specialization::new(
        kernel,
        "",
        &[
            (dtype, Access::Words),
            (DType::U32, Access::Raw),
            (dtype, Access::PutWord),
        ],
    )
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

/// Two neighbours along a dim and their weights.
struct Place {
    i: [u32; 2],
    weights: [f64; 2],
}

impl Place {
    /// The shader's `Place`.
    fn words(&self, in_f32: bool) -> Vec<u32> {
        let mut words = self.i.to_vec();
        for weight in self.weights {
            if in_f32 {
                words.push((weight as f32).to_bits());
            } else {
                let bits = weight.to_bits();
                words.extend([bits as u32, (bits >> 32) as u32]);
            }
        }
        words
    }
}

/// The index, below `size`, that each of `out` positions takes: computed in f64 and truncated.
fn nearest(size: usize, out: usize) -> impl Iterator<Item = u32> {
    let scale = size as f64 / out as f64;
    (0..out).map(move |i| (size - 1).min((i as f64 * scale) as usize) as u32)
}

fn bilinear(size: usize, out: usize, corners: Corners, d: usize) -> impl Iterator<Item = Place> {
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
        Place {
            i: [low as u32, (low + 1).min(last) as u32],
            weights: [1.0 - weight, weight],
        }
    })
}

impl Recorder {
    /// `x` (b, c, l) resized to (b, c, out).
    pub fn upsample_nearest1d(&self, x: View<'_>, out: usize) -> Result<Value> {
        self.upsample_nearest("upsample_nearest1d", x, [1, out])
    }

    /// `x` (b, c, h, w) resized to (b, c, out[0], out[1]).
    pub fn upsample_nearest2d(&self, x: View<'_>, out: [usize; 2]) -> Result<Value> {
        self.upsample_nearest("upsample_nearest2d", x, out)
    }

    /// Nearest-neighbour upsampling of any dtype.
    fn upsample_nearest(&self, op: &'static str, x: View<'_>, out: [usize; 2]) -> Result<Value> {
        let x = x.with_dtype(x.dtype.bits());
        self.upsample(op, &UPSAMPLE_NEAREST, x, out, |h, w| {
            let places: Vec<u32> = nearest(h, out[0]).chain(nearest(w, out[1])).collect();
            self.upload_buffer(bytemuck::cast_slice(&places))
        })
    }

    /// `x` (b, c, h, w) resized to (b, c, out[0], out[1]) by bilinear interpolation.
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
            let rows = bilinear(h, out[0], corners, 0);
            let places = rows.chain(bilinear(w, out[1], corners, 1));
            let words: Vec<u32> = places.flat_map(|p| p.words(in_f32)).collect();
            self.upload_buffer(bytemuck::cast_slice(&words))
        })
    }

    fn upsample(
        &self,
        op: &'static str,
        kernel: &'static Kernel,
        x: View<'_>,
        out: [usize; 2],
        places: impl FnOnce(usize, usize) -> Result<Value>,
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
            return Err(Error::Invalid {
                op,
                message: format!("cannot resize an empty image {:?} to {out:?}", x.dims),
            });
        }
        let places = places(h, w)?;
        self.in_parts(op, [x], (x.dtype, &dims), Loops::First(2), |[x], y| {
            let (window, x) = self.binding_range(op, x)?;
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
            let windows = [window, (&places).into(), y];
            self.record(spec(kernel, x.dtype), &windows, &params, threads(words))
        })
    }
}
