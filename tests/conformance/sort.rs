//! arg_sort_last_dim and sort_last_dim. The order of equal elements is unspecified, so the sorted values are compared,
//! and the positions must be a permutation that gives them.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

use crate::bound::{floats, ints};
use crate::case::Cases;
use crate::input::{tensor, Fill, Operand, ALL};

const LENGTHS: [usize; 9] = [1, 2, 3, 31, 64, 1000, 1024, 1025, 5000];

/// NaN is the greatest; both zeros are equal.
fn key(v: f64) -> f64 {
    match v {
        v if v.is_nan() => f64::INFINITY,
        0.0 => 0.0,
        v => v.clamp(-f64::MAX, f64::MAX),
    }
}

fn sorted(x: &Operand, d: &Device, asc: bool) -> Result<()> {
    let cpu = x.on(&Device::Cpu)?;
    let columns = cpu.dims().last().copied().unwrap_or(1);
    let (values, at) = x.on(d)?.sort_last_dim(asc)?;
    ensure!(
        at.dtype() == DType::U32 && at.dims() == cpu.dims(),
        "{at:?}"
    );
    let at = ints(&at)?;
    let integer = !cpu.dtype().is_float();
    let (plain, values) = match integer {
        true => (ints(&cpu)?, ints(&values)?),
        // Keys are compared as integers, so that i64 is exact and floats keep their order.
        false => {
            let order = |t: &Tensor| -> Result<Vec<i64>> {
                Ok(floats(t)?.into_iter().map(|v| ordered(key(v))).collect())
            };
            (order(&cpu)?, order(&values)?)
        }
    };
    for row in 0..plain.len() / columns.max(1) {
        let range = row * columns..(row + 1) * columns;
        let mut expected = plain[range.clone()].to_vec();
        expected.sort_unstable();
        if !asc {
            expected.reverse();
        }
        ensure!(expected == values[range.clone()], "row {row} is not sorted");
        let mut seen = vec![false; columns];
        for (i, &p) in at[range.clone()].iter().enumerate() {
            let taken = usize::try_from(p).ok().and_then(|p| seen.get_mut(p));
            ensure!(
                taken.is_some_and(|t| !std::mem::replace(t, true)),
                "row {row}: no permutation"
            );
            let value = plain[range.start + p as usize];
            ensure!(value == expected[i], "row {row}: position {p} is wrong");
        }
    }
    Ok(())
}

/// Maps floats to integers of the same order.
fn ordered(v: f64) -> i64 {
    let bits = v.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

pub fn add(cases: &mut Cases) {
    for dtype in ALL {
        for asc in [true, false] {
            let order = if asc { "asc" } else { "desc" };
            for n in LENGTHS {
                let name = format!("sort/{}/{order}/{n}", dtype.as_str());
                cases.add(name, move |d| {
                    for (rows, fill) in [(3, Fill::Wide), (2, Fill::Ties), (1, Fill::Small)] {
                        sorted(&Operand::of(tensor(dtype, &[rows, n], 111, fill)?), d, asc)?;
                    }
                    Ok(())
                });
            }
            cases.add(
                format!("sort/{}/{order}/special", dtype.as_str()),
                move |d| {
                    // NaN is the greatest and comes last; upstream's devices differ here.
                    sorted(
                        &Operand::of(tensor(dtype, &[100], 112, Fill::Special)?),
                        d,
                        asc,
                    )
                },
            );
            cases.add(
                format!("sort/{}/{order}/offset", dtype.as_str()),
                move |d| {
                    let x = tensor(dtype, &[7, 13], 113, Fill::Wide)?;
                    sorted(&Operand::viewed(x, |t| t.narrow(0, 3, 3)), d, asc)
                },
            );
        }
    }
    cases.add("sort/f32/rows_70000", |d| {
        sorted(
            &Operand::of(tensor(DType::F32, &[70_000, 3], 114, Fill::Wide)?),
            d,
            true,
        )
    });
    cases.add("sort/f32/long_100000", |d| {
        sorted(
            &Operand::of(tensor(DType::F32, &[100_000], 115, Fill::Wide)?),
            d,
            true,
        )
    });
}
