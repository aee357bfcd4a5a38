//! Compares two runs of a model.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

/// Fails if a difference exceeds `tolerance`, relative to the largest value of the output.
pub fn outputs(expected: &[Tensor], actual: &[Tensor], tolerance: f32) -> Result<()> {
    ensure!(expected.len() == actual.len(), "not the same outputs");
    for (i, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        let (dims, got) = (expected.dims(), actual.dims());
        ensure!(dims == got, "output {i}: {got:?} instead of {dims:?}");
        let (expected, actual) = (values(expected)?, values(actual)?);
        let magnitude = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
        ensure!(
            magnitude.is_normal() && expected.iter().all(|v| v.is_finite()),
            "output {i}: the reference itself is of no use"
        );
        let differences = expected.iter().zip(&actual).map(|(e, a)| (e - a).abs());
        // Not f32::max, which ignores NaN.
        let worst = differences.fold(0f32, |w, d| if d <= w { w } else { d });
        let relative = worst / magnitude;
        ensure!(
            relative <= tolerance,
            "output {i}: off by {relative:.1e} of {magnitude:.3}, the largest value"
        );
    }
    Ok(())
}

fn values(t: &Tensor) -> Result<Vec<f32>> {
    let flat = t.flatten_all()?.to_device(&Device::Cpu)?;
    Ok(flat.to_dtype(DType::F32)?.to_vec1()?)
}
