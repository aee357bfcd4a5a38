//! f64, and rows larger than a binding: a matmul kernel for f64, and fused ops composed of elementwise kernels and reductions.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::problem::Params;
use crate::kernel::norm::flat;
use crate::memory::buffer::Value;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{Access, Kernel, Specialization};

pub static MATMUL_F64: Kernel = Kernel {
    slots: |spec, text| {
        text.ops(spec.info(2).compute);
        Ok(())
    },
    ..kernel!("matmul", "matmul_f64", Params::LAYOUT.first(15); read a, read b, write y)
};

pub(crate) fn matmul_spec(dtype: DType) -> Specialization {
    let [read, write] = [Access::Words, Access::PutWord].map(|access| (dtype, access));
    Specialization::new(&MATMUL_F64, "", &[read, read, write])
}

pub fn catalogue() -> Vec<Specialization> {
    vec![matmul_spec(DType::F64)]
}

/// Views of new values: rows of one length, or one number per row or per column.
struct Rows {
    dtype: DType,
    dims: [usize; 2],
    strides: [usize; 2],
}

impl Rows {
    fn new(dtype: DType, rows: usize, n: usize) -> Self {
        let (dims, strides) = ([rows, n], [n, 1]);
        Rows {
            dtype,
            dims,
            strides,
        }
    }

    fn all<'a>(&'a self, v: &'a Value) -> View<'a> {
        all(v, self.dtype, &self.dims, &self.strides)
    }

    fn per_row<'a>(&'a self, v: &'a Value) -> View<'a> {
        all(v, self.dtype, &self.dims, &[1, 0])
    }

    fn per_column<'a>(&'a self, v: &'a Value) -> View<'a> {
        all(v, self.dtype, &self.dims, &[0, 1])
    }

    /// One number per row, as a vector.
    fn line<'a>(&'a self, v: &'a Value) -> View<'a> {
        all(v, self.dtype, &self.dims[..1], &[1])
    }

    fn mean(&self, device: &Recorder, v: &Value) -> Result<Value> {
        let sum = device.reduce("sum", self.all(v), &[1])?;
        device.unary("affine", self.line(&sum), [1.0 / self.dims[1] as f64, 0.0])
    }
}

/// A view of a whole new value.
fn all<'a>(value: &'a Value, dtype: DType, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
    View {
        value,
        dtype,
        dims,
        strides,
        offset: 0,
    }
}

impl Recorder {
    /// Softmax over the last dim, composed of elementwise ops and reductions.
    pub(crate) fn softmax_in_steps(&self, x: View<'_>) -> Result<Value> {
        let n = x.dims.last().copied().unwrap_or(1);
        let rows = x.count().checked_div(n).unwrap_or(0);
        if rows == 0 {
            return self.output("softmax_last_dim", 0, x.dtype);
        }
        let rows = Rows::new(x.dtype, rows, n);
        let flat = flat(self, x)?;
        let x = flat.view(x.dtype, &rows.dims, &rows.strides);
        let max = self.reduce("max", x, &[1])?;
        let shifted = self.binary("bsub", x, rows.per_row(&max))?;
        let exps = self.unary("uexp", rows.all(&shifted), [0.0; 2])?;
        let sum = self.reduce("sum", rows.all(&exps), &[1])?;
        self.binary("bdiv", rows.all(&exps), rows.per_row(&sum))
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
        let rows = Rows::new(DType::F32, x.count() / n, n);
        let mut y = self.cast(x, rows.dtype)?;
        if beta.is_some() {
            let mean = rows.mean(self, &y)?;
            y = self.binary("bsub", rows.all(&y), rows.per_row(&mean))?;
        }
        let square = rows.mean(self, &self.unary("usqr", rows.all(&y), [0.0; 2])?)?;
        let square = self.unary("affine", rows.line(&square), [1.0, eps.into()])?;
        let root = self.unary("usqrt", rows.line(&square), [0.0; 2])?;
        y = self.binary("bdiv", rows.all(&y), rows.per_row(&root))?;
        let alpha = self.cast(alpha, rows.dtype)?;
        y = self.binary("bmul", rows.all(&y), rows.per_column(&alpha))?;
        if let Some(beta) = beta {
            let beta = self.cast(beta, rows.dtype)?;
            y = self.binary("badd", rows.all(&y), rows.per_column(&beta))?;
        }
        self.cast(rows.all(&y), x.dtype)
    }

    /// Rotary embedding of x, composed of elementwise ops. The dims of `cos` and `sin` are those of x with the last one halved.
    /// `halves` pairs element i with i + d / 2; otherwise pairs are adjacent.
    pub(crate) fn rotate_in_steps(
        &self,
        [x, cos, sin]: [View<'_>; 3],
        halves: bool,
    ) -> Result<Value> {
        let [b, i, j, d] = [x.dims[0], x.dims[1], x.dims[2], x.dims[3]];
        let dims = [b, i, j, d / 2];
        let y = self.output("rope", x.count(), x.dtype)?;
        // The distance within a pair, and from pair to pair.
        let (apart, step) = if halves { (d / 2, 1) } else { (1, 2) };
        let last = x.strides[3];
        let strides = [x.strides[0], x.strides[1], x.strides[2], last * step];
        let part = |k: usize| View {
            dims: &dims,
            strides: &strides,
            offset: x.offset + k * apart * last,
            ..x
        };
        let (c, s) = (self.contiguous(cos)?, self.contiguous(sin)?);
        let flat = [i * j * (d / 2), j * (d / 2), d / 2, 1];
        let out = [i * j * d, j * d, d, step];
        for (k, op) in ["bsub", "badd"].into_iter().enumerate() {
            let u = self.binary("bmul", part(k), all(&c, x.dtype, &dims, &flat))?;
            let v = self.binary("bmul", part(1 - k), all(&s, x.dtype, &dims, &flat))?;
            let sum = self.binary(
                op,
                all(&u, x.dtype, &dims, &flat),
                all(&v, x.dtype, &dims, &flat),
            )?;
            let to = View {
                offset: k * apart,
                ..all(&y, x.dtype, &dims, &out)
            };
            self.copy_into(all(&sum, x.dtype, &dims, &flat), to)?;
        }
        Ok(y)
    }
}
