//! `CANDLE_WEBGPU_VERIFY=1` for what is no method of `BackendStorage`: custom ops by their own `cpu_fwd` (softmax, norms, rotary
//! embeddings and sorting among them), attention and quantized matrices by ops of tensors on the CPU.

use super::verify::{on_cpu, tolerance, Call};
use super::WebGpuStorage;
use crate::backend::{BackendDevice, BackendStorage};
use crate::cpu_backend::CpuDevice;
use crate::op::BackpropOp;
use crate::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Device, Layout, Result, Shape, Storage,
    Tensor,
};

type Forward = Result<(WebGpuStorage, Shape)>;
pub(crate) type Operand<'a> = (&'static str, &'a WebGpuStorage, &'a Layout);

impl WebGpuStorage {
    pub(crate) fn custom1(&self, c: &dyn CustomOp1, l: &Layout) -> Forward {
        let done = c.webgpu_fwd(self, l)?;
        check(c.name(), &[("self", self, l)], &done.0, |s| {
            Ok(c.cpu_fwd(&s[0], l)?.0)
        })?;
        Ok(done)
    }

    pub(crate) fn custom2(&self, c: &dyn CustomOp2, l: &Layout, b: &Self, b_l: &Layout) -> Forward {
        let done = c.webgpu_fwd(self, l, b, b_l)?;
        let of = [("self", self, l), ("b", b, b_l)];
        check(c.name(), &of, &done.0, |s| {
            Ok(c.cpu_fwd(&s[0], l, &s[1], b_l)?.0)
        })?;
        Ok(done)
    }

    pub(crate) fn custom3(
        &self,
        op: &dyn CustomOp3,
        l: &Layout,
        (b, b_l): (&Self, &Layout),
        (c, c_l): (&Self, &Layout),
    ) -> Forward {
        let done = op.webgpu_fwd(self, l, b, b_l, c, c_l)?;
        let of = [("self", self, l), ("b", b, b_l), ("c", c, c_l)];
        check(op.name(), &of, &done.0, |s| {
            Ok(op.cpu_fwd(&s[0], l, &s[1], b_l, &s[2], c_l)?.0)
        })?;
        Ok(done)
    }
}

/// Compares `here` with what the CPU makes of the operands' storages, where it makes anything of them.
fn check(
    op: &'static str,
    of: &[Operand<'_>],
    here: &WebGpuStorage,
    there: impl FnOnce(&[CpuStorage]) -> Result<CpuStorage>,
) -> Result<()> {
    compare(op, of, here, tolerance(here.dtype()), there)
}

fn compare(
    op: &'static str,
    of: &[Operand<'_>],
    here: &WebGpuStorage,
    tolerance: f64,
    there: impl FnOnce(&[CpuStorage]) -> Result<CpuStorage>,
) -> Result<()> {
    if !here.device().runtime().verifies() {
        return Ok(());
    }
    let storages = of.iter().map(|(_, s, _)| s.to_cpu_storage());
    let storages = storages.collect::<Result<Vec<_>>>()?;
    let Some(there) = on_cpu(|| there(&storages)) else {
        return Ok(());
    };
    let mut call = Call::new(&[op]);
    for ((name, _, l), storage) in of.iter().zip(storages) {
        call.argument(name, &[], l);
        call.operands.push((name, storage));
    }
    call.compare(there, here, tolerance)
}

/// A tensor on the CPU, contiguous.
fn dense(storage: &CpuStorage, l: &Layout) -> Result<Tensor> {
    let mut all = CpuDevice.zeros_impl(l.shape(), storage.dtype())?;
    storage.copy_strided_src(&mut all, 0, l)?;
    let (all, none) = (Storage::Cpu(all), BackpropOp::none());
    Ok(crate::tensor::from_storage(
        all,
        l.shape().clone(),
        none,
        false,
    ))
}

/// The elements of a tensor on the CPU, in this dtype.
fn elements(x: Tensor, dtype: DType) -> Result<CpuStorage> {
    match &*x.to_dtype(dtype)?.contiguous()?.storage() {
        Storage::Cpu(storage) => Ok(storage.clone()),
        _ => crate::bail!("a tensor of the CPU is elsewhere"),
    }
}

/// Attention by products and sums in f32. See `nn::sdpa`.
pub(crate) fn attention(
    qkv: [Operand<'_>; 3],
    mask: Option<Operand<'_>>,
    how: candle_webgpu::kernel::attention::Attention,
    here: &WebGpuStorage,
) -> Result<()> {
    let of: Vec<_> = qkv.into_iter().chain(mask).collect();
    check("sdpa", &of, here, |storages| {
        let tensor =
            |(s, (_, _, l)): (&CpuStorage, &Operand<'_>)| dense(s, l)?.to_dtype(DType::F32);
        let tensors: Vec<Tensor> = storages
            .iter()
            .zip(&of)
            .map(tensor)
            .collect::<Result<_>>()?;
        let q = &tensors[0];
        let (b, heads, queries, _) = q.dims4()?;
        let each = |x: &Tensor| {
            let (_, shared, keys, width) = x.dims4()?;
            let all = (b, shared, heads / shared.max(1), keys, width);
            x.unsqueeze(2)?
                .broadcast_as(all)?
                .reshape((b, heads, keys, width))
        };
        let (k, v) = (each(&tensors[1])?, each(&tensors[2])?);
        let keys = k.dim(2)?;
        let mut scores = (q.matmul(&k.t()?)? * f64::from(how.scale))?;
        if how.softcapping != 1. {
            let cap = f64::from(how.softcapping);
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        if let Some(mask) = tensors.get(3) {
            scores = scores.broadcast_add(mask)?;
        }
        if how.causal {
            let hidden = |at: usize| at % keys + queries > at / keys + keys;
            let mask =
                (0..queries * keys).map(|at| if hidden(at) { f32::NEG_INFINITY } else { 0. });
            let mask = Tensor::from_vec(mask.collect(), (queries, keys), &Device::Cpu)?;
            scores = scores.broadcast_add(&mask)?;
        }
        let weights = scores.broadcast_sub(&scores.max_keepdim(3)?)?.exp()?;
        let sums = weights.sum_keepdim(3)?;
        elements(weights.broadcast_div(&sums)?.matmul(&v)?, here.dtype())
    })
}

/// Products by quantized matrices round their activations, or the matrices.
const ROUNDED: f64 = 2e-2;

/// What an op makes of a matrix, here in f32 on the CPU, and its operands there.
pub(crate) fn quantized(
    op: &'static str,
    of: &[Operand<'_>],
    here: &WebGpuStorage,
    matrix: impl FnOnce() -> Result<Tensor>,
    there: impl FnOnce(Tensor, &[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    compare(op, of, here, ROUNDED, |storages| {
        let tensors = storages.iter().zip(of).map(|(s, (_, _, l))| dense(s, l));
        let tensors = tensors.collect::<Result<Vec<_>>>()?;
        elements(there(matrix()?, &tensors)?, here.dtype())
    })
}
