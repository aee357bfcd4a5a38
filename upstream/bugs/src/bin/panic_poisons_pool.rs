//! An op after another op has panicked in Candle's thread pool.

use std::panic::{catch_unwind, AssertUnwindSafe};

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let d = &Device::Cpu;
    let (ones, zeros) = (Tensor::full(1u32, 1 << 16, d)?, Tensor::full(0u32, 1 << 16, d)?);
    let divided = catch_unwind(AssertUnwindSafe(|| ones.div(&zeros).map(|_| ())));
    println!("1 / 0 in u32: {}", if divided.is_err() { "panics" } else { "returns" });
    let x = Tensor::full(1f32, 1 << 16, d)?;
    let added = catch_unwind(AssertUnwindSafe(|| x.add(&x).map(|_| ())));
    println!("1 + 1 in f32 afterwards: {}", if added.is_err() { "panics" } else { "returns" });
    if added.is_ok() {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
