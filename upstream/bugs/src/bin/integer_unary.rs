//! Unary ops that integers do not have.

use std::panic::catch_unwind;

use candle_core::{Device, Result, Tensor};

type Op = fn(&Tensor) -> Result<Tensor>;

fn main() -> Result<()> {
    let zeros: [(&str, Op); 3] = [("silu", Tensor::silu), ("gelu", Tensor::gelu), ("erf", Tensor::erf)];
    let panics: [(&str, Op); 3] = [("exp", Tensor::exp), ("neg", Tensor::neg), ("sqr", Tensor::sqr)];
    let mut errors = 0;
    for (name, op) in zeros.into_iter().chain(panics) {
        let got = catch_unwind(|| op(&Tensor::new(&[4i64, 9], &Device::Cpu)?)?.to_vec1::<i64>());
        errors += i32::from(matches!(got, Ok(Err(_))));
        println!("{name} of [4, 9] in i64: {}", got.map_or("panics".into(), |y| format!("{y:?}")));
    }
    if errors == 6 {
        candle_core::bail!("not reproduced")
    }
    Ok(())
}
