//! matmul of a transposed lhs with a broadcast rhs, and what is built on it.

use candle_core::{Device, Result, Tensor, Var};

fn main() -> Result<()> {
    let numbers = |n: usize| Tensor::arange(0f64, n as f64, &Device::Cpu);
    let (x, y) = (numbers(12)?.reshape((2, 3, 2))?, numbers(6)?.reshape((3, 2))?);
    let got = x.t()?.matmul(&y.broadcast_as((2, 3, 2))?)?.flatten_all()?.to_vec1::<f64>()?;
    let at = |b, m, n| (0..3).map(|k| (6 * b + 2 * k + m) * (2 * k + n)).sum::<i32>();
    let want: Vec<f64> = (0..8).map(|i| at(i / 4, i / 2 % 2, i % 2).into()).collect();
    println!("matmul: {got:?}\nloops:  {want:?}");

    // The first four of 16 numbers, times 1.
    let (x, one) = (numbers(16)?.narrow(0, 0, 4)?.reshape((1, 1, 4))?, numbers(2)?.narrow(0, 1, 1)?);
    let y = x.transpose(0, 2)?.matmul(&one.reshape((1, 1))?.broadcast_as((4, 1, 1))?)?;
    println!("[0, 1, 2, 3] times 1: {:?}", y.flatten_all()?.to_vec1::<f64>()?);

    // Both batches are equal, so their results and gradients should be.
    let (x, k) = (Var::from_tensor(&numbers(6)?.reshape((1, 2, 3))?.repeat((2, 1, 1))?)?, numbers(4)?);
    let y = x.conv_transpose1d(&k.reshape((2, 1, 2))?, 0, 0, 1, 1, 1)?;
    println!("conv_transpose1d: {:?}", y.flatten_all()?.to_vec1::<f64>()?);
    let grads = x.conv1d(&k.reshape((2, 2, 1))?, 0, 1, 1, 1)?.sqr()?.sum_all()?.backward()?;
    println!("gradient of conv1d: {:?}", grads.get(&x).map(|x| x.flatten_all()?.to_vec1::<f64>()));
    if got == want {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
