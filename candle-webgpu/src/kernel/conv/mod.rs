//! Convolutions and transposed convolutions along one or two dims, as implicit GEMMs: instead of an im2col buffer, the kernel gathers its
//! operand from the input while it stages it.

pub(crate) mod coop;
pub(crate) mod image;
mod plan;
pub(crate) mod specialization;
mod split;

use crate::dtype::{DType, MATMUL, MATMUL_F32, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::conv::image::{count, Ends, Image};
use crate::kernel::conv::plan::Plan;
use crate::kernel::ROUNDS;
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32};
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::params;

/// Output channels from which most of the smallest tile is used.
const GEMM_CHANNELS: usize = 5;
/// Output channels of a group from which tiles per group are faster than a thread per output.
const GROUP_CHANNELS: usize = 32;
/// Positions of an image from which a pointwise convolution is a matmul per image.
const GEMM_POSITIONS: usize = 32;

/// Geometry of a convolution, the same along h and w.
#[derive(Debug, Clone, Copy)]
pub struct ConvParams {
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    /// Positions that a transposed convolution adds at the end.
    pub output_padding: usize,
}

params! {
    /// Pairs are (h, w).
    struct Geometry {
        /// Of an input image.
        size: [u32; 2],
        out: [u32; 2],
        taps: [u32; 2],
        stride: [u32; 2],
        padding: [u32; 2],
        dilation: [u32; 2],
    }
}

params! {
    struct Params {
        c_in: u32,
        c_out: u32,
        k: u32,
        columns: u32,
        geometry: Geometry,
        x_strides: [u32; 4],
        w_strides: [u32; 4],
        x_offset: u32,
        w_offset: u32,
        rows: u32,
        n: u32,
        /// Output channels of a group.
        group: u32,
        parts: u32,
        part: u32,
    }
}

pub(crate) struct Problem<'a> {
    pub op: &'static str,
    pub dtype: DType,
    pub transposed: bool,
    /// Each maps its part of x's channels to its part of the output channels.
    pub groups: usize,
    pub x: Image<'a>,
    /// Dims (output channels, input channels, h, w), whatever the order in memory.
    pub w: Image<'a>,
    pub stride: [usize; 2],
    pub padding: [usize; 2],
    pub dilation: [usize; 2],
    pub out: [usize; 2],
}

/// The op for an input of lines or of images.
fn op(x: View<'_>, [lines, images]: [&'static str; 2]) -> &'static str {
    match x.dims.len() {
        3 => lines,
        _ => images,
    }
}

impl Recorder {
    /// Convolution of `x` (b, c, h, w) with `w` (o, c, kh, kw), or of (b, c, l) with (o, c, k).
    /// Accumulates in f32, or in f64 for f64.
    pub fn conv(&self, x: View<'_>, w: View<'_>, params: ConvParams) -> Result<Value> {
        let op = op(x, ["conv1d", "conv2d"]);
        x.dtype.one_of(&MATMUL, op)?;
        self.convolve(op, x, w, params, false)
    }

    /// Grouped convolution with `w` (o, c / groups, ...). None if a convolution per group is faster, or an operand is larger than a binding.
    pub fn conv_grouped(
        &self,
        x: View<'_>,
        w: View<'_>,
        params: ConvParams,
        groups: usize,
    ) -> Result<Option<Value>> {
        let op = op(x, ["conv1d", "conv2d"]);
        x.dtype.one_of(&MATMUL, op)?;
        let problem = Problem::new(op, [x, w], params, false, groups)?;
        let narrow = problem.w.dims[0] / groups < GROUP_CHANNELS;
        if narrow && problem.k() <= problem.most_terms() && problem.fits(self, [x, w]) {
            return problem.run(self).map(Some);
        }
        Ok(None)
    }

    /// Transposed convolution of `x` (b, c, h, w) with `w` (c, o, kh, kw), or of (b, c, l) with (c, o, k).
    pub fn conv_transpose(&self, x: View<'_>, w: View<'_>, params: ConvParams) -> Result<Value> {
        let op = op(x, ["conv_transpose1d", "conv_transpose2d"]);
        x.dtype.one_of(&NUMBERS, op)?;
        self.convolve(op, x, w, params, true)
    }
}

impl<'a> Problem<'a> {
    /// Dims are checked; sizes are not.
    pub fn new(
        op: &'static str,
        [x, w]: [View<'a>; 2],
        params: ConvParams,
        transposed: bool,
        groups: usize,
    ) -> Result<Self> {
        let invalid = |message: String| Error::Invalid { op, message };
        let lines = x.dims.len() == 3;
        let (image, mut kernel) = (Image::new(op, x)?, Image::new(op, w)?);
        if transposed {
            kernel.dims.swap(0, 1);
            kernel.strides.swap(0, 1);
        }
        let fits = x.dtype == w.dtype && x.dims.len() == w.dims.len();
        let channels = kernel.dims[1].checked_mul(groups);
        let whole = groups > 0 && kernel.dims[0].is_multiple_of(groups);
        if !fits || !whole || channels != Some(image.dims[1]) {
            return Err(invalid(format!(
                "a kernel {:?} {} for an input {:?} {} in groups: {groups}",
                w.dims, w.dtype, x.dims, x.dtype
            )));
        }
        // Lines have no h: the window does not move along it.
        let along = |v: usize, still: usize| [if lines { still } else { v }, v];
        let (stride, padding) = (along(params.stride, 1), along(params.padding, 0));
        let (dilation, more) = (along(params.dilation, 1), along(params.output_padding, 0));
        let mut out = [0; 2];
        for d in 0..2 {
            let (size, taps) = (image.dims[2 + d], kernel.dims[2 + d]);
            let ends = Ends {
                size,
                taps,
                stride: stride[d],
                padding: padding[d],
                dilation: dilation[d],
            };
            out[d] = if transposed {
                ends.transposed(more[d])
            } else {
                ends.plain()
            }
            .ok_or_else(|| {
                invalid(format!(
                    "a kernel of {taps} does not fit an input of {size} with {params:?}"
                ))
            })?;
        }
        Ok(Problem {
            op,
            dtype: x.dtype,
            transposed,
            groups,
            x: image,
            w: kernel,
            stride,
            padding,
            dilation,
            out,
        })
    }

    fn geometry(&self) -> Geometry {
        let pair = |v: [usize; 2]| v.map(|v| v as u32);
        Geometry {
            size: pair([self.x.dims[2], self.x.dims[3]]),
            out: pair(self.out),
            taps: pair([self.w.dims[2], self.w.dims[3]]),
            stride: pair(self.stride),
            padding: pair(self.padding),
            dilation: pair(self.dilation),
        }
    }

    fn positions(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Elements of the result.
    pub fn outputs(&self) -> usize {
        let planes = self.x.dims[0].saturating_mul(self.w.dims[0]);
        planes.saturating_mul(self.positions())
    }

    /// Whether the operands and the result fit in one binding each.
    pub fn fits(&self, device: &Recorder, operands: [View<'_>; 2]) -> bool {
        let bytes = self.outputs().saturating_mul(self.dtype.size()) as u64;
        operands.iter().all(|v| device.fits(*v)) && bytes <= device.binding_limit()
    }

    /// Positions of the batch; those of each image are rounded up to quads, so that no quad spans two images.
    fn columns(&self) -> usize {
        self.x.dims[0] * self.positions().next_multiple_of(4)
    }

    /// Whether to use the direct kernel, whose threads compute whole outputs without tiles.
    fn is_direct(&self) -> bool {
        self.groups > 1 || !MATMUL_F32.contains(&self.dtype) || self.w.dims[0] < GEMM_CHANNELS
    }

    /// The most terms of a sum that the kernel takes.
    pub fn most_terms(&self) -> usize {
        ROUNDS * if self.is_direct() { 2 } else { 64 }
    }

    /// Terms of each sum.
    pub fn k(&self) -> usize {
        self.w.dims[1..].iter().product()
    }

    pub fn run(&self, device: &Recorder) -> Result<Value> {
        let [batch, .., w_in] = self.x.dims;
        let c_out = self.w.dims[0];
        let n = count(self.op, [batch, c_out, self.out[0], self.out[1]])?;
        if n == 0 {
            return device.output(self.op, 0, self.dtype);
        }
        if self.k() == 0 || self.x.dims[2] * w_in == 0 {
            return device.fill(n, self.dtype, 0);
        }
        if let Some(y) = self.pointwise(device)? {
            return Ok(y);
        }
        if let Some(y) = self.cooperative(device)? {
            return Ok(y);
        }
        let (x_range, (x_offset, x_strides)) = self.x.bind(device, self.op)?;
        let (w_range, (w_offset, w_strides)) = self.w.bind(device, self.op)?;
        let Plan {
            spec,
            rows,
            part,
            parts,
            grid,
        } = self.plan(device, n);
        let params = Params {
            c_in: self.w.dims[1] as u32,
            c_out: c_out as u32,
            k: to_u32(self.op, self.k())?,
            columns: to_u32(self.op, self.columns())?,
            geometry: self.geometry(),
            x_strides,
            w_strides,
            x_offset,
            w_offset,
            rows,
            n: n as u32,
            group: (c_out / self.groups) as u32,
            parts: parts as u32,
            part,
        };
        let y = device.output(self.op, parts * n, spec.dtype(2))?;
        let ranges = [w_range, x_range, (&y).into()];
        device.record(spec, &ranges, &params, grid)?;
        device.add_up(y, parts, self.dtype)
    }

    /// A convolution with one tap is a matmul, if the positions have a single stride.
    fn pointwise(&self, device: &Recorder) -> Result<Option<Value>> {
        let [batch, c_in, ..] = self.x.dims;
        let [c_out, .., kh, kw] = self.w.dims;
        let moves = self.transposed && (self.stride != [1; 2] || self.out != self.x.dims[2..]);
        if self.groups > 1
            || [kh, kw] != [1; 2]
            || self.padding != [0; 2]
            || moves
            || !MATMUL_F32.contains(&self.dtype)
        {
            return Ok(None);
        }
        let [x_b, x_c, x_h, x_w] = self.x.strides;
        let steps = [(x_h, 0), (x_w, 1)].map(|(s, d)| s.saturating_mul(self.stride[d]));
        let line = merge(self.op, &self.out, [&steps[..]])?;
        let positions = self.positions();
        if line.rank > 1 || (batch > 1 && (2..GEMM_POSITIONS).contains(&positions)) {
            return Ok(None);
        }
        let step = line.strides[0][0] as usize;
        let [w_o, w_c, ..] = self.w.strides;
        let y = if positions == 1 {
            // One matmul for the batch: rows of x times columns of w.
            device.matmul(
                self.x.view(&[1, batch, c_in], &[0, x_b, x_c]),
                self.w.view(&[1, c_in, c_out], &[0, w_c, w_o]),
                (1, batch, c_out, c_in),
            )
        } else {
            device.matmul(
                self.w.view(&[batch, c_out, c_in], &[0, w_o, w_c]),
                self.x.view(&[batch, c_in, positions], &[x_b, x_c, step]),
                (batch, c_out, positions, c_in),
            )
        };
        y.map(Some)
    }
}
