//! Sums of ones in bf16, f16 and f8e4m3.

use candle_core::{DType, Device, Result, Tensor};

fn main() -> Result<()> {
    let mut wrong = 0;
    for (dtype, n) in [(DType::BF16, 4096), (DType::F16, 4096), (DType::F8E4M3, 128)] {
        let x = Tensor::ones((n, 2), dtype, &Device::Cpu)?;
        let f32s = |t: Tensor| t.to_dtype(DType::F32)?.to_vec1::<f32>();
        let (rows, columns) = (f32s(x.t()?.contiguous()?.sum(1)?)?[0], f32s(x.sum(0)?)?[0]);
        let mean = f32s(x.mean(0)?)?[0];
        println!("{n} ones in {dtype:?}: last dim {rows}, first dim {columns}, mean {mean}");
        wrong += i32::from(rows != n as f32 || columns != n as f32);
    }
    if wrong == 0 {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
