//! arg_sort_last_dim of rows with NaN.

use std::panic::{catch_unwind, AssertUnwindSafe};

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let row = [3f32, f32::NAN, 1., 2.];
    let order = Tensor::new(&row, &Device::Cpu)?.arg_sort_last_dim(true)?.to_vec1::<u32>()?;
    let sorted: Vec<f32> = order.iter().map(|&i| row[i as usize]).collect();
    println!("{row:?} sorted: {sorted:?}");

    let mut row: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32).collect();
    (row[10], row[30]) = (f32::NAN, f32::NAN);
    let x = Tensor::new(row, &Device::Cpu)?;
    let long = catch_unwind(AssertUnwindSafe(|| x.arg_sort_last_dim(true).map(|_| ())));
    println!("64 numbers, two of them NaN: {}", if long.is_err() { "panics" } else { "returns" });
    let right = sorted.iter().filter(|v| !v.is_nan()).eq(&[1., 2., 3.]);
    if right && long.is_ok() {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
