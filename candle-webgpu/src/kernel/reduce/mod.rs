//! Reductions: sum, min, max, argmin and argmax along dims.

pub mod fused_row;
pub(crate) mod nonfinite;
pub(crate) mod plan;
pub(crate) mod specialization;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::reduce::plan::{Params, Plan};
use crate::kernel::reduce::specialization::{arg_spec, partial_dtype, Strategy};
use crate::kernel::threads;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::{merge, to_u32};
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::op::{Family, Op, Output};
use crate::recorder::Recorder;

impl Recorder {
    /// Reduces `dims` of `x` with a row of OPS of the reduce family. The result has the other dims and is contiguous. Only `sum` accepts
    /// more or fewer than one dim, and dims without elements (the sum is 0).
    pub fn reduce(&self, op: &'static str, x: View<'_>, dims: &[usize]) -> Result<Value> {
        let row = Op::find(op, x.dtype)?;
        let invalid = |message: String| Error::Invalid { op, message };
        if row.family != Family::Reduce {
            return Err(invalid("not a reduction".into()));
        }
        if let Some(d) = dims.iter().find(|&&d| d >= x.dims.len()) {
            return Err(invalid(format!(
                "dim {d} of a tensor with {} dims",
                x.dims.len()
            )));
        }
        if op != "sum" && dims.len() != 1 {
            return Err(invalid(format!("takes one dim, not {}", dims.len())));
        }
        self.reduce_into(row, x, dims, row.output(x.dtype), false)
    }

    /// The sums over `dims` as another dtype: accumulated in f32 and rounded once.
    pub(crate) fn sum_to(&self, x: View<'_>, dims: &[usize], out: DType) -> Result<Value> {
        self.reduce_into(Op::find("sum", x.dtype)?, x, dims, out, false)
    }

    /// `later`: x is a part of what is reduced, and not the first one. Then its first element gets no special treatment as NaN.
    fn reduce_into(
        &self,
        row: &'static Op,
        x: View<'_>,
        dims: &[usize],
        out: DType,
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let split = |reduced: bool| -> (SmallVec<[usize; 8]>, SmallVec<[usize; 8]>) {
            (0..x.dims.len())
                .filter(|d| dims.contains(d) == reduced)
                .map(|d| (x.dims[d], x.strides[d]))
                .unzip()
        };
        let (kept_dims, kept_strides) = split(false);
        let (m_dims, m_strides) = split(true);
        let n: usize = kept_dims.iter().product();
        let m: usize = m_dims.iter().product();
        if n * m == 0 && op != "sum" {
            let message = "nothing to reduce".into();
            return Err(Error::Invalid { op, message });
        }
        if n == 0 {
            return self.output(op, 0, out);
        }
        if m == 0 {
            return self.fill(n, out, 0);
        }
        if !self.fits(x) || n.saturating_mul(out.size()) as u64 > self.binding_limit() {
            return self.reduce_in_halves(row, x, dims, out, later);
        }
        let (window, x) = self.binding_range(op, x)?;
        let kept = merge(op, &kept_dims, [&kept_strides[..]])?;
        let reduced = merge(op, &m_dims, [&m_strides[..]])?;
        let mut params = Params {
            n: to_u32(op, n)?,
            m: to_u32(op, m)?,
            chunks: 1,
            chunk: 0,
            x_offset: x.offset as u32,
            rank: kept.rank as u32,
            m_rank: reduced.rank as u32,
            later: later.into(),
            dims: kept.dims,
            strides: kept.strides[0],
            m_dims: reduced.dims,
            m_strides: reduced.strides[0],
        };
        let lanes = |y: DType| y.info().lanes as usize;
        let plan = Plan::new(self, &params, lanes(out));
        params.chunks = to_u32(op, plan.chunks)?;
        params.chunk = to_u32(op, plan.chunk)?;
        if plan.chunks == 1 {
            return self.reduce_pass(row, (window, x.dtype), out, &params, plan.strategy);
        }
        let partial_dtype = match row.output {
            Output::Index => DType::U32,
            _ => partial_dtype(x.dtype),
        };
        let Plan { strategy, .. } = Plan::new(self, &params, lanes(partial_dtype));
        let partial = self.reduce_pass(row, (window, x.dtype), partial_dtype, &params, strategy)?;
        if row.output == Output::Index {
            // The second pass: the best of the chunks' positions.
            let y = self.output(op, n, DType::U32)?;
            let ranges = [window, (&partial).into(), (&y).into()];
            self.record(arg_spec(op, x.dtype), &ranges, &params, threads(n))?;
            return Ok(y);
        }
        let partial = Part::all(&partial, partial_dtype, &[plan.chunks, n]);
        self.reduce_into(row, partial.view(), &[0], out, later)
    }

    /// A reduction whose input or result is larger than one binding.
    fn reduce_in_halves(
        &self,
        row: &'static Op,
        x: View<'_>,
        dims: &[usize],
        out: DType,
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let mut kept = x.dims.to_vec();
        dims.iter().for_each(|d| kept[*d] = 1);
        let n = kept.iter().product();
        let y = self.output(op, n, out)?;
        let mut y_part = Part::all(&y, out, &kept);
        for &d in dims {
            (y_part.dims[d], y_part.strides[d]) = (x.dims[d], 0);
        }
        let halves = self.pool.halve(op, &[x.into(), y_part], x.dims.len())?;
        if !dims.contains(&halves.dim) {
            for mut parts in halves.parts {
                let part = self.reduce_into(row, parts[0].view(), dims, out, later)?;
                dims.iter().for_each(|d| parts[1].dims[*d] = 1);
                self.paste(&part, parts[1].view())?;
            }
            return Ok(y);
        }
        let [first, second] = halves.parts.map(|mut parts| parts.swap_remove(0));
        if row.output == Output::Index {
            return self.winner_of(row, [first, second], (halves.dim, halves.mid), later);
        }
        let partial = partial_dtype(x.dtype);
        // Adjacent, so that they can be split as well.
        let both = self.output(op, 2 * n, partial)?;
        let both = Part::all(&both, partial, &[n, 2]);
        for (i, half) in [first, second].iter().enumerate() {
            let part = self.reduce_into(row, half.view(), dims, partial, later || i > 0)?;
            self.paste(&part, both.clone().narrow(1, i, 1).view())?;
        }
        self.reduce_into(row, both.view(), &[1], out, later)
    }

    /// argmin or argmax along a dim that was split: that of each half, then the better of the two.
    fn winner_of(
        &self,
        row: &'static Op,
        halves: [Part<'_>; 2],
        (dim, mid): (usize, usize),
        later: bool,
    ) -> Result<Value> {
        let op = row.name;
        let dtype = halves[0].dtype;
        let mut kept = halves[0].dims.clone();
        kept[dim] = 1;
        let n = kept.iter().product();
        let values = self.output(op, 2 * n, dtype)?;
        let values = Part::all(&values, dtype, &[n, 2]);
        let places = self.output(op, 2 * n, DType::U32)?;
        let places = Part::all(&places, DType::U32, &[n, 2]);
        for (i, half) in halves.iter().enumerate() {
            let won = self.reduce_into(row, half.view(), &[dim], DType::U32, later || i > 0)?;
            let won = Part::all(&won, DType::U32, &kept);
            let value = self.gather(half.view(), won.view(), dim)?;
            self.paste(&value, values.clone().narrow(1, i, 1).view())?;
            let place = self.unary("affine", won.view(), [1.0, (i * mid) as f64])?;
            self.paste(&place, places.clone().narrow(1, i, 1).view())?;
        }
        let best = self.reduce_into(row, values.view(), &[1], DType::U32, later)?;
        let best = Part::all(&best, DType::U32, &[n, 1]);
        self.gather(places.view(), best.view(), 1)
    }

    /// One dispatch: `chunks` partial results of each output.
    fn reduce_pass(
        &self,
        row: &'static Op,
        (x, dtype): (BindingRange<'_>, DType),
        out: DType,
        params: &Params,
        strategy: Strategy,
    ) -> Result<Value> {
        let (n, chunks) = (params.n as usize, params.chunks as usize);
        let y = self.output(row.name, n * chunks, out)?;
        let lanes = out.info().lanes as usize;
        let spec = strategy.spec(row.name, dtype, out);
        let grid = strategy.grid(n, lanes, chunks);
        self.record(spec, &[x, (&y).into()], params, grid)?;
        Ok(y)
    }
}
