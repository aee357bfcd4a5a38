//! Computes the CPU results that `verify` compares with. Candle 0.11.1's CPU backend has defects: the functions here work around
//! some, and [`known_defect`] names the others.

use candle_webgpu::kernel::attention::Attention;

use crate::backend::{BackendDevice, BackendStorage};
use crate::conv::ParamsConvTranspose1D;
use crate::cpu_backend::CpuDevice;
use crate::op::{BackpropOp, ReduceOp};
use crate::quantized::webgpu::QWebGpuStorage;
use crate::quantized::{QStorage, QTensor};
use crate::{CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor};

/// A contiguous copy of an operand.
pub(crate) type OnCpu = (CpuStorage, Layout);

/// The tolerance of matmuls with quantized matrices: kernels round the activations or the weights to fewer bits.
pub(crate) const ROUNDED: f64 = 2e-2;

/// Ops that Candle's CPU backend computes wrongly, by their names in messages.
const KNOWN_DEFECTS: &[(&str, &str)] = &[
    (
        "layer-norm",
        "it computes the variance in one pass, which cancels where the mean is large",
    ),
    ("argsort", "it leaves NaN in an arbitrary place"),
];

pub(super) fn known_defect(op: &str) -> Option<&'static str> {
    let known = KNOWN_DEFECTS.iter().find(|(name, _)| *name == op);
    known.map(|(_, defect)| *defect)
}

/// A contiguous copy of the elements that `l` selects.
pub(super) fn contiguous(storage: &CpuStorage, l: &Layout) -> Result<OnCpu> {
    let mut copy = CpuDevice.zeros_impl(l.shape(), storage.dtype())?;
    storage.copy_strided_src(&mut copy, 0, l)?;
    Ok((copy, Layout::contiguous(l.shape())))
}

/// Accumulates short floats in f32. The CPU rounds each partial sum to the dtype, so a sum of ones in bf16 stops at 256.
pub(crate) fn reduce_op(
    x: &CpuStorage,
    op: ReduceOp,
    l: &Layout,
    dims: &[usize],
) -> Result<CpuStorage> {
    match (op, x.dtype()) {
        (ReduceOp::Sum, dtype @ (DType::F16 | DType::BF16 | DType::F8E4M3)) => {
            let sums = x.to_dtype(l, DType::F32)?.reduce_op(op, l, dims)?;
            let all = (l.dims().iter().enumerate())
                .map(|(d, &n)| if dims.contains(&d) { 1 } else { n })
                .product::<usize>();
            sums.to_dtype(&Layout::contiguous(all), dtype)
        }
        _ => x.reduce_op(op, l, dims),
    }
}

/// Casts f8e4m3 to f64 through f32, which is exact. The CPU's direct cast is an endless recursion.
pub(crate) fn to_dtype(x: &CpuStorage, l: &Layout, dtype: DType) -> Result<CpuStorage> {
    match (x.dtype(), dtype) {
        (DType::F8E4M3, DType::F64) => x.to_dtype(l, DType::F32)?.to_dtype(l, dtype),
        _ => x.to_dtype(l, dtype),
    }
}

/// Interpolates f8e4m3 in f32, since the CPU's version uses the broken cast to f64 (see [`to_dtype`]).
pub(crate) fn upsample_bilinear2d(
    x: &CpuStorage,
    l: &Layout,
    h: usize,
    w: usize,
    align_corners: bool,
    scale_h: Option<f64>,
    scale_w: Option<f64>,
) -> Result<CpuStorage> {
    if x.dtype() != DType::F8E4M3 {
        return x.upsample_bilinear2d(l, h, w, align_corners, scale_h, scale_w);
    }
    let x = x.to_dtype(l, DType::F32)?;
    let y = x.upsample_bilinear2d(l, h, w, align_corners, scale_h, scale_w)?;
    let (b, c, _, _) = l.shape().dims4()?;
    y.to_dtype(&Layout::contiguous((b, c, h, w)), DType::F8E4M3)
}

/// Pads the rows of the kernel. With a contiguous kernel, the CPU computes a matmul with a broadcast right-hand side, which mixes
/// up the batches.
pub(crate) fn conv_transpose1d(
    x: &CpuStorage,
    l: &Layout,
    k: &CpuStorage,
    k_l: &Layout,
    p: &ParamsConvTranspose1D,
) -> Result<CpuStorage> {
    let (rows, c_out, size) = k_l.shape().dims3()?;
    let row = c_out * size;
    let mut apart = CpuDevice.zeros_impl(&Shape::from((rows, row + 1)), k.dtype())?;
    k.copy2d(&mut apart, rows, row, row, row + 1, 0, 0)?;
    let apart_l = Layout::new(k_l.shape().clone(), vec![row + 1, size, 1], 0);
    x.conv_transpose1d(l, &apart, &apart_l, p)
}

/// Convolves each group separately, as candle-core does.
pub(crate) fn grouped_conv(
    operands: &[OnCpu],
    groups: usize,
    [padding, stride, dilation]: [usize; 3],
) -> Result<CpuStorage> {
    let (x, k) = (tensor(operands, 0)?, tensor(operands, 1)?);
    let y = if x.rank() == 3 {
        x.conv1d(&k, padding, stride, dilation, groups)?
    } else {
        x.conv2d(&k, padding, stride, dilation, groups)?
    };
    elements(y, x.dtype())
}

/// Attention of q, k, v and an optional mask, in f32.
pub(crate) fn sdpa(operands: &[OnCpu], how: Attention) -> Result<CpuStorage> {
    let f32s = |i| tensor(operands, i)?.to_dtype(DType::F32);
    let q = f32s(0)?;
    let (b, heads, queries, _) = q.dims4()?;
    // Repeats each head of k and v for the query heads that share it.
    let repeat = |x: Tensor| {
        let (_, shared, keys, width) = x.dims4()?;
        let all = (b, shared, heads / shared.max(1), keys, width);
        let x = x.unsqueeze(2)?.broadcast_as(all)?;
        x.reshape((b, heads, keys, width))
    };
    let (k, v) = (repeat(f32s(1)?)?, repeat(f32s(2)?)?);
    let keys = k.dim(2)?;
    let mut scores = (q.matmul(&k.t()?)? * f64::from(how.scale))?;
    if how.softcapping != 1. {
        let cap = f64::from(how.softcapping);
        scores = ((scores / cap)?.tanh()? * cap)?;
    }
    if operands.len() > 3 {
        scores = scores.broadcast_add(&f32s(3)?)?;
    }
    if how.causal {
        let hidden = |at: usize| at % keys + queries > at / keys + keys;
        let mask = |at| if hidden(at) { f32::NEG_INFINITY } else { 0. };
        let mask = (0..queries * keys).map(mask).collect();
        let mask = Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?;
        scores = scores.broadcast_add(&mask)?;
    }
    let weights = scores.broadcast_sub(&scores.max_keepdim(3)?)?.exp()?;
    let sums = weights.sum_keepdim(3)?;
    let y = weights.broadcast_div(&sums)?.matmul(&v)?;
    elements(y, tensor(operands, 0)?.dtype())
}

/// The first elements of a quantized matrix.
pub(crate) fn dequantize(w: &QWebGpuStorage, dtype: DType, count: usize) -> Result<CpuStorage> {
    elements(unpacked(w, count)?, dtype)
}

/// The rows of a quantized matrix that the ids select.
pub(crate) fn embedding(
    w: &QWebGpuStorage,
    dims: (usize, usize),
    ids: &[OnCpu],
) -> Result<CpuStorage> {
    let ids = tensor(ids, 0)?.flatten_all()?;
    elements(unpacked(w, dims)?.index_select(&ids, 0)?, DType::F32)
}

/// `x` times the transpose of a quantized matrix (n, k).
pub(crate) fn qmatmul(w: &QWebGpuStorage, shape: &Shape, x: &[OnCpu]) -> Result<CpuStorage> {
    let (w, x) = (unpacked(w, shape)?, tensor(x, 0)?);
    let rows = x.to_dtype(DType::F32)?.reshape(((), w.dim(1)?))?;
    elements(rows.matmul(&w.t()?)?, x.dtype())
}

/// A mixture of experts: rows of `x` times the matrices that the ids select from a stack (experts, n, k).
pub(crate) fn mixture(
    w: &QWebGpuStorage,
    shape: &Shape,
    x_and_ids: &[OnCpu],
) -> Result<CpuStorage> {
    let (w, x, ids) = (
        unpacked(w, shape)?,
        tensor(x_and_ids, 0)?,
        tensor(x_and_ids, 1)?,
    );
    let ((tokens, picked), k) = (ids.dims2()?, w.dim(2)?);
    let rows = x.to_dtype(DType::F32)?.broadcast_as((tokens, picked, k))?;
    let rows = rows.reshape((tokens * picked, 1, k))?;
    let matrices = w.index_select(&ids.flatten_all()?, 0)?;
    elements(rows.matmul(&matrices.transpose(1, 2)?)?, x.dtype())
}

/// The first elements of a quantized matrix, unpacked by the CPU.
fn unpacked(w: &QWebGpuStorage, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    let blocks = QStorage::from_data(w.data()?.into(), &Device::Cpu, w.dtype())?;
    let all = QTensor::new(blocks, w.count())?.dequantize(&Device::Cpu)?;
    all.narrow(0, 0, shape.elem_count())?.reshape(shape)
}

fn tensor(operands: &[OnCpu], i: usize) -> Result<Tensor> {
    let Some((storage, l)) = operands.get(i) else {
        crate::bail!("there is no operand {i}")
    };
    let (storage, shape) = (Storage::Cpu(storage.clone()), l.shape().clone());
    Ok(crate::tensor::from_storage(
        storage,
        shape,
        BackpropOp::none(),
        false,
    ))
}

fn elements(x: Tensor, dtype: DType) -> Result<CpuStorage> {
    match &*x.to_dtype(dtype)?.contiguous()?.storage() {
        Storage::Cpu(storage) => Ok(storage.clone()),
        _ => crate::bail!("a CPU tensor is not in CPU storage"),
    }
}
