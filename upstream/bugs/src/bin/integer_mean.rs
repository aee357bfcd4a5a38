//! avg_pool2d and mean of integers.

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let x = Tensor::new(&[[[[10u32, 20], [30, 40]]]], &Device::Cpu)?;
    let pool = x.avg_pool2d(2).map(|y| y.flatten_all()?.to_vec1::<u32>());
    let mean = x.flatten_all()?.mean(0).map(|y| y.to_scalar::<u32>());
    println!("avg_pool2d of 10, 20, 30, 40: {pool:?}\nmean:  {mean:?}\nloops: {}", (10 + 20 + 30 + 40) / 4);
    let wrong = matches!(pool, Ok(Ok(y)) if y == [0]) || matches!(mean, Ok(Ok(0)));
    if !wrong {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
