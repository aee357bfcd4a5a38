//! Reading or summing an empty view that starts behind the end of its storage.

use std::panic::{catch_unwind, AssertUnwindSafe};

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    // Rows 2..2 and column 1 of a 2x3 tensor: no elements, from offset 7 of 6.
    let x = Tensor::arange(0f32, 6., &Device::Cpu)?.reshape((2, 3))?;
    let x = x.narrow(0, 2, 0)?.narrow(1, 1, 1)?.squeeze(1)?;
    println!("{:?}", x.layout());
    let to_vec = catch_unwind(AssertUnwindSafe(|| x.to_vec1::<f32>().map_err(|e| e.to_string())));
    let sum = catch_unwind(AssertUnwindSafe(|| x.sum_all().map_err(|e| e.to_string())));
    println!("to_vec1: {}", if to_vec.is_err() { "panics" } else { "returns" });
    println!("sum_all: {}", if sum.is_err() { "panics" } else { "returns" });
    if to_vec.is_ok() && sum.is_ok() {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
