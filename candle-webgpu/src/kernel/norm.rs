//! Ops over the last dim: softmax, rms_norm, layer_norm. One pass over memory each, f32 inside.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::store::{y_put, FLOATS};
use crate::kernel::softmax::SoftmaxParams;
use crate::kernel::{thread_group, ROUNDS};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::split::{Loops, Part};
use crate::memory::view::{to_u32, View};
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{read, write, Access, Binding, Kernel, Specialization, Text};

pub(crate) const WORKGROUP: u32 = 256;

macro_rules! row_kernel {
    ($folder:literal, $name:literal, $bindings:expr, $shared:literal) => {
        Kernel {
            name: $name,
            source: wgsl!("kernel/", $folder, "/", $name, ".wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: $bindings,
            workgroup: WORKGROUP,
            shared: |_| WORKGROUP * $shared,
            features: wgpu::Features::empty(),
            slots,
        }
    };
}

pub static SOFTMAX: Kernel = row_kernel!("softmax", "softmax", &[read("x"), write("y")], 8);
pub static RMS_NORM: Kernel = row_kernel!(
    "norm",
    "rms_norm",
    &[read("x"), read("alpha"), write("y")],
    4
);
pub static LAYER_NORM: Kernel = row_kernel!(
    "norm",
    "layer_norm",
    &[read("x"), read("alpha"), read("beta"), write("y")],
    4
);

/// Rows that are few and long, in chunks: the chunks' maxima and sums, and then the result.
pub static SOFTMAX_SPLIT: Kernel =
    row_kernel!("softmax", "softmax_split", &[read("x"), write("sums")], 8);
pub static SOFTMAX_MERGE: Kernel = row_kernel!(
    "softmax",
    "softmax_merge",
    &[read("x"), read("sums"), write("y")],
    8
);

/// A sum and its norm. Recorded by a rule.
pub static ADD_RMS_NORM: Kernel = Kernel {
    name: "add_rms_norm",
    source: wgsl!("kernel/norm/add_rms_norm.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("a"), read("b"), read("alpha"), write("s"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| WORKGROUP * 4,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        let name = spec.info(3).name;
        text.line(format!(
            "fn s_four(q: u32) -> vec4<f32> {{ return {name}_unpack(s[q]); }}"
        ));
        Ok(())
    },
};

pub(crate) fn add_norm_spec(dtype: DType, rows: u32) -> Specialization {
    let [read, write] = [(dtype, Access::Quads), (dtype, Access::Put)];
    Specialization::new(&ADD_RMS_NORM, "", &[read, read, read, write, write]).with("ROWS", rows)
}

/// With `Quads` every row is made of whole quads; with `Words` rows start and end anywhere, and quads
/// are cut at the ends of a row.
fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let whole = spec.operands[0].1 == Access::Quads;
    text.line(format!("const WHOLE = {whole};"));
    if spec.kernel.name.starts_with("softmax") {
        text.file(wgsl!("kernel/softmax/online_softmax.wgsl"));
    }
    let last = spec.kernel.bindings.len() - 1;
    for (Binding { name, .. }, (_, access)) in
        spec.kernel.bindings[..last].iter().zip(&spec.operands)
    {
        if *access == Access::Raw {
            continue;
        }
        // x goes on over all rows, the others start again with each row.
        let (start, at) = match *name {
            "x" => ("0u", "at"),
            _ => ("first", "at - first"),
        };
        text.line(if whole {
            format!(
                "fn {name}_four(q: u32, first: u32, end: u32) -> vec4<f32> {{ return {name}_get4(p.{name}_offset / 4u + q - {start} / 4u); }}"
            )
        } else {
            format!(
                "fn {name}_one(at: u32, first: u32, end: u32) -> f32 {{
    if at >= first && at < end {{ return {name}_get(p.{name}_offset + {at}); }}
    return 0.0;
}}
fn {name}_four(q: u32, first: u32, end: u32) -> vec4<f32> {{
    let at = q * 4u;
    return vec4<f32>(
        {name}_one(at, first, end), {name}_one(at + 1u, first, end),
        {name}_one(at + 2u, first, end), {name}_one(at + 3u, first, end),
    );
}}"
            )
        });
    }
    if spec.operands[last].1 == Access::Raw {
        return Ok(());
    }
    y_put(spec, last, text)?;
    text.line(if whole {
        "fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y_put(q * 4u, 4u, v); }"
    } else {
        "fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) {
    let at = q * 4u;
    if at >= first {
        y_put(at, min(4u, end - at), v);
    } else {
        if at + 1u >= first && at + 1u < end { y_set(at + 1u, v.y); }
        if at + 2u >= first && at + 2u < end { y_set(at + 2u, v.z); }
        if at + 3u < end { y_set(at + 3u, v.w); }
    }
}"
    });
    Ok(())
}

/// `rows`: of a workgroup, for kernels that do not cut rows.
pub(crate) fn spec(
    kernel: &'static Kernel,
    dtype: DType,
    whole: bool,
    rows: Option<u32>,
) -> Specialization {
    let (read, write) = if whole {
        (Access::Quads, Access::Put)
    } else {
        (Access::Words, Access::Set)
    };
    let operands: Vec<_> = kernel
        .bindings
        .iter()
        .map(|b| match (b.name, b.write) {
            ("sums", _) => (DType::F32, Access::Raw),
            (_, true) => (dtype, write),
            (_, false) => (dtype, read),
        })
        .collect();
    match rows {
        None => Specialization::new(kernel, "", &operands),
        Some(rows) => Specialization::new(kernel, "", &operands).with("ROWS", rows),
    }
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for kernel in [&SOFTMAX, &RMS_NORM, &LAYER_NORM] {
        for dtype in FLOATS {
            for whole in [true, false] {
                all.push(spec(kernel, dtype, whole, Some(1)));
            }
        }
    }
    for kernel in [&SOFTMAX_SPLIT, &SOFTMAX_MERGE] {
        for dtype in FLOATS {
            all.extend([true, false].map(|whole| spec(kernel, dtype, whole, None)));
        }
    }
    all.extend(FLOATS.map(|dtype| add_norm_spec(dtype, 1)));
    all
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct AddNormParams {
    pub rows: u32,
    pub n: u32,
    pub a_offset: u32,
    pub b_offset: u32,
    pub alpha_offset: u32,
    pub eps: f32,
    pub inverse: f32,
    pub pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct NormParams {
    pub rows: u32,
    pub n: u32,
    pub x_offset: u32,
    pub alpha_offset: u32,
    pub beta_offset: u32,
    pub eps: f32,
    /// 1 / n.
    pub inverse: f32,
    pub pad: u32,
}

/// Where an operand lies: a contiguous view, copied if it was not one.
pub(crate) struct Flat {
    value: Value,
    offset: usize,
}

impl Flat {
    pub fn view<'a>(&'a self, dtype: DType, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
        View {
            value: &self.value,
            dtype,
            dims,
            strides,
            offset: self.offset,
        }
    }
}

/// Rows of the last dim of x.
pub(crate) struct Rows {
    pub op: &'static str,
    pub dtype: DType,
    pub rows: usize,
    pub n: usize,
}

impl Rows {
    fn new(op: &'static str, x: View<'_>) -> Result<Self> {
        if !FLOATS.contains(&x.dtype) {
            return Err(Error::Unsupported {
                op,
                dtype: x.dtype.name(),
            });
        }
        let n = x.dims.last().copied().unwrap_or(1);
        Ok(Rows {
            op,
            dtype: x.dtype,
            rows: x.count().checked_div(n).unwrap_or(0),
            n,
        })
    }

    /// Refuses what is no parameter of one row.
    fn check(&self, v: View<'_>) -> Result<()> {
        if v.dtype != self.dtype || v.dims != [self.n] {
            return Err(Error::Invalid {
                op: self.op,
                message: format!(
                    "a parameter {:?} {} for rows of {} {}",
                    v.dims, v.dtype, self.n, self.dtype
                ),
            });
        }
        Ok(())
    }

    /// Whether a window shows a row wherever it starts.
    fn fit(&self, device: &Recorder) -> bool {
        (self.n * self.dtype.size()) as u64 <= device.binding_limit() / 2
    }

    /// Whether, besides, a workgroup does not take for ever with a row, for kernels that cannot cut one.
    fn are_short(&self, device: &Recorder) -> bool {
        self.fit(device) && self.n <= ROUNDS * WORKGROUP as usize
    }

    /// Threads that share a row: enough for a few quads each, fewer where rows alone fill the adapter.
    fn thread_group(&self, device: &Recorder) -> u32 {
        let each = if self.rows >= 4096 { 4 } else { 1 };
        thread_group(device, self.rows, self.n.div_ceil(4), each, WORKGROUP)
    }

    /// `params` are those of a number of rows, with the operands' offsets: x, then parameters of one row.
    fn record<const N: usize, P: bytemuck::NoUninit>(
        &self,
        device: &Recorder,
        kernel: &'static Kernel,
        operands: [&Flat; N],
        params: impl Fn(u32, [u32; N]) -> P,
    ) -> Result<Value> {
        let dims = [self.rows, self.n];
        let (along, same) = ([self.n, 1], [0, 1]);
        let reads: [View<'_>; N] = std::array::from_fn(|i| {
            operands[i].view(self.dtype, &dims, if i == 0 { &along } else { &same })
        });
        let rows = WORKGROUP / self.thread_group(device);
        device.in_parts(
            self.op,
            reads,
            (self.dtype, &dims),
            Loops::First(1),
            |reads, y| {
                let mut windows = SmallVec::<[BindingRange<'_>; 4]>::new();
                let mut offsets = [0; N];
                for (v, offset) in reads.into_iter().zip(&mut offsets) {
                    let (window, v) = device.binding_range(self.op, v)?;
                    windows.push(window);
                    *offset = v.offset as u32;
                }
                windows.push(y);
                let whole = self.n.is_multiple_of(4) && offsets.iter().all(|o| o.is_multiple_of(4));
                let count = to_u32(self.op, reads[0].dims[0])?;
                device.record(
                    spec(kernel, self.dtype, whole, Some(rows)),
                    &windows,
                    &params(count, offsets),
                    Grid::Linear(count.div_ceil(rows).into()),
                )
            },
        )
    }
}

pub(crate) fn flat(device: &Recorder, v: View<'_>) -> Result<Flat> {
    if v.is_contiguous() {
        return Ok(Flat {
            value: v.value.clone(),
            offset: v.offset,
        });
    }
    let value = device.contiguous(v)?;
    Ok(Flat { value, offset: 0 })
}

impl Recorder {
    /// Softmax over the last dim.
    pub fn softmax_last_dim(&self, x: View<'_>) -> Result<Value> {
        if x.dtype == DType::F64 {
            return self.softmax_in_steps(x);
        }
        let rows = Rows::new("softmax_last_dim", x)?;
        if rows.fit(self) && !rows.are_short(self) {
            return rows.in_chunks(self, &flat(self, x)?);
        }
        if !rows.are_short(self) {
            let wide = self.cast(x, DType::F32)?;
            let y = self.softmax_in_steps(Part::all(&wide, DType::F32, x.dims).view())?;
            return self.cast(Part::all(&y, DType::F32, x.dims).view(), x.dtype);
        }
        let n = to_u32(rows.op, rows.n)?;
        rows.record(self, &SOFTMAX, [&flat(self, x)?], |rows, [x_offset]| {
            SoftmaxParams {
                rows,
                n,
                x_offset,
                pad: 0,
            }
        })
    }

    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dim.
    pub fn rms_norm(&self, x: View<'_>, alpha: View<'_>, eps: f32) -> Result<Value> {
        let rows = Rows::new("rms_norm", x)?;
        rows.check(alpha)?;
        if !rows.are_short(self) {
            return self.norm_in_steps(x, alpha, None, eps);
        }
        let alpha = flat(self, alpha)?;
        let n = to_u32(rows.op, rows.n)?;
        let operands = [&flat(self, x)?, &alpha];
        rows.record(self, &RMS_NORM, operands, |rows, [x, alpha]| {
            norm_params(rows, n, [x, alpha, 0], eps)
        })
    }

    /// `(x - mean) / sqrt(variance + eps) * alpha + beta` over the last dim.
    pub fn layer_norm(
        &self,
        x: View<'_>,
        alpha: View<'_>,
        beta: View<'_>,
        eps: f32,
    ) -> Result<Value> {
        let rows = Rows::new("layer_norm", x)?;
        rows.check(alpha)?;
        rows.check(beta)?;
        if !rows.are_short(self) {
            return self.norm_in_steps(x, alpha, Some(beta), eps);
        }
        let (alpha, beta) = (flat(self, alpha)?, flat(self, beta)?);
        let n = to_u32(rows.op, rows.n)?;
        let operands = [&flat(self, x)?, &alpha, &beta];
        rows.record(self, &LAYER_NORM, operands, |rows, offsets| {
            norm_params(rows, n, offsets, eps)
        })
    }
}

fn norm_params(rows: u32, n: u32, [x, alpha, beta]: [u32; 3], eps: f32) -> NormParams {
    NormParams {
        rows,
        n,
        x_offset: x,
        alpha_offset: alpha,
        beta_offset: beta,
        eps,
        inverse: 1.0 / n as f32,
        pad: 0,
    }
}
