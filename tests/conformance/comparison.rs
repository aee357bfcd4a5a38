//! The comparison itself: the meaning of all other cases depends on it.

use anyhow::ensure;
use candle_core::{DType, Device, Tensor};

use crate::bound::{close, EXACT, FUNCTION, SUM};
use crate::case::Cases;

pub fn add(cases: &mut Cases) {
    cases.add("comparison/refuses", |_| {
        let of = |v: f64, dtype| Tensor::new(&[v, 1.], &Device::Cpu)?.to_dtype(dtype);
        let nan = f64::NAN;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (e, g) in [
                (1., 1.02),
                (nan, 1.),
                (1., nan),
                (f64::INFINITY, 1e4),
                (0., f64::INFINITY),
                (1., -1.),
            ] {
                let refused = close(&of(e, DType::F64)?, &of(g, dtype)?, FUNCTION).is_err();
                ensure!(refused, "{g} passed for {e} in {dtype:?}");
            }
            for v in [nan, f64::INFINITY, 0.1, -3e4] {
                close(&of(v, DType::F64)?, &of(v, dtype)?, EXACT)?;
            }
        }
        let wrong = close(&of(1., DType::U8)?, &of(2., DType::U8)?, SUM);
        ensure!(wrong.is_err(), "2 passed for 1");
        ensure!(
            close(&of(1., DType::F32)?, &of(1., DType::F16)?, SUM).is_err(),
            "f16 passed for f32"
        );
        let row = of(1., DType::F32)?;
        ensure!(
            close(&row, &row.unsqueeze(0)?, SUM).is_err(),
            "(1, 2) passed for (2)"
        );
        Ok(())
    });
}
