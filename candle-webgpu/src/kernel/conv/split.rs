//! Convolutions that do not fit in one binding, or have too many terms for a thread: split along the batch, the output channels, or the
//! input channels, whose partial sums are added.

use crate::error::Result;
use crate::kernel::conv::{ConvParams, Problem};
use crate::memory::buffer::Value;
use crate::memory::split::{Halves, Part};
use crate::memory::view::View;
use crate::recorder::Recorder;

impl Recorder {
    pub(crate) fn convolve(
        &self,
        op: &'static str,
        x: View<'_>,
        w: View<'_>,
        params: ConvParams,
        transposed: bool,
    ) -> Result<Value> {
        let problem = Problem::new(op, [x, w], params, transposed, 1)?;
        let long = problem.k() > problem.most_terms() && problem.x.dims[1] > 1;
        if !long && problem.fits(self, [x, w]) {
            return problem.run(self);
        }
        const INPUT: usize = 2;
        let [batch, c_in, ..] = problem.x.dims;
        let c_out = problem.w.dims[0];
        // Lines have no h.
        let spatial = &problem.out[4 - x.dims.len()..];
        let dims = [&[batch, c_out], spatial].concat();
        let y = self.output(op, problem.outputs(), x.dtype)?;
        let parts = [
            Part::from(x).repeat(1, c_out),
            channels(w.into(), transposed).repeat(0, batch),
            Part::all(&y, x.dtype, &dims).repeat(INPUT, c_in),
        ];
        let halves = if long {
            Halves::new(&parts, INPUT, c_in / 2)
        } else {
            self.pool.halve(op, &parts, 3)?
        };
        if halves.dim != INPUT {
            for parts in halves.parts {
                let [x, w] = operands(&parts, transposed);
                let piece = self.convolve(op, x.view(), w.view(), params, transposed)?;
                self.paste(&piece, parts[2].clone().without(INPUT).view())?;
            }
            return Ok(y);
        }
        let wide = x.dtype.info().compute.dtype();
        let half = |parts: &[Part<'_>]| {
            let [x, w] = operands(parts, transposed);
            let [x_wide, w_wide] = [self.cast(x.view(), wide)?, self.cast(w.view(), wide)?];
            let (x, w) = (
                Part::all(&x_wide, wide, &x.dims),
                Part::all(&w_wide, wide, &w.dims),
            );
            self.convolve(op, x.view(), w.view(), params, transposed)
        };
        let sums = [half(&halves.parts[0])?, half(&halves.parts[1])?];
        let [first, second] = sums.each_ref().map(|v| Part::all(v, wide, &dims));
        let sum = self.binary("badd", first.view(), second.view())?;
        self.cast(Part::all(&sum, wide, &dims).view(), x.dtype)
    }
}

/// Swaps input and output channels of a transposed convolution's kernel.
fn channels(mut w: Part<'_>, transposed: bool) -> Part<'_> {
    if transposed {
        w.dims.swap(0, 1);
        w.strides.swap(0, 1);
    }
    w
}

/// The input and the kernel of a part.
fn operands<'a>(parts: &[Part<'a>], transposed: bool) -> [Part<'a>; 2] {
    let [x, w] = [parts[0].clone().without(1), parts[1].clone().without(0)];
    [x, channels(w, transposed)]
}
