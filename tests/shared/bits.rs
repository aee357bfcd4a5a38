//! Whether two tensors hold the same bits.

use anyhow::Result;
use candle_core::Tensor;

use super::bound::floats;

/// The bits of a tensor on the CPU.
fn bits(t: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    t.write_bytes(&mut bytes)?;
    Ok(bytes)
}

fn both_nan(a: &[f64], b: &[f64]) -> Vec<bool> {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| a.is_nan() && b.is_nan()).collect()
}

/// How many elements differ, and the first of them; None if all are the same.
pub fn differ(expected: &Tensor, got: &Tensor) -> Result<Option<String>> {
    let of = |t: &Tensor| (t.dims().to_vec(), t.dtype());
    if of(expected) != of(got) {
        return Ok(Some(format!("shape and dtype {:?}", of(got))));
    }
    let (a, b) = (bits(expected)?, bits(got)?);
    if a == b {
        return Ok(None);
    }
    let size = expected.dtype().size_in_bytes();
    // The bits of a product of two NaNs are unspecified: compilers swap operands.
    let nan = match expected.dtype().is_float() {
        true => both_nan(&floats(expected)?, &floats(got)?),
        false => vec![false; a.len() / size],
    };
    let wrong =
        (0..a.len() / size).filter(|&i| !nan[i] && a[i * size..][..size] != b[i * size..][..size]);
    let wrong: Vec<usize> = wrong.collect();
    Ok(wrong.first().map(|&i| {
        let (a, b) = (&a[i * size..][..size], &b[i * size..][..size]);
        format!(
            "{} elements have other bits, the first [{i}] {b:02x?} instead of {a:02x?}",
            wrong.len()
        )
    }))
}
