//! One node against the CPU: the op alone, from the values that its operands have on the device.

use anyhow::{bail, ensure, Result};
use candle_core::{DType, Tensor};

use crate::bound::{close, floats, Bound, EXACT};
use crate::graph::{on_cpu, Call, Outcome};
use crate::input::converted;
use crate::op::{Judge, Row};

/// By how much the absolute part of a bound grows, from the operands in f64 and the dtype of the result.
pub type Scale = fn(&[Tensor], DType) -> Result<f64>;

/// Bounds are for numbers within 2, or 1 in products.
pub const FIXED: Scale = |_, _| Ok(1.);
pub const LINEAR: Scale = |x, _| Ok((greatest(&x[0])? / 2.).max(1.));
pub const SQUARE: Scale = |x, _| Ok((greatest(&x[0])?.powi(2) / 4.).max(1.));
pub const PRODUCT: Scale = |x, _| Ok((greatest(&x[0])? * greatest(&x[1])?).max(1.));

/// Sums in memory are rounded to the dtype at each addition: as often as ids repeat, each time by half a place of the
/// partial sum.
pub const ADDED: Scale = |x, dtype| {
    let n = most_repeated(&x[1])? + 1.;
    let place = match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F8E4M3 => 2f64.powi(-4),
        _ => 2f64.powi(-24),
    };
    let sum = n * greatest(&x[0])?.max(greatest(&x[2])?);
    Ok((sum * n * place / 4e-5).max(1.))
};

/// What a norm divides by is small where a row hardly varies.
pub const SPREAD: Scale = |x, _| {
    let n = x[0].dims().last().copied().unwrap_or(1).max(1);
    let mut scale = 1f64;
    for row in floats(&x[0])?.chunks(n) {
        let mean = row.iter().sum::<f64>() / n as f64;
        let var = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        let top = row.iter().fold(0f64, |a, v| a.max(v.abs()));
        scale = scale.max(top / (var + 1e-5).sqrt());
    }
    Ok(scale * greatest(&x[1])?.max(1.))
};

/// The greatest magnitude of the finite values.
pub fn greatest(t: &Tensor) -> Result<f64> {
    let finite = floats(t)?.into_iter().filter(|v| v.is_finite());
    Ok(finite.fold(0., |a, v| v.abs().max(a)))
}

fn most_repeated(ids: &Tensor) -> Result<f64> {
    let mut ids = floats(ids)?;
    ids.sort_by(f64::total_cmp);
    let most = ids.chunk_by(|a, b| a == b).map(<[f64]>::len).max();
    Ok(most.unwrap_or(0) as f64)
}

fn wide(t: &Tensor) -> Result<Tensor> {
    Ok(match t.dtype().is_float() {
        true => converted(&t.contiguous()?, DType::F64)?,
        false => t.contiguous()?,
    })
}

/// f64 is computed with all its places, not with those of f32.
fn of_dtype(bound: Bound, dtype: DType) -> Bound {
    match dtype {
        DType::F64 => Bound {
            abs: bound.abs * 1e-8,
            rel: bound.rel * 1e-8,
            ..bound
        },
        _ => bound,
    }
}

/// `got` from operands with the values of `x`.
pub fn judge(row: &'static Row, call: &Call, x: &[Tensor], got: &Tensor) -> Result<()> {
    let (bound, scale, reference) = match row.judge {
        Judge::Same if row.name == "to_dtype" => {
            return close(&converted(&x[0], call.to)?, got, EXACT);
        }
        Judge::Same => match on_cpu(row, call, x)? {
            Some(Outcome::Value(expected)) => return close(&expected, got, EXACT),
            Some(other) => bail!("the CPU: {}", other.value().err().unwrap_or_default()),
            None => bail!("drawn, although the CPU must not be asked"),
        },
        Judge::Order(ascending) => return order(&x[0], got, ascending),
        Judge::Near(bound) => (bound, FIXED, row.apply),
        Judge::Scaled(bound, scale) => (bound, scale, row.apply),
        Judge::Formula(bound, scale, formula) => (bound, scale, formula),
    };
    let x = x.iter().map(wide).collect::<Result<Vec<_>>>()?;
    let scale = scale(&x, got.dtype())?;
    let call = call.clone();
    let formula = Row {
        apply: reference,
        ..*row
    };
    let expected = match call.on(&formula, &x).fetched() {
        Outcome::Value(t) => t,
        other => bail!(
            "the CPU in f64: {}",
            other.value().err().unwrap_or_default()
        ),
    };
    let bound = Bound {
        abs: bound.abs * scale,
        ..bound
    };
    close(&expected, got, of_dtype(bound, got.dtype()))
}

/// NaN is the greatest; both zeros are equal.
fn key(v: f64) -> f64 {
    match v {
        v if v.is_nan() => f64::NAN,
        0.0 => 0.0,
        v => v,
    }
}

/// The order of equal elements is open: the positions must be a permutation that sorts.
fn order(x: &Tensor, at: &Tensor, ascending: bool) -> Result<()> {
    ensure!(at.dtype() == DType::U32 && at.dims() == x.dims(), "{at:?}");
    let n = x.dims().last().copied().unwrap_or(1).max(1);
    let at = at.flatten_all()?.to_vec1::<u32>()?;
    let values: Vec<(i64, f64)> = match x.dtype().is_float() {
        true => floats(x)?.into_iter().map(|v| (0, key(v))).collect(),
        false => crate::bound::ints(x)?
            .into_iter()
            .map(|v| (v, 0.))
            .collect(),
    };
    for (row, (at, values)) in at.chunks(n).zip(values.chunks(n)).enumerate() {
        let mut seen = vec![false; n];
        for &p in at {
            let taken = seen.get_mut(p as usize);
            let fresh = taken.is_some_and(|t| !std::mem::replace(t, true));
            ensure!(fresh, "row {row}: no permutation: {at:?}");
        }
        let sorted = at.windows(2).all(|pair| {
            let (a, b) = (values[pair[0] as usize], values[pair[1] as usize]);
            let (a, b) = if ascending { (a, b) } else { (b, a) };
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).is_le()
        });
        ensure!(sorted, "row {row} is not sorted: {at:?} of {values:?}");
    }
    Ok(())
}
