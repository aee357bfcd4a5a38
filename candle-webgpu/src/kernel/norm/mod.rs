//! rms_norm and layer_norm over the last dim, in one pass over memory, computed in f32.

mod in_steps;
pub(crate) mod rows;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::store::FLOATS;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization};

pub(crate) use rows::flat;
use rows::{row_kernel, specs, Rows, WORKGROUP};

pub static RMS_NORM: Kernel = row_kernel(
    kernel!("norm", "rms_norm", NormParams::LAYOUT; read x, read alpha, write y),
    |_| 4 * WORKGROUP,
);
pub static LAYER_NORM: Kernel = row_kernel(
    kernel!("norm", "layer_norm", NormParams::LAYOUT; read x, read alpha, read beta, write y),
    |_| 4 * WORKGROUP,
);

/// A residual sum and its rms_norm. Recorded only by the rule of the same name.
pub static ADD_RMS_NORM: Kernel = Kernel {
    workgroup: WORKGROUP,
    shared: |_| WORKGROUP * 4,
    slots: |spec, text| {
        let (name, quad) = (spec.info(3).name, spec.info(3).quad);
        // The xor hides from compilers that this reads what was just stored. Mesa 25 would drop the rounding.
        let hidden = match spec.dtype(3) {
            DType::F32 => String::new(),
            _ => format!(" ^ {quad}(p.zero)"),
        };
        text.line(format!(
            "fn s_four(q: u32) -> vec4<f32> {{ return {name}_unpack(s[q]{hidden}); }}"
        ));
        Ok(())
    },
    ..kernel!("norm", "add_rms_norm", AddNormParams::LAYOUT; read a, read b, read alpha, write s, write y)
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
        pub eps: f32,
        pub inverse: f32,
        /// 0, which compilers do not know.
        pub zero: u32,
    }
}

/// `rows`: of a workgroup.
pub(crate) fn add_norm_spec(dtype: DType, rows: u32) -> Specialization {
    let [read, write] = [(dtype, Access::Quads), (dtype, Access::Put)];
    Specialization::new(&ADD_RMS_NORM, "", &[read, read, read, write, write]).with("ROWS", rows)
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = [&RMS_NORM, &LAYER_NORM].map(|k| specs(k, Some(1))).concat();
    all.extend(FLOATS.map(|dtype| add_norm_spec(dtype, 1)));
    all
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
