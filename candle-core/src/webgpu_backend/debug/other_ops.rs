//! Checks of the ops that are not in `BackendStorage`. Each takes the operands, with their layouts, and the result.

use candle_webgpu::kernel::attention::Attention;

use super::{reference, Call};
use crate::quantized::webgpu::QWebGpuStorage;
use crate::WebGpuStorage;
use crate::{CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor};

type Operand<'a> = (&'a WebGpuStorage, &'a Layout);

pub(crate) fn custom1(op: &dyn CustomOp1, (a, a_l): Operand<'_>, y: &WebGpuStorage) -> Result<()> {
    Call::new(op.name(), &[("self", a, a_l)]).check(y, |copies| {
        let (a, a_l) = &copies[0];
        Ok(op.cpu_fwd(a, a_l)?.0)
    })
}

pub(crate) fn custom2(
    op: &dyn CustomOp2,
    [(a, a_l), (b, b_l)]: [Operand<'_>; 2],
    y: &WebGpuStorage,
) -> Result<()> {
    Call::new(op.name(), &[("self", a, a_l), ("b", b, b_l)]).check(y, |copies| {
        let ((a, a_l), (b, b_l)) = (&copies[0], &copies[1]);
        Ok(op.cpu_fwd(a, a_l, b, b_l)?.0)
    })
}

pub(crate) fn custom3(
    op: &dyn CustomOp3,
    [(a, a_l), (b, b_l), (c, c_l)]: [Operand<'_>; 3],
    y: &WebGpuStorage,
) -> Result<()> {
    let operands = [("self", a, a_l), ("b", b, b_l), ("c", c, c_l)];
    Call::new(op.name(), &operands).check(y, |copies| {
        let ((a, a_l), (b, b_l), (c, c_l)) = (&copies[0], &copies[1], &copies[2]);
        Ok(op.cpu_fwd(a, a_l, b, b_l, c, c_l)?.0)
    })
}

/// `moves` are padding, stride and dilation.
pub(crate) fn grouped_conv(
    (x, l): Operand<'_>,
    (k, k_l): Operand<'_>,
    groups: usize,
    moves: [usize; 3],
    y: Option<&WebGpuStorage>,
) -> Result<()> {
    let Some(y) = y else { return Ok(()) };
    Call::new("grouped_conv", &[("self", x, l), ("k", k, k_l)])
        .with(&[("groups", &groups), ("moves", &moves)])
        .in_f32()
        .check(y, |copies| reference::grouped_conv(copies, groups, moves))
}

pub(crate) fn sdpa(
    [(q, q_l), (k, k_l), (v, v_l)]: [Operand<'_>; 3],
    mask: Option<&Tensor>,
    how: Attention,
    y: &WebGpuStorage,
) -> Result<()> {
    let mask = mask.map(Tensor::storage_and_layout);
    let mask = mask.as_ref().and_then(|(storage, l)| match &**storage {
        Storage::WebGpu(storage) => Some(("mask", storage, *l)),
        _ => None,
    });
    let operands = [("q", q, q_l), ("k", k, k_l), ("v", v, v_l)]
        .into_iter()
        .chain(mask);
    Call::new("sdpa", &operands.collect::<Vec<_>>())
        .with(&[
            ("causal", &how.causal),
            ("scale", &how.scale),
            ("softcapping", &how.softcapping),
        ])
        .check(y, |copies| reference::sdpa(copies, how))
}

pub(crate) fn dequantize(w: &QWebGpuStorage, dtype: DType, y: &WebGpuStorage) -> Result<()> {
    let count = y.count();
    Call::new("dequantize", &[])
        .with(&[("weights", &w.dtype()), ("count", &count)])
        .check(y, |_| reference::dequantize(w, dtype, count))
}

pub(crate) fn embedding(
    w: &QWebGpuStorage,
    dims: (usize, usize),
    (ids, ids_l): Operand<'_>,
    y: &WebGpuStorage,
) -> Result<()> {
    Call::new("embedding", &[("ids", ids, ids_l)])
        .with(&[("weights", &(w.dtype(), dims))])
        .check(y, |copies| reference::embedding(w, dims, copies))
}

pub(crate) fn qmatmul(
    w: &QWebGpuStorage,
    shape: &Shape,
    (x, l): Operand<'_>,
    y: &WebGpuStorage,
) -> Result<()> {
    Call::new("qmatmul", &[("x", x, l)])
        .with(&[("weights", &(w.dtype(), shape))])
        .within(reference::ROUNDED)
        .check(y, |copies| reference::qmatmul(w, shape, copies))
}

pub(crate) fn indexed_moe_forward(
    w: &QWebGpuStorage,
    shape: &Shape,
    (x, l): Operand<'_>,
    (ids, ids_l): Operand<'_>,
    y: &WebGpuStorage,
) -> Result<()> {
    Call::new("indexed_moe_forward", &[("x", x, l), ("ids", ids, ids_l)])
        .with(&[("weights", &(w.dtype(), shape))])
        .within(reference::ROUNDED)
        .check(y, |copies| reference::mixture(w, shape, copies))
}
