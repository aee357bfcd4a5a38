//! conv1d by a kernel that is not contiguous, and the gradient by the kernel, which is computed by such a conv1d.

use candle_core::{Device, Result, Tensor, Var};

fn numbers(dims: [usize; 3], step: f64) -> Result<Tensor> {
    let n = dims.iter().product::<usize>() as f64;
    (Tensor::arange(0f64, n, &Device::Cpu)? * step)?.sin()?.reshape(&dims)
}

fn main() -> Result<()> {
    let x = numbers([2, 3, 9], 1.)?;
    let conv = |k: &Tensor| x.conv1d(k, 1, 1, 1, 1);
    let first = |t: &Tensor| Ok::<_, candle_core::Error>(t.flatten_all()?.to_vec1::<f64>()?[..3].to_vec());
    let k = numbers([3, 4, 3], 2.)?.transpose(0, 1)?;
    println!("strided kernel:    {:.4?}", first(&conv(&k)?)?);
    println!("contiguous kernel: {:.4?}", first(&conv(&k.contiguous()?)?)?);
    let (k, loss) = (Var::from_tensor(&k.contiguous()?)?, |k: &Tensor| conv(k)?.sqr()?.sum_all());
    let grads = loss(&k)?.backward()?;
    let (got, mut want) = (first(grads.get(&k).expect("a gradient"))?, Vec::new());
    for i in 0..3 {
        let step: Vec<f64> = (0..36).map(|j| if i == j { 1e-5 } else { 0. }).collect();
        let step = Tensor::from_vec(step, (4, 3, 3), &Device::Cpu)?;
        want.push((loss(&k.add(&step)?)? - loss(&k.sub(&step)?)?)?.to_scalar::<f64>()? / 2e-5);
    }
    println!("gradient by the kernel: {got:.4?}\nfinite differences:     {want:.4?}");
    if got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-3) {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
