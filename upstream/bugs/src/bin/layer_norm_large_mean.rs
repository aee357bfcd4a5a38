//! layer_norm of a row whose mean is large compared with its spread.

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let d = &Device::Cpu;
    let row = [9999f32, 10000., 10001., 10002.];
    let (one, zero) = (Tensor::new(&[1f32; 4], d)?, Tensor::new(&[0f32; 4], d)?);
    let got = candle_nn::ops::layer_norm(&Tensor::new(&row, d)?, &one, &zero, 1e-5)?.to_vec1::<f32>()?;

    let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / 4.;
    let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / 4.;
    let want: Vec<f64> = row.iter().map(|&v| (f64::from(v) - mean) / (variance + 1e-5).sqrt()).collect();
    println!("layer_norm: {got:.4?}\nloops:      {want:.4?}");

    // Rows of one repeated number, whose result is 0.
    let nan = (0..10000).filter(|&v| {
        let x = Tensor::full(v as f32 / 10., 768, d).expect("a row");
        let (one, zero) = (x.ones_like().expect("ones"), x.zeros_like().expect("zeros"));
        let y = candle_nn::ops::layer_norm(&x, &one, &zero, 1e-5).expect("a result");
        y.to_vec1::<f32>().expect("its elements")[0].is_nan()
    });
    println!("768 times v, for v = 0, 0.1 .. 999.9: NaN for {} of 10000", nan.count());
    let right = got.iter().zip(&want).all(|(&g, w)| (f64::from(g) - w).abs() < 1e-3);
    if right {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
