//! The gradient of one op on the device against the CPU's in f64.

use anyhow::{bail, Result};
use candle_core::{DType, Device, Tensor, Var};

use crate::bound::{close, Bound};
use crate::graph::{fetched, guarded, Call, Outcome};
use crate::judge::{self, greatest, wide};
use crate::op::{Memory, Row};

/// A gradient is several ops, most of them sums. Its bound is relative to its greatest element, and grows with the
/// longest dim beyond `LONG`, since a sum of n terms rounds n times.
const GRADIENT: f64 = 2e-5;
const LONG: usize = 64;

/// Far from the limits of f32, so that squares and cubes of quotients are in range.
fn moderate(x: &[Tensor]) -> Result<bool> {
    for t in x.iter().filter(|t| t.dtype().is_float()) {
        let fine = |v: &f64| *v == 0. || (1e-4..=16.).contains(&v.abs());
        if !crate::bound::floats(t)?.iter().all(fine) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the gradient can be compared.
pub fn applies(row: &Row, x: &[Tensor], got: &Tensor) -> Result<bool> {
    let floats = |t: &Tensor| matches!(t.dtype(), DType::F32 | DType::F64);
    // The CPU panics over empty views with an offset (0.11.1).
    let some = x.iter().chain([got]).all(|t| t.elem_count() > 0);
    let all = some && floats(got) && x.iter().all(|t| floats(t) || t.dtype().is_int());
    Ok(all && x.iter().any(floats) && row.memory != Memory::InPlace && moderate(x)?)
}

/// Weights of the result's elements, so that they count differently.
pub fn weights(dims: &[usize]) -> candle_core::Result<Tensor> {
    let n: usize = dims.iter().product();
    let w = (0..n).map(|i| (i % 7) as f64 * 0.5 - 1.5);
    Tensor::from_vec(w.collect::<Vec<f64>>(), dims, &Device::Cpu)
}

/// The gradients of the weighted sum with respect to each float operand that has one, concatenated.
fn gradients(row: &Row, call: &Call, x: &[Tensor], device: &Device) -> Outcome {
    guarded(|| {
        let mut vars = Vec::new();
        for t in x {
            let t = t.to_device(device)?;
            vars.push(match t.dtype().is_float() {
                true => Var::from_tensor(&t)?.into_inner(),
                false => t,
            });
        }
        let y = call
            .on(row, &vars)
            .value()
            .map_err(candle_core::Error::msg)?;
        let w = weights(y.dims())?.to_dtype(y.dtype())?.to_device(device)?;
        let all = (y * w)?.sum_all()?.backward()?;
        let of = |v: &Tensor| match all.get(v) {
            Some(g) => fetched(g)?.flatten_all(),
            None => Tensor::zeros(0, v.dtype(), &Device::Cpu),
        };
        let floats = vars.iter().filter(|v| v.dtype().is_float());
        Tensor::cat(&floats.map(of).collect::<candle_core::Result<Vec<_>>>()?, 0)
    })
}

/// Fails if the gradients differ. The CPU in the dtype itself decides which gradients exist, if it can; in f64 it gives
/// their values.
pub fn compare(row: &'static Row, call: &Call, x: &[Tensor], device: &Device) -> Result<()> {
    let f64s = x.iter().map(wide).collect::<Result<Vec<_>>>()?;
    let exact = gradients(&judge::of_f64(row), call, &f64s, &Device::Cpu);
    let plain = gradients(row, call, x, &Device::Cpu);
    let got = match (gradients(row, call, x, device), &plain) {
        (Outcome::Value(got), _) => got,
        (other, Outcome::Value(_)) => bail!("{}", other.value().err().unwrap_or_default()),
        _ => return Ok(()),
    };
    let expected = match (exact, plain) {
        (Outcome::Value(exact), Outcome::Value(plain)) if exact.dims() == plain.dims() => exact,
        (_, Outcome::Value(plain)) => plain,
        (Outcome::Value(exact), _) => exact,
        (_, none) => bail!(
            "given, and the CPU: {}",
            none.value().err().unwrap_or_default()
        ),
    };
    let places = if got.dtype() == DType::F64 { 1e-8 } else { 1. };
    let rel = GRADIENT * places;
    let longest = x.iter().flat_map(Tensor::dims).max().copied().unwrap_or(1);
    let long = (longest as f64 / LONG as f64).max(1.);
    let abs = rel * long * greatest(&expected)?.max(1.);
    close(&expected, &got, Bound { abs, rel, ulps: 0 })
}
