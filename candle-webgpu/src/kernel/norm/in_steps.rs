//! f64, and rows larger than a binding: softmax, norms and rotary embeddings composed of elementwise kernels and reductions.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::norm::flat;
use crate::memory::buffer::Value;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::Recorder;

/// Views of new values: rows of one length, or one number per row or per column.
struct Rows {
    dtype: DType,
    dims: [usize; 2],
}

impl Rows {
    fn all<'a>(&self, v: &'a Value) -> Part<'a> {
        Part::all(v, self.dtype, &self.dims)
    }

    fn per_row<'a>(&self, v: &'a Value) -> Part<'a> {
        self.line(v).repeat(1, self.dims[1])
    }

    fn per_column<'a>(&self, v: &'a Value) -> Part<'a> {
        Part::all(v, self.dtype, &self.dims[1..]).repeat(0, self.dims[0])
    }

    /// One number per row, as a vector.
    fn line<'a>(&self, v: &'a Value) -> Part<'a> {
        Part::all(v, self.dtype, &self.dims[..1])
    }

    fn mean(&self, device: &Recorder, v: &Value) -> Result<Value> {
        let sum = device.reduce("sum", self.all(v).view(), &[1])?;
        let scale = 1.0 / self.dims[1] as f64;
        device.unary("affine", self.line(&sum).view(), [scale, 0.0])
    }
}

/// Every `step`-th element of the last of four dims: `size` of them, from element `from` on.
fn every<'a>(v: &Part<'a>, from: usize, step: usize, size: usize) -> Part<'a> {
    let mut part = v.clone().narrow(3, from, size);
    part.strides[3] *= step;
    part
}

impl Recorder {
    /// Softmax over the last dim, composed of elementwise ops and reductions.
    pub(crate) fn softmax_in_steps(&self, x: View<'_>) -> Result<Value> {
        let n = x.dims.last().copied().unwrap_or(1);
        let rows = x.count().checked_div(n).unwrap_or(0);
        if rows == 0 {
            return self.output("softmax_last_dim", 0, x.dtype);
        }
        let (dtype, dims) = (x.dtype, [rows, n]);
        let rows = Rows { dtype, dims };
        let flat = flat(self, x)?;
        let strides = [n, 1];
        let x = flat.view(dtype, &dims, &strides);
        let max = self.reduce("max", x, &[1])?;
        let shifted = self.binary("bsub", x, rows.per_row(&max).view())?;
        let exps = self.unary("uexp", rows.all(&shifted).view(), [0.0; 2])?;
        let exps = rows.all(&exps);
        let sum = self.reduce("sum", exps.view(), &[1])?;
        self.binary("bdiv", exps.view(), rows.per_row(&sum).view())
    }

    /// rms_norm over the last dim, or layer_norm if there is a beta, in f32, composed of elementwise ops and reductions.
    pub(crate) fn norm_in_steps(
        &self,
        x: View<'_>,
        alpha: View<'_>,
        beta: Option<View<'_>>,
        eps: f32,
    ) -> Result<Value> {
        let n = alpha.dims[0];
        let (dtype, dims) = (DType::F32, [x.count() / n, n]);
        let rows = Rows { dtype, dims };
        let with = |op, y: &Value, v: Part<'_>| self.binary(op, rows.all(y).view(), v.view());
        let mut y = self.cast(x, dtype)?;
        if beta.is_some() {
            let mean = rows.mean(self, &y)?;
            y = with("bsub", &y, rows.per_row(&mean))?;
        }
        let square = rows.mean(self, &self.unary("usqr", rows.all(&y).view(), [0.0; 2])?)?;
        let square = self.unary("affine", rows.line(&square).view(), [1.0, eps.into()])?;
        let root = self.unary("usqrt", rows.line(&square).view(), [0.0; 2])?;
        y = with("bdiv", &y, rows.per_row(&root))?;
        y = with("bmul", &y, rows.per_column(&self.cast(alpha, dtype)?))?;
        if let Some(beta) = beta {
            y = with("badd", &y, rows.per_column(&self.cast(beta, dtype)?))?;
        }
        self.cast(rows.all(&y).view(), x.dtype)
    }

    /// Rotary embedding of x, composed of elementwise ops. The dims of `cos` and `sin` are those of x with the last one halved.
    /// `halves` pairs element i with i + d / 2; otherwise pairs are adjacent.
    pub(crate) fn rotate_in_steps(
        &self,
        [x, cos, sin]: [View<'_>; 3],
        halves: bool,
    ) -> Result<Value> {
        let half = x.dims[3] / 2;
        // The distance within a pair, and from pair to pair.
        let (apart, step) = if halves { (half, 1) } else { (1, 2) };
        let y = self.output("rope", x.count(), x.dtype)?;
        let (x, y_part) = (Part::from(x), Part::all(&y, x.dtype, x.dims));
        let (c, s) = (self.contiguous(cos)?, self.contiguous(sin)?);
        let [c, s] = [&c, &s].map(|v| Part::all(v, cos.dtype, cos.dims));
        for (k, op) in ["bsub", "badd"].into_iter().enumerate() {
            let [near, far] = [k, 1 - k].map(|k| every(&x, k * apart, step, half));
            let u = self.binary("bmul", near.view(), c.view())?;
            let v = self.binary("bmul", far.view(), s.view())?;
            let [u, v] = [&u, &v].map(|v| Part::all(v, cos.dtype, cos.dims));
            let sum = self.binary(op, u.view(), v.view())?;
            let sum = Part::all(&sum, cos.dtype, cos.dims);
            let to = every(&y_part, k * apart, step, half);
            self.copy_into(sum.view(), to.view())?;
        }
        Ok(y)
    }
}
