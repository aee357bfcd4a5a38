//! Matmul of views with any strides and offsets, read in place: nothing is copied first.

pub(crate) mod epilogue;
pub(crate) mod f64;
pub mod gemm;
pub mod gemm_coop;
pub mod gemv;
pub mod gemv_coop;
pub mod gemv_dot;
pub(crate) mod gemv_dot_slots;
pub(crate) mod gemv_projections;
pub(crate) mod gemv_variant;
pub(crate) mod plan;
pub(crate) mod problem;
pub(crate) mod projection_bias;
pub mod quantized;
pub(crate) mod rms_norm_gemv;
pub(crate) mod scaled;
pub mod split_k;
pub(crate) mod store;

use crate::dtype::{DType, MATMUL};
use crate::error::{Error, Result};
use crate::kernel::matmul::f64::matmul_spec;
use crate::kernel::matmul::plan::Plan;
use crate::kernel::matmul::problem::{Problem, OP};
use crate::kernel::{threads, ROUNDS};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::split::{Halves, Part};
use crate::memory::view::View;
use crate::recorder::Recorder;

/// The largest k of one dispatch: a thread accumulates at least sixteen terms per step.
const MOST_TERMS: usize = 64 * ROUNDS;

impl Recorder {
    /// `y[.., m, n] = sum over k of a[.., m, k] b[.., k, n]`, contiguous, in the dtype of `a` and `b` (f32, f16, bf16 or
    /// f64), accumulated in f32, or in f64 for f64. The dims before the last two hold `batch` matrices in all.
    pub fn matmul(
        &self,
        a: View<'_>,
        b: View<'_>,
        (batch, m, n, k): (usize, usize, usize, usize),
    ) -> Result<Value> {
        a.dtype.one_of(&MATMUL, OP)?;
        check(a, b, [batch, m, n, k])?;
        let sizes = batch.checked_mul(m).and_then(|rows| rows.checked_mul(n));
        let count = sizes.unwrap_or(usize::MAX);
        if count == usize::MAX {
            return self.output(OP, count, a.dtype);
        }
        if count == 0 || k == 0 {
            return self.fill(count, a.dtype, 0);
        }
        self.matmul_into(a, b, a.dtype)
    }

    /// A nonempty matmul whose result has the dtype `out`.
    fn matmul_into(&self, a: View<'_>, b: View<'_>, out: DType) -> Result<Value> {
        let outer = a.dims.len() - 2;
        let batch = a.dims[..outer].iter().product();
        let [m, k, n] = [a.dims[outer], a.dims[outer + 1], b.dims[outer + 1]];
        let count: usize = batch * m * n;
        if k > MOST_TERMS
            || !self.fits(a)
            || !self.fits(b)
            || count.saturating_mul(out.size()) as u64 > self.binding_limit()
        {
            return self.matmul_in_halves(a, b, out);
        }
        let (a_range, a) = self.binding_range(OP, a)?;
        let (b_range, b) = self.binding_range(OP, b)?;
        let problem = Problem::new(a, b, [batch, m, n, k], out)?;
        if a.dtype == DType::F64 {
            let y = self.output(OP, count, a.dtype)?;
            let ranges = [a_range, b_range, (&y).into()];
            let plan = Plan::new(matmul_spec(a.dtype), 1);
            let params = problem.params(&plan, 0);
            self.record(plan.spec, &ranges, &params, threads(count))?;
            return Ok(y);
        }
        self.multiply(problem, [a_range, b_range], count)
    }

    /// Plans and records a matmul whose result has `count` elements.
    pub(crate) fn multiply(
        &self,
        mut problem: Problem,
        [a, b]: [BindingRange<'_>; 2],
        count: usize,
    ) -> Result<Value> {
        let scaled = self.scale(&mut problem, [a, b])?;
        let plan = problem.plan(self);
        problem.split_k(plan.parts);
        let parts = plan.parts as usize;
        let dtype = plan.spec.dtype(2);
        let y = self.output(OP, parts * count, dtype)?;
        let params = problem.params(&plan, 0);
        let grid = problem.grid(&plan);
        match &scaled {
            Some(scaled) => {
                let b = scaled.b.as_ref().map_or(b, BindingRange::from);
                let [a_scales, b_scales] = scaled.scales.each_ref().map(BindingRange::from);
                let ranges = [(&scaled.a).into(), b, (&y).into(), a_scales, b_scales];
                self.record(plan.spec, &ranges, &params, grid)?;
            }
            None => self.record(plan.spec, &[a, b, (&y).into()], &params, grid)?,
        }
        self.add_up(y, parts, problem.out)
    }

    /// Adds up the `parts` partial results of a split-K matmul that `y` holds, in the dtype `out`.
    pub(crate) fn add_up(&self, y: Value, parts: usize, out: DType) -> Result<Value> {
        if parts == 1 {
            return Ok(y);
        }
        let dtype = DType::F32;
        let count = y.bytes() as usize / dtype.size() / parts;
        self.sum_to(Part::all(&y, dtype, &[parts, count]).view(), &[0], out)
    }

    /// A matmul that exceeds a binding or the largest k: split along the batch, m, n or k.
    fn matmul_in_halves(&self, a: View<'_>, b: View<'_>, out: DType) -> Result<Value> {
        let outer = a.dims.len() - 2;
        let [m_dim, n_dim, k_dim] = [outer, outer + 1, outer + 2];
        let [m, k, n] = [a.dims[outer], a.dims[outer + 1], b.dims[outer + 1]];
        let mut dims = a.dims.to_vec();
        dims[n_dim] = n;
        let count = dims.iter().product();
        let y = self.output(OP, count, out)?;
        let parts = [
            Part::from(a).repeat(n_dim, n),
            Part::from(b).transpose().repeat(m_dim, m),
            Part::all(&y, out, &dims).repeat(k_dim, k),
        ];
        let halves = if k > MOST_TERMS {
            Halves::new(&parts, k_dim, k / 2)
        } else {
            self.pool.halve(OP, &parts, outer + 3)?
        };
        let matmul = |parts: &[Part<'_>], out: DType| {
            let a = parts[0].clone().without(n_dim);
            let b = parts[1].clone().without(m_dim).transpose();
            self.matmul_into(a.view(), b.view(), out)
        };
        if halves.dim != k_dim {
            for parts in halves.parts {
                let part = matmul(&parts, out)?;
                self.paste(&part, parts[2].clone().without(k_dim).view())?;
            }
            return Ok(y);
        }
        let wide = a.dtype.info().compute.dtype();
        let [first, second] = halves.parts;
        let (first, second) = (matmul(&first, wide)?, matmul(&second, wide)?);
        let [first, second] = [&first, &second].map(|v| Part::all(v, wide, &[count]));
        let accumulator = self.binary("badd", first.view(), second.view())?;
        if wide == out {
            return Ok(accumulator);
        }
        self.cast(Part::all(&accumulator, wide, &[count]).view(), out)
    }
}

fn check(a: View<'_>, b: View<'_>, [batch, m, n, k]: [usize; 4]) -> Result<()> {
    let fits = |v: View<'_>, rows, cols| {
        v.dims.len() == v.strides.len()
            && v.dims.ends_with(&[rows, cols])
            && v.dims[..v.dims.len() - 2].iter().product::<usize>() == batch
    };
    let same_batch = || a.dims[..a.dims.len() - 2] == b.dims[..b.dims.len() - 2];
    if a.dtype == b.dtype && fits(a, m, k) && fits(b, k, n) && same_batch() {
        return Ok(());
    }
    Err(Error::Invalid {
        op: OP,
        message: format!(
            "{:?} {} times {:?} {} is not {batch} matmuls of ({m}, {k}) by ({k}, {n})",
            a.dims, a.dtype, b.dims, b.dtype
        ),
    })
}
