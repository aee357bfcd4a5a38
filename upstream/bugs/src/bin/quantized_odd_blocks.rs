//! QMatMul whose rows have an odd number of quantized blocks.

use std::panic::catch_unwind;

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module, Result, Tensor};

fn main() -> Result<()> {
    // A panic in the thread pool makes later ops panic, too (panic_poisons_pool).
    std::env::set_var("CANDLE_NUM_THREADS", "1");
    let product = |dtype| -> Result<Vec<f32>> {
        let (x, w) = (Tensor::full(1f32, (1, 96), &Device::Cpu)?, Tensor::full(1f32, (2, 96), &Device::Cpu)?);
        let w = QMatMul::from_qtensor(QTensor::quantize(&w, dtype)?)?;
        w.forward(&x)?.flatten_all()?.to_vec1()
    };
    let mut panics = false;
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q5_0, GgmlDType::Q5_1, GgmlDType::Q8_0] {
        let got = catch_unwind(|| product(dtype));
        panics |= got.is_err();
        println!("{dtype:?}: {}", got.map_or("panics".into(), |y| format!("{y:.1?}")));
    }
    if !panics {
        candle_core::bail!("not reproduced: debug assertions have to be on")
    }
    Ok(())
}
