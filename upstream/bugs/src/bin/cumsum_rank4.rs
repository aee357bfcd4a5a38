//! cumsum of a tensor of rank 4 along its first dim.

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::arange(0f64, 16., &Device::Cpu)?.reshape((2, 2, 2, 2))?;
    let got = x.cumsum(0).and_then(|y| y.flatten_all()?.to_vec1::<f64>());
    let want: Vec<f64> = (0..16).map(|i| (0..=i / 8).map(|a| f64::from(8 * a + i % 8)).sum()).collect();
    match &got {
        Ok(y) => println!("cumsum: {y:?}"),
        Err(e) => println!("cumsum: {}", e.to_string().lines().next().unwrap_or_default()),
    }
    println!("loops:  {want:?}");
    if got.is_ok_and(|y| y == want) {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
