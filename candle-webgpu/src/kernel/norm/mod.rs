//! rms_norm and layer_norm over the last dim, in one pass over memory, computed in f32.

mod in_steps;
pub(crate) mod rows;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::store::FLOATS;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::view::View;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::recorder::Recorder;
use crate::shader::{params, read, write, Access, Kernel, Specialization};

pub(crate) use rows::flat;
use rows::{row_kernel, specs, Rows, THREAD_GROUP_SUM, WORKGROUP};

pub static RMS_NORM: Kernel = row_kernel(
    kernel!("norm", "rms_norm", NormParams::LAYOUT; read x, read alpha, write y),
    |_| 4 * WORKGROUP,
);
pub static LAYER_NORM: Kernel = row_kernel(
    kernel!("norm", "layer_norm", NormParams::LAYOUT; read x, read alpha, read beta, write y),
    |_| 4 * WORKGROUP,
);

/// A residual sum and its rms_norm, or its layer_norm with a binding `beta`; stores the sum with a binding `s`. With a binding `line_scales`,
/// y is f16, divided by the scale of its row as by `scale_lines`, and the scale is stored there. Recorded only by the rules of
/// the same name and `norm_scale_lines`.
pub static ADD_NORM: Kernel = Kernel {
    workgroup: WORKGROUP,
    shared: |_| WORKGROUP * 4,
    slots: |spec, text| {
        text.bindings(spec, spec.kernel.bindings.len());
        text.file(THREAD_GROUP_SUM);
        text.line(format!("const CENTERED = {};", spec.binds("beta")));
        let info = spec.info(0);
        let scaled = spec.binds("line_scales");
        let rounded = match info.dtype {
            DType::F32 if !scaled => "v".to_string(),
            _ => info.rounded("v", "p.zero"),
        };
        text.line(format!(
            "fn rounded(v: vec4<f32>) -> vec4<f32> {{ return {rounded}; }}"
        ));
        let beta = if spec.binds("beta") {
            "beta_get4(q)"
        } else {
            "vec4<f32>()"
        };
        text.line(format!(
            "fn beta_four(q: u32) -> vec4<f32> {{ return {beta}; }}"
        ));
        let store = if spec.binds("s") {
            "s_quad_put(q, v);"
        } else {
            ""
        };
        text.line(format!("fn s_store(q: u32, v: vec4<f32>) {{ {store} }}"));
        text.line(format!("const SCALED = {scaled};"));
        if scaled {
            text.part(wgsl!("kernel/norm/add_norm_scaled.wgsl"));
        } else {
            text.line("fn magnitude(v: vec4<f32>) -> f32 { return 0.0; }");
            text.line("fn line_scale(thread: u32, thread_group: u32, row: u32, most: f32) -> f32 { return 1.0; }");
        }
        Ok(())
    },
    ..kernel!("norm", "add_norm", AddNormParams::LAYOUT; read a, read b, read alpha, write y)
};

params! {
    pub(crate) struct NormParams {
        pub rows: u32,
        pub n: u32,
        pub x_offset: u32,
        pub alpha_offset: u32,
        /// Unused by rms_norm.
        pub beta_offset: u32,
        pub eps: f32,
        /// 1 / n.
        pub inverse: f32,
        pub pad: u32,
    }
}

params! {
    pub(crate) struct AddNormParams {
        pub rows: u32,
        pub n: u32,
        pub a_offset: u32,
        pub b_offset: u32,
        pub alpha_offset: u32,
        pub beta_offset: u32,
        pub eps: f32,
        pub inverse: f32,
        /// 0, which compilers do not know.
        pub zero: u32,
        pub pad: [u32; 3],
    }
}

/// The specialization that does what `norm`, one of [`ADD_NORM`], does, but stores scaled rows.
pub(crate) fn with_line_scales(norm: &Specialization) -> Specialization {
    let mut spec = norm.clone();
    spec.operands[3].0 = DType::F16;
    spec.bind(write("line_scales"), DType::F32, Access::Raw)
}

/// `rows`: of a workgroup. `centered`: a layer_norm. `stored`: the sum, too.
pub(crate) fn add_norm_spec(
    dtype: DType,
    rows: u32,
    [centered, stored]: [bool; 2],
) -> Specialization {
    let [x, y] = [(dtype, Access::Quads), (dtype, Access::Put)];
    let mut spec = Specialization::new(&ADD_NORM, "", &[x, x, x, y]).with("ROWS", rows);
    if centered {
        spec = spec.bind(read("beta"), x.0, x.1);
    }
    if stored {
        spec = spec.bind(write("s"), y.0, y.1);
    }
    spec
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = [&RMS_NORM, &LAYER_NORM].map(|k| specs(k, Some(1))).concat();
    for dtype in FLOATS {
        let how = [[false, false], [false, true], [true, false], [true, true]];
        let norms = how.map(|how| add_norm_spec(dtype, 1, how));
        if dtype != DType::F16 {
            all.extend(norms.each_ref().map(with_line_scales));
        }
        all.extend(norms);
    }
    all
}

/// An rms_norm of contiguous rows: x, alpha and y, and the parameters. None if a workgroup cannot process a row.
pub(crate) fn op(
    gpu: &Gpu,
    dtype: DType,
    operands: [(Value, u64); 3],
    params: &NormParams,
) -> Option<Box<Op>> {
    let of = Rows {
        op: "rms_norm",
        dtype,
        rows: params.rows as usize,
        n: params.n as usize,
    };
    let offsets = [params.x_offset, params.alpha_offset];
    of.op(gpu, &RMS_NORM, operands, &offsets, params)
}

impl Recorder {
    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dim of x (.., n), for alpha (n,) of the same float dtype.
    pub fn rms_norm(&self, x: View<'_>, alpha: View<'_>, eps: f32) -> Result<Value> {
        self.norm("rms_norm", x, (alpha, None), eps)
    }

    /// `(x - mean) / sqrt(variance + eps) * alpha + beta` over the last dim of x (.., n), for alpha and beta (n,) of the same float
    /// dtype.
    pub fn layer_norm(
        &self,
        x: View<'_>,
        alpha: View<'_>,
        beta: View<'_>,
        eps: f32,
    ) -> Result<Value> {
        self.norm("layer_norm", x, (alpha, Some(beta)), eps)
    }

    /// layer_norm with a beta, rms_norm without.
    fn norm(
        &self,
        op: &'static str,
        x: View<'_>,
        (alpha, beta): (View<'_>, Option<View<'_>>),
        eps: f32,
    ) -> Result<Value> {
        let rows = Rows::new(op, x)?;
        rows.check(alpha)?;
        beta.map_or(Ok(()), |beta| rows.check(beta))?;
        if !rows.are_short(self) {
            return self.norm_in_steps(x, alpha, beta, eps);
        }
        let alpha = flat(self, alpha)?;
        let beta = beta.map(|beta| flat(self, beta)).transpose()?;
        let (x, n) = (flat(self, x)?, to_u32(op, rows.n)?);
        let params = |rows, [x_offset, alpha_offset, beta_offset]: [u32; 3]| NormParams {
            rows,
            n,
            x_offset,
            alpha_offset,
            beta_offset,
            eps,
            inverse: 1.0 / n as f32,
            pad: 0,
        };
        match &beta {
            Some(beta) => rows.record(self, &LAYER_NORM, [&x, &alpha, beta], params),
            None => rows.record(self, &RMS_NORM, [&x, &alpha], |rows, [x, alpha]| {
                params(rows, [x, alpha, 0])
            }),
        }
    }
}
