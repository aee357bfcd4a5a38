//! Compares one node with the CPU, which computes the op from the device's operands.

use std::cmp::Ordering;

use anyhow::{anyhow, ensure, Context, Result};
use candle_core::{DType, Tensor};

use crate::bound::{close, floats, ints, Bound, EXACT, SUM};
use crate::graph::{on_cpu, Call, Outcome};
use crate::input::converted;
use crate::op::{Judge, Row};
use crate::ops::Apply;

/// The factor of the absolute part of a bound, from the operands in f64, the call and the dtype of the result.
pub type Scale = fn(&[Tensor], &Call, DType) -> Result<f64>;

/// Bounds are for operands of magnitude at most 2, or 1 in products.
pub const FIXED: Scale = |_, _, _| Ok(1.);
pub const LINEAR: Scale = |x, _, _| Ok((greatest(&x[0])? / 2.).max(1.));
/// The error allowed for sums, given the sums of the terms' magnitudes: eight roundings to f32, since the roundings of
/// repeating patterns do not cancel. In f64 the CPU itself adds up to about 2^13 terms one by one; the factor undoes
/// `of_dtype`.
fn roundings(sums: &Tensor, dtype: DType) -> Result<f64> {
    let share = match dtype {
        DType::F64 => 2f64.powi(13 - 53) / PLACES_OF_F64,
        _ => 2f64.powi(-21),
    };
    Ok(greatest(sums)? * share)
}

/// Sums of the magnitudes of the terms of a sum of products.
fn terms(row: &Row, call: &Call, x: &[Tensor]) -> Result<Tensor> {
    let x = x
        .iter()
        .map(Tensor::abs)
        .collect::<candle_core::Result<Vec<_>>>()?;
    given(call.on(row, &x))
}

/// The sums of magnitudes, and the number of terms of each.
fn summed(x: &Tensor, call: &Call) -> Result<(Tensor, f64)> {
    let x = x.abs()?;
    let sums = match &call.u[..] {
        [] => x.sum_all()?,
        dims => x.sum(dims)?,
    };
    let terms = x.elem_count() as f64 / sums.elem_count().max(1) as f64;
    Ok((sums, terms))
}

pub const SUMMED: Scale = |x, call, dtype| {
    if !dtype.is_float() {
        return Ok(1.);
    }
    let (sums, _) = summed(&x[0], call)?;
    Ok((roundings(&sums, dtype)? / SUM.abs).max(1.))
};
pub const MEAN: Scale = |x, call, dtype| {
    let (sums, terms) = summed(&x[0], call)?;
    let off = roundings(&sums, dtype)? / terms.max(1.);
    Ok((off / SUM.abs).max(LINEAR(x, call, dtype)?))
};
/// A cumulative sum is a product with a triangle of ones, and adds one term after another. Each addition rounds by up
/// to half an ULP of the partial sum, and the roundings of repeating patterns do not cancel.
pub const RUNNING: Scale = |x, call, _| {
    let dim = call.u[0];
    let last = x[0].rank() - 1;
    let partial = x[0].transpose(dim, last)?.contiguous()?.cumsum(last)?;
    let terms = x[0].dim(dim)? as f64;
    Ok((greatest(&partial)? * 2f64.powi(-24) * terms / SUM.abs).max(1.))
};
pub const SQUARE: Scale = |x, _, _| Ok((greatest(&x[0])?.powi(2) / 4.).max(1.));
pub const PRODUCT: Scale = |x, _, _| Ok((greatest(&x[0])? * greatest(&x[1])?).max(1.));

/// Sums in memory are rounded to the dtype at each addition, by up to half an ULP of the partial sum. There are at most
/// as many additions as rows along the dim.
pub const ADDED: Scale = |x, call, dtype| {
    let n = x[2].dim(call.u[0])? as f64 + 1.;
    let place = match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F8E4M3 => 2f64.powi(-4),
        _ => 2f64.powi(-24),
    };
    let sum = n * greatest(&x[0])?.max(greatest(&x[2])?);
    Ok((sum * n * place / SUM.abs).max(1.))
};

/// A norm divides by little if a row hardly varies.
pub const SPREAD: Scale = |x, _, _| {
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

/// Floats in f64.
pub fn wide(t: &Tensor) -> Result<Tensor> {
    Ok(match t.dtype().is_float() {
        true => converted(&t.contiguous()?, DType::F64)?,
        false => t.contiguous()?,
    })
}

/// f64 is computed with its full precision, not with that of f32.
const PLACES_OF_F64: f64 = 1e-8;

fn of_dtype(bound: Bound, dtype: DType) -> Bound {
    match dtype {
        DType::F64 => Bound {
            abs: bound.abs * PLACES_OF_F64,
            rel: bound.rel * PLACES_OF_F64,
            ..bound
        },
        _ => bound,
    }
}

/// The bound, its scale and its formula, if the reference is computed in f64.
fn bounded(judge: Judge) -> Option<(Bound, Scale, Option<Apply>)> {
    match judge {
        Judge::Near(bound) => Some((bound, FIXED, None)),
        Judge::Scaled(bound, scale) => Some((bound, scale, None)),
        Judge::Formula(bound, scale, formula) => Some((bound, scale, Some(formula))),
        Judge::Dots(bound) => Some((bound, FIXED, None)),
        _ => None,
    }
}

/// The row as it is computed in f64.
pub fn of_f64(row: &Row) -> Row {
    let formula = bounded(row.judge).and_then(|(_, _, formula)| formula);
    let apply = formula.unwrap_or(row.apply);
    Row { apply, ..*row }
}

/// The row on the CPU, its floats in f64.
pub fn in_f64(row: &Row, call: &Call, x: &[Tensor]) -> Result<Outcome> {
    let x = x.iter().map(wide).collect::<Result<Vec<_>>>()?;
    Ok(call.on(&of_f64(row), &x).fetched())
}

fn given(outcome: Outcome) -> Result<Tensor> {
    outcome.value().map_err(|e| anyhow!("the CPU: {e}"))
}

/// Compares `got`, computed from operands with the values of `x`.
pub fn judge(row: &'static Row, call: &Call, x: &[Tensor], got: &Tensor) -> Result<()> {
    if let Some((bound, scale, _)) = bounded(row.judge) {
        let expected = given(in_f64(row, call, x)?)?;
        let f64s = x.iter().map(wide).collect::<Result<Vec<_>>>()?;
        let abs = match row.judge {
            Judge::Dots(bound) => bound
                .abs
                .max(roundings(&terms(row, call, &f64s)?, got.dtype())?),
            _ => bound.abs * scale(&f64s, call, got.dtype())?,
        };
        let bound = of_dtype(Bound { abs, ..bound }, got.dtype());
        return close(&expected, got, bound);
    }
    match row.judge {
        Judge::Order(ascending) => order(&x[0], got, ascending),
        Judge::Sorted => sorted(&x[0], got),
        Judge::Cast => close(&converted(&x[0], call.to)?, got, EXACT),
        _ => {
            let expected = on_cpu(row, call, x)?.context("known to be wrong on the CPU")?;
            close(&given(expected)?, got, EXACT)
        }
    }
}

/// NaN is the greatest; both zeros are equal.
fn key(v: f64) -> f64 {
    match v {
        v if v.is_nan() => f64::NAN,
        0.0 => 0.0,
        v => v,
    }
}

/// Sort keys for all dtypes: integers by the first number, floats by the second.
fn keys(t: &Tensor) -> Result<Vec<(i64, f64)>> {
    Ok(match t.dtype().is_float() {
        true => floats(t)?.into_iter().map(|v| (0, key(v))).collect(),
        false => ints(t)?.into_iter().map(|v| (v, 0.)).collect(),
    })
}

fn compare(a: &(i64, f64), b: &(i64, f64)) -> Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
}

fn row_of(t: &Tensor) -> usize {
    t.dims().last().copied().unwrap_or(1).max(1)
}

/// Sorts rows with NaN: the CPU's sort panics over some of them, since its comparison is not a total order (0.11.1).
pub fn with_nan(judge: Judge, x: &Tensor) -> Result<Option<Tensor>> {
    let ascending = match judge {
        Judge::Sorted => true,
        Judge::Order(ascending) => ascending,
        _ => return Ok(None),
    };
    let keys = keys(x)?;
    if x.rank() == 0 || !keys.iter().any(|(_, v)| v.is_nan()) {
        return Ok(None);
    }
    let mut at = Vec::new();
    for row in keys.chunks(row_of(x)) {
        let mut order: Vec<u32> = (0..row.len() as u32).collect();
        order.sort_by(|&a, &b| {
            let order = compare(&row[a as usize], &row[b as usize]);
            if ascending {
                order
            } else {
                order.reverse()
            }
        });
        at.extend(order);
    }
    let at = Tensor::from_vec(at, x.dims(), x.device())?;
    Ok(Some(match judge {
        Judge::Sorted => x.gather(&at, x.rank() - 1)?,
        _ => at,
    }))
}

fn sorted(x: &Tensor, got: &Tensor) -> Result<()> {
    ensure!(
        got.dtype() == x.dtype() && got.dims() == x.dims(),
        "{got:?}"
    );
    let (mut expected, got, n) = (keys(x)?, keys(got)?, row_of(x));
    for (row, (expected, got)) in expected.chunks_mut(n).zip(got.chunks(n)).enumerate() {
        expected.sort_by(compare);
        let same = expected.iter().zip(got).all(|(a, b)| compare(a, b).is_eq());
        ensure!(same, "row {row}: {got:?}, expected {expected:?}");
    }
    Ok(())
}

/// The order of equal elements is unspecified: the positions must be a permutation that sorts.
fn order(x: &Tensor, at: &Tensor, ascending: bool) -> Result<()> {
    ensure!(at.dtype() == DType::U32 && at.dims() == x.dims(), "{at:?}");
    let (n, values) = (row_of(x), keys(x)?);
    let at = at.flatten_all()?.to_vec1::<u32>()?;
    for (row, (at, values)) in at.chunks(n).zip(values.chunks(n)).enumerate() {
        let mut seen = vec![false; n];
        for &p in at {
            let taken = seen.get_mut(p as usize);
            let fresh = taken.is_some_and(|t| !std::mem::replace(t, true));
            ensure!(fresh, "row {row}: no permutation: {at:?}");
        }
        let sorted = at.windows(2).all(|pair| {
            let order = compare(&values[pair[0] as usize], &values[pair[1] as usize]);
            order == Ordering::Equal || order.is_lt() == ascending
        });
        ensure!(sorted, "row {row} is not sorted: {at:?} of {values:?}");
    }
    Ok(())
}
