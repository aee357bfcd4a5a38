//! Convolutions against the CPU in f64.

use anyhow::Context;
use candle_core::{DType, Device, Tensor, Var};

use crate::bound::{close, Bound, MATMUL};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, FLOATS};

type View = fn(Tensor) -> candle_core::Result<Tensor>;

/// Batch, channels in, channels out, length, taps, padding, stride, dilation, groups.
type Line = [usize; 9];

#[rustfmt::skip]
const LINES: &[Line] = &[
    [1, 1, 1, 7,  3, 0, 1, 1, 1],
    [2, 3, 4, 16, 3, 1, 1, 1, 1],
    [2, 4, 6, 19, 5, 2, 2, 1, 2],
    [1, 4, 4, 15, 3, 2, 1, 2, 4],
    [3, 8, 5, 20, 1, 0, 1, 1, 1],
    [1, 5, 7, 33, 7, 3, 3, 1, 1],
    [1, 80, 64, 30, 3, 1, 2, 1, 1],
    [2, 9, 18, 17, 4, 1, 1, 1, 3],
    [1, 4, 64, 11, 3, 1, 1, 1, 2],
];

/// Batch, channels in, channels out, height, width, taps, padding, stride, dilation, groups.
type Plane = [usize; 10];

#[rustfmt::skip]
const PLANES: &[Plane] = &[
    [1, 1, 1, 5, 5,   3, 0, 1, 1, 1],
    [2, 3, 4, 9, 7,   3, 1, 1, 1, 1],
    [1, 4, 6, 12, 11, 3, 1, 2, 1, 2],
    [1, 6, 6, 10, 10, 3, 2, 1, 2, 6],
    [2, 5, 3, 8, 8,   1, 0, 1, 1, 1],
    [1, 3, 16, 28, 28, 4, 0, 4, 1, 1],
    [1, 32, 40, 9, 10, 3, 1, 1, 1, 1],
    [2, 8, 12, 7, 9, 3, 1, 1, 1, 4],
    [1, 12, 12, 10, 6, 5, 2, 1, 1, 12],
    // For cooperative matrices: whole and partial rows and tiles, strides, dilations, parts of k, large tiles.
    [2, 16, 40, 20, 24, 3, 1, 1, 1, 1],
    [2, 8, 70, 9, 21, 3, 2, 1, 2, 1],
    [2, 24, 33, 14, 15, 3, 1, 2, 1, 1],
    [1, 8, 48, 16, 14, 2, 0, 3, 1, 1],
    [2, 64, 64, 8, 8, 2, 1, 1, 1, 1],
    [1, 8, 1024, 32, 64, 3, 1, 1, 1, 1],
    // Long sums of few outputs, in parts: a last part that is shorter, and a kernel as large as an image, as in gradients.
    [2, 70, 9, 9, 7, 3, 1, 1, 1, 1],
    [3, 24, 6, 10, 10, 8, 0, 1, 1, 1],
];

/// Views of the same shape with other strides.
#[rustfmt::skip]
const VIEWS: [(&str, View); 3] = [
    ("contiguous", Ok),
    ("transposed", |t| t.transpose(0, 1)?.contiguous()?.transpose(0, 1)),
    ("offset",     |t| Tensor::cat(&[&t, &t], 0)?.narrow(0, t.dim(0)?, t.dim(0)?)),
];

/// Numbers of magnitude at most 1.
fn operand(dtype: DType, dims: &[usize], seed: u64) -> anyhow::Result<Tensor> {
    let t = tensor(DType::F32, dims, seed, Fill::Small)?;
    Ok((t * 0.5)?.to_dtype(dtype)?)
}

/// The CPU has defects with strides, so only the device gets the view.
fn seen(t: &Tensor, view: View) -> candle_core::Result<Tensor> {
    match t.device() {
        Device::Cpu => Ok(t.clone()),
        _ => view(t.clone()),
    }
}

pub fn add(cases: &mut Cases) {
    gradient(cases);
    for dtype in FLOATS {
        for (layout, view) in VIEWS {
            lines(cases, dtype, layout, view);
            planes(cases, dtype, layout, view);
        }
    }
}

fn lines(cases: &mut Cases, dtype: DType, layout: &str, view: View) {
    for &[b, c, o, n, k, padding, stride, dilation, groups] in LINES {
        let what = format!(
            "{}/{layout}/{b}x{c}x{n}*{o}x{k}p{padding}s{stride}d{dilation}g{groups}",
            dtype.as_str()
        );
        cases.add(format!("conv1d/{what}"), move |d| {
            let operands = [
                operand(dtype, &[b, c, n], 1)?,
                operand(dtype, &[o, c / groups, k], 2)?,
            ];
            check(d, &operands.map(Operand::of), MATMUL, |t| {
                seen(&t[0], view)?.conv1d(&seen(&t[1], view)?, padding, stride, dilation, groups)
            })
        });
        // The CPU is wrong if it folds columns of several batches and channels (0.11.1).
        let folds = b > 1 && c > 1 && padding == 0 && dilation == 1;
        if !folds && groups == 1 {
            cases.add(format!("conv_transpose1d/{what}"), move |d| {
                let operands = [
                    operand(dtype, &[b, c, n], 3)?,
                    operand(dtype, &[c, o, k], 4)?,
                ];
                check(d, &operands.map(Operand::of), MATMUL, |t| {
                    let (x, w) = (seen(&t[0], view)?, seen(&t[1], view)?);
                    x.conv_transpose1d(&w, padding, 0, stride, dilation, 1)
                })
            });
        }
    }
}

fn planes(cases: &mut Cases, dtype: DType, layout: &str, view: View) {
    for &[b, c, o, h, w, k, padding, stride, dilation, groups] in PLANES {
        let what = format!(
            "{}/{layout}/{b}x{c}x{h}x{w}*{o}x{k}p{padding}s{stride}d{dilation}g{groups}",
            dtype.as_str()
        );
        cases.add(format!("conv2d/{what}"), move |d| {
            let operands = [
                operand(dtype, &[b, c, h, w], 5)?,
                operand(dtype, &[o, c / groups, k, k], 6)?,
            ];
            check(d, &operands.map(Operand::of), MATMUL, |t| {
                seen(&t[0], view)?.conv2d(&seen(&t[1], view)?, padding, stride, dilation, groups)
            })
        });
        if groups == 1 {
            cases.add(format!("conv_transpose2d/{what}"), move |d| {
                let operands = [
                    operand(dtype, &[b, c, h, w], 7)?,
                    operand(dtype, &[c, o, k, k], 8)?,
                ];
                let rest = usize::from(stride > 1);
                check(d, &operands.map(Operand::of), MATMUL, |t| {
                    let (x, w) = (seen(&t[0], view)?, seen(&t[1], view)?);
                    x.conv_transpose2d(&w, padding, rest, stride, dilation)
                })
            });
        }
    }
}

/// The sum of the squares of y = x * w has the gradient 2 * y * (x * unit) in each weight. The CPU's gradient is wrong
/// for two or more batches (0.11.1).
fn gradient(cases: &mut Cases) {
    for (groups, stride) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        cases.add(format!("conv1d/gradient/g{groups}s{stride}"), move |d| {
            let cpu = &Device::Cpu;
            let x = tensor(DType::F64, &[2, 4, 5], 9, Fill::Small)?;
            let w = tensor(DType::F64, &[4, 4 / groups, 4], 10, Fill::Small)?;
            let sum = |x: &Tensor, w: &Tensor| x.conv1d(w, 2, stride, 1, groups)?.sqr()?.sum_all();
            let weigh = |w: &Tensor, by: &Tensor| {
                let y = x.conv1d(w, 2, stride, 1, groups)?;
                (y * by)?.sum_all()?.to_scalar::<f64>()
            };
            let y = x.conv1d(&w, 2, stride, 1, groups)?;
            let mut expected = Vec::new();
            for i in 0..w.elem_count() {
                let unit: Vec<f64> = (0..w.elem_count()).map(|j| f64::from(i == j)).collect();
                let unit = Tensor::from_vec(unit, w.shape(), cpu)?;
                expected.push(2. * weigh(&unit, &y)?);
            }
            let expected = Tensor::from_vec(expected, w.shape(), cpu)?;
            let here = Var::from_tensor(&w.to_dtype(DType::F32)?.to_device(d)?)?;
            let x = x.to_dtype(DType::F32)?.to_device(d)?;
            let grads = sum(&x, &here)?.backward()?;
            let grad = grads.get(&here).context("no gradient")?;
            let bound = Bound {
                abs: 1e-3,
                ..MATMUL
            };
            close(&expected, grad, bound)
        });
    }
}
