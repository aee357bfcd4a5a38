//! The gradient of one op on the device against the CPU's in f64.

use anyhow::{bail, Result};
use candle_core::{DType, Device, Tensor, Var};

use crate::bound::{close, Bound};
use crate::graph::{fetched, guarded, Call, Outcome};
use crate::judge::{self, greatest, wide};
use crate::op::{Memory, Row};

/// A gradient is several ops, most of them sums: its bound is relative to the greatest element of it, and grows with the
/// longest dim beyond so many elements, since a sum of n terms rounds n times.
const GRADIENT: f64 = 2e-5;
const LONG: usize = 64;

/// Far from what f32 holds, so that the squares and cubes of quotients are in its range.
fn moderate(x: &[Tensor]) -> Result<bool> {
    for t in x.iter().filter(|t| t.dtype().is_float()) {
        let fine = |v: &f64| *v == 0. || (1e-4..=16.).contains(&v.abs());
        if !crate::bound::floats(t)?.iter().all(fine) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the gradient can be asked for.
pub fn applies(row: &Row, x: &[Tensor], got: &Tensor) -> Result<bool> {
    let floats = |t: &Tensor| matches!(t.dtype(), DType::F32 | DType::F64);
    // The CPU panics over empty views with an offset (0.11.1).
    let some = x.iter().chain([got]).all(|t| t.elem_count() > 0);
    let all = some && floats(got) && x.iter().all(|t| floats(t) || t.dtype().is_int());
    Ok(all && x.iter().any(floats) && row.memory != Memory::InPlace && moderate(x)?)
}

/// What the result is multiplied by, so that its elements count differently.
pub fn weights(dims: &[usize]) -> candle_core::Result<Tensor> {
    let n: usize = dims.iter().product();
    let w = (0..n).map(|i| (i % 7) as f64 * 0.5 - 1.5);
    Tensor::from_vec(w.collect::<Vec<f64>>(), dims, &Device::Cpu)
}

/// The gradient of the weighed sum with respect to each operand of floats that has one, one after the other.
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

/// An error says how they differ. The CPU in the dtype itself says which gradients there are, and in f64 what they are;
/// what it has in only one of both counts.
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
