//! rand and randn: range, moments, seeds. The expected values are statistical.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

use crate::bound::floats;
use crate::case::Cases;
use crate::input::REALS;

fn uniform(d: &Device, dtype: DType, n: usize, lo: f64, up: f64) -> Result<Vec<f64>> {
    floats(&Tensor::zeros(n, dtype, d)?.rand_like(lo, up)?)
}

fn normal(d: &Device, dtype: DType, n: usize, mean: f64, std: f64) -> Result<Vec<f64>> {
    floats(&Tensor::zeros(n, dtype, d)?.randn_like(mean, std)?)
}

fn moments(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let var = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    (mean, var.sqrt())
}

const N: usize = 200_001;

pub fn add(cases: &mut Cases) {
    for dtype in REALS {
        let name = dtype.as_str();
        cases.add(format!("random/uniform/{name}"), move |d| {
            for (lo, up) in [(0., 1.), (-3., 5.), (1., 1.0625)] {
                if dtype == DType::F8E4M3 && lo == 1. {
                    continue; // one value is all there is
                }
                let x = uniform(d, dtype, N, lo, up)?;
                ensure!(x.len() == N, "{} numbers", x.len());
                let wrong = x.iter().find(|v| !(lo..up).contains(v));
                ensure!(wrong.is_none(), "{wrong:?} is not in {lo}..{up}");
                let (mean, std) = moments(&x);
                let width = up - lo;
                // bf16 has 8 values from 1 to 1.0625: each number is rounded down or up by one.
                let coarse = if dtype == DType::F32 { 0.005 } else { 0.1 };
                ensure!(
                    (mean - (lo + up) / 2.).abs() < coarse * width,
                    "mean {mean}"
                );
                ensure!(
                    (std - width / 12f64.sqrt()).abs() < coarse * width,
                    "std {std}"
                );
            }
            Ok(())
        });
        cases.add(format!("random/normal/{name}"), move |d| {
            for (mean, std) in [(0., 1.), (-2., 0.5)] {
                let x = normal(d, dtype, N, mean, std)?;
                ensure!(x.iter().all(|v| v.is_finite()), "not finite");
                let (m, s) = moments(&x);
                ensure!(
                    (m - mean).abs() < 0.02 && (s - std).abs() < 0.02,
                    "mean {m}, std {s}"
                );
                let far = x.iter().filter(|v| (**v - mean).abs() > 2. * std).count();
                // Three bits of mantissa round many numbers to two standard deviations.
                let slack = if dtype == DType::F8E4M3 { 0.03 } else { 0.008 };
                let share = far as f64 / N as f64;
                ensure!(
                    (share - 0.0455).abs() < slack,
                    "{share} beyond two deviations"
                );
            }
            Ok(())
        });
        cases.alone(format!("random/seed/{name}"), move |d| {
            for n in [1, 3, 4, 1001] {
                let mut draws = Vec::new();
                for seed in [5, 5, 6, 5 + (1 << 40)] {
                    d.set_seed(seed)?;
                    ensure!(
                        d.get_current_seed()? == seed,
                        "the seed is {}",
                        d.get_current_seed()?
                    );
                    let first = uniform(d, dtype, n, 0., 1.)?;
                    let second = normal(d, dtype, n, 0., 1.)?;
                    let third = uniform(d, dtype, n, 0., 1.)?;
                    draws.push((first, second, third));
                }
                ensure!(draws[0] == draws[1], "equal seeds differ");
                if n > 100 {
                    ensure!(
                        draws[0] != draws[2] && draws[0] != draws[3],
                        "different seeds agree"
                    );
                    ensure!(
                        draws[0].0 != draws[0].2,
                        "the second draw repeats the first"
                    );
                }
            }
            Ok(())
        });
        cases.add(format!("random/empty/{name}"), move |d| {
            ensure!(uniform(d, dtype, 0, 0., 1.)?.is_empty());
            Ok(())
        });
    }
    cases.add("random/independent", |d| {
        // Neighbours are not correlated, nor are numbers four apart (one block of the generator).
        let x = uniform(d, DType::F32, N, -1., 1.)?;
        for lag in [1, 2, 3, 4, 64, 128, 256] {
            let c: f64 = x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum::<f64>() / N as f64 * 3.;
            ensure!(c.abs() < 0.012, "correlation {c} at {lag}");
        }
        Ok(())
    });
    cases.add("random/full_resolution", |d| {
        let mut x = uniform(d, DType::F32, N, 0., 1.)?;
        x.sort_by(f64::total_cmp);
        x.dedup();
        // 2^24 values: about 1190 collisions are expected among 200,001 draws.
        ensure!(x.len() > N - 2400, "only {} different numbers", x.len());
        Ok(())
    });
}
