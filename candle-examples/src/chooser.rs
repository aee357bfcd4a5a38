//! Chooses the next token from its logits: on a WebGPU device, so that the next pass can take it there, or on the host.

use crate::adapter::is_software;
use crate::error::Result;
use crate::generate::Options;
use candle_core::{DType, Device, Result as CandleResult, Tensor, D};
use candle_nn::ops::softmax_last_dim;
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::utils::apply_repeat_penalty;
use std::collections::BTreeSet;

/// Probabilities in a row of [`sums_before`].
const ROW: usize = 256;

/// Samples tokens. The state of its random generator carries over from text to text.
pub struct Chooser {
    processor: LogitsProcessor,
    sampling: Sampling,
    /// For the random generator of a device, until it is seeded.
    seed: Option<u64>,
    pub(crate) tokens: usize,
    penalty: f32,
    last: usize,
    /// The matrices of [`sums_before`].
    triangles: Option<[Tensor; 2]>,
}

impl Chooser {
    pub fn new(options: &Options) -> Self {
        Self {
            processor: LogitsProcessor::from_sampling(options.seed, options.sampling.clone()),
            sampling: options.sampling.clone(),
            seed: Some(options.seed),
            tokens: options.tokens,
            penalty: options.repeat_penalty,
            last: options.repeat_last,
            triangles: None,
        }
    }

    /// The latest ids, which are made less likely.
    fn recent<'a>(&self, seen: &'a [u32]) -> &'a [u32] {
        match self.penalty == 1. {
            true => &[],
            false => &seen[seen.len().saturating_sub(self.last)..],
        }
    }

    /// The next id (a scalar) as a tensor, if this device is a WebGPU device that has the logits (vocab) and chooses as fast as the host.
    /// It is distributed as [`LogitsProcessor`] samples it.
    pub(crate) fn choose_on(
        &mut self,
        device: &Device,
        logits: &Tensor,
        seen: &[u32],
    ) -> Result<Option<Tensor>> {
        if !device.is_webgpu() || !logits.device().same_device(device) {
            return Ok(None);
        }
        let (temperature, k, p) = match self.sampling {
            Sampling::ArgMax => (None, None, None),
            Sampling::All { temperature } => (Some(temperature), None, None),
            Sampling::TopK { k, temperature } => (Some(temperature), Some(k), None),
            Sampling::TopP { p, temperature } => (Some(temperature), None, Some(p)),
            Sampling::TopKThenTopP { k, p, temperature } => (Some(temperature), Some(k), Some(p)),
            Sampling::GumbelSoftmax { .. } => return Ok(None),
        };
        let k = k.filter(|k| *k < logits.elem_count());
        let p = p.filter(|p| 0. < *p && *p < 1.);
        let sorts = k.is_some() || p.is_some();
        // A software adapter sorts more slowly than the host.
        if sorts && is_software(device) {
            return Ok(None);
        }
        let logits = less_likely(
            &logits.to_dtype(DType::F32)?,
            self.recent(seen),
            self.penalty,
        )?;
        let Some(temperature) = temperature else {
            return Ok(Some(logits.argmax(0)?));
        };
        if let Some(seed) = self.seed.take() {
            device.set_seed(seed)?;
        }
        let logits = (logits / temperature)?;
        Ok(Some(match sorts {
            true => self.draw_likely(&logits, k, p)?,
            false => drawn(&logits)?,
        }))
    }

    /// A token (a scalar) drawn from the [`likeliest`](Self::likeliest).
    fn draw_likely(
        &mut self,
        logits: &Tensor,
        k: Option<usize>,
        p: Option<f64>,
    ) -> CandleResult<Tensor> {
        let (ids, logits) = self.likeliest(logits, k, p)?;
        let at = drawn(&logits)?.unsqueeze(0)?;
        ids.index_select(&at, 0)?.squeeze(0)
    }

    /// The ids of the `k` likeliest tokens, likeliest first, and their logits: minus infinity for those before which the probabilities
    /// add up to `p` or more.
    fn likeliest(
        &mut self,
        logits: &Tensor,
        k: Option<usize>,
        p: Option<f64>,
    ) -> CandleResult<(Tensor, Tensor)> {
        let ids = logits.arg_sort_last_dim(false)?;
        let sorted = logits.index_select(&ids, 0)?;
        let k = k.unwrap_or(sorted.elem_count());
        let (ids, kept) = (ids.narrow(0, 0, k)?, sorted.narrow(0, 0, k)?);
        let Some(p) = p else {
            return Ok((ids, kept));
        };
        let before = self.sums_before(&softmax_last_dim(&sorted)?)?;
        let is_in = before.narrow(0, 0, k)?.lt(p)?;
        let none = Tensor::new(f32::NEG_INFINITY, logits.device())?.broadcast_as(k)?;
        Ok((ids, is_in.where_cond(&kept, &none)?))
    }

    /// Of each element of `x` (n, f32), the sum of those before it: within rows of [`ROW`], by a product with a triangle of ones, and of
    /// the rows before, likewise. [`Tensor::cumsum`] would take a triangle of n x n.
    fn sums_before(&mut self, x: &Tensor) -> CandleResult<Tensor> {
        let n = x.elem_count();
        let rows = n.div_ceil(ROW);
        let x = x
            .pad_with_zeros(0, 0, rows * ROW - n)?
            .reshape((rows, ROW))?;
        let ready = self.triangles.take();
        let fits = |ready: &[Tensor; 2]| {
            ready[1].dim(0).is_ok_and(|d| d == rows) && ready[0].device().same_device(x.device())
        };
        let [within, above] = match ready.filter(fits) {
            Some(ready) => ready,
            None => [triangle(ROW, x.device())?, triangle(rows, x.device())?],
        };
        let sums = x.matmul(&within)?;
        let totals = x.sum(D::Minus1)?.unsqueeze(0)?.matmul(&above)?;
        self.triangles = Some([within, above]);
        let sums = sums.broadcast_add(&totals.reshape((rows, 1))?)?;
        sums.flatten_all()?.narrow(0, 0, n)
    }

    /// Samples on the host. Reads back one id for greedy sampling without penalty, else all logits.
    pub(crate) async fn choose(&mut self, logits: &Tensor, seen: &[u32]) -> Result<u32> {
        if self.sampling == Sampling::ArgMax && self.penalty == 1. {
            return Ok(logits.to_dtype(DType::F32)?.argmax(0)?.to_scalar()?);
        }
        let logits = logits.to_device_async(&Device::Cpu).await?;
        if self.penalty == 1. {
            return Ok(self.processor.sample(&logits)?);
        }
        let logits = apply_repeat_penalty(&logits, self.penalty, self.recent(seen))?;
        Ok(self.processor.sample(&logits)?)
    }
}

/// [`apply_repeat_penalty`] on the device of the logits (vocab).
fn less_likely(logits: &Tensor, recent: &[u32], penalty: f32) -> CandleResult<Tensor> {
    let vocab = logits.elem_count();
    let ids: BTreeSet<u32> = recent.iter().copied().collect();
    let ids: Vec<u32> = ids
        .into_iter()
        .filter(|id| (*id as usize) < vocab)
        .collect();
    if ids.is_empty() {
        return Ok(logits.clone());
    }
    let ids = Tensor::new(ids, logits.device())?;
    let old = logits.index_select(&ids, 0)?;
    let penalty = f64::from(penalty);
    let new = old
        .ge(0f32)?
        .where_cond(&(&old / penalty)?, &(&old * penalty)?)?;
    logits.scatter(&ids, &new, 0)
}

/// A token (a scalar) drawn by the softmax of `logits`: the largest of logits with Gumbel noise is distributed so (arXiv 1611.01144,
/// section 2.1). candle-nn's `gumbel_softmax` draws u from 1e-7 to 0.999, so that unlikely tokens come too rarely.
fn drawn(logits: &Tensor) -> CandleResult<Tensor> {
    let noise = logits.rand_like(0., 1.)?.log()?.neg()?.log()?.neg()?;
    (logits + noise)?.argmax(0)
}

/// (n, n): ones above the diagonal.
fn triangle(n: usize, device: &Device) -> CandleResult<Tensor> {
    Tensor::triu2(n, DType::F32, device)? - Tensor::eye(n, DType::F32, device)?
}

#[cfg(all(test, feature = "webgpu"))]
mod tests {
    use super::*;
    use crate::generate::sampling;

    fn chooser() -> Chooser {
        Chooser::new(&Options {
            tokens: 1,
            sampling: sampling(1., None, Some(0.9)),
            seed: 1,
            repeat_penalty: 1.,
            repeat_last: 0,
        })
    }

    /// Logits of `n` tokens in no order, of which few are likely.
    fn logits(n: usize, device: &Device) -> CandleResult<Tensor> {
        let value = |i: usize| (i * 7919 % 10_007) as f32 / 500. - (i % 13) as f32;
        Tensor::from_iter((0..n).map(value), device)
    }

    fn devices() -> CandleResult<[Device; 2]> {
        Ok([Device::Cpu, Device::new_webgpu(0)?])
    }

    #[test]
    fn sums_of_what_is_before() -> CandleResult<()> {
        for device in devices()? {
            let mut chooser = chooser();
            for n in [1, 255, 256, 257, 1000, 32_000] {
                let x: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
                let sums = chooser.sums_before(&Tensor::new(&*x, &device)?)?;
                let before = x.iter().scan(0., |sum, x| {
                    *sum += x;
                    Some(*sum - x)
                });
                assert_eq!(sums.to_vec1::<f32>()?, before.collect::<Vec<_>>(), "{n}");
            }
        }
        Ok(())
    }

    #[test]
    fn the_likeliest_tokens() -> CandleResult<()> {
        for device in devices()? {
            for n in [5, 300, 5000] {
                let logits = logits(n, &device)?;
                let all = softmax_last_dim(&logits)?.to_vec1::<f32>()?;
                for (k, p) in [(Some(3), None), (None, Some(0.7)), (Some(40), Some(0.95))] {
                    let k = k.filter(|k| *k < n);
                    let (ids, kept) = chooser().likeliest(&logits, k, p)?;
                    let mut left: Vec<u32> = (0..n as u32).collect();
                    left.sort_by(|a, b| all[*b as usize].total_cmp(&all[*a as usize]));
                    let mut before = 0.;
                    for (at, (id, logit)) in ids
                        .to_vec1::<u32>()?
                        .iter()
                        .zip(kept.to_vec1::<f32>()?)
                        .enumerate()
                    {
                        let chance = all[*id as usize];
                        assert_eq!(chance, all[left[at] as usize], "{n} {k:?} {p:?}: {at}");
                        let is_in = p.is_none_or(|p| before < p as f32);
                        let near = p.is_some_and(|p| (before - p as f32).abs() < 1e-5);
                        assert!(near || is_in == logit.is_finite(), "{n} {k:?} {p:?}: {at}");
                        before += chance;
                    }
                    assert_eq!(ids.elem_count(), k.unwrap_or(n));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn tokens_are_drawn_from_the_likeliest() -> Result<()> {
        const DRAWS: usize = 400;
        let device = Device::new_webgpu(0)?;
        let chances = [0.1f32, 0.3, 0.05, 0.5, 0.05];
        let logits = Tensor::new(&chances.map(f32::ln), &device)?;
        for (k, p) in [(Some(2), None), (None, Some(0.6)), (Some(3), Some(0.8))] {
            let mut chooser = chooser();
            let mut draw = || chooser.draw_likely(&logits, k, p);
            let drawn: Vec<Tensor> = (0..DRAWS).map(|_| draw()).collect::<CandleResult<_>>()?;
            let drawn = Tensor::stack(&drawn, 0)?.to_vec1::<u32>()?;
            let count = |id| drawn.iter().filter(|drawn| **drawn == id).count();
            assert_eq!(count(1) + count(3), DRAWS, "{k:?} {p:?}");
            let share = count(3) as f32 / DRAWS as f32;
            // Four standard deviations.
            assert!((share - 0.625).abs() < 0.1, "{k:?} {p:?}: {share}");
        }
        Ok(())
    }

    #[test]
    fn repeated_tokens_are_less_likely() -> CandleResult<()> {
        for device in devices()? {
            let logits = logits(50, &device)?;
            for recent in [&[][..], &[3, 3, 49, 7], &[50, 1 << 31]] {
                let same = apply_repeat_penalty(&logits, 1.3, recent)?.to_vec1::<f32>()?;
                let ours = less_likely(&logits, recent, 1.3)?.to_vec1::<f32>()?;
                for (a, b) in same.iter().zip(&ours) {
                    assert!((a - b).abs() <= 1e-6 * a.abs(), "{recent:?}: {a}, {b}");
                }
            }
        }
        Ok(())
    }
}
