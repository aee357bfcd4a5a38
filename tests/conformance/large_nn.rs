//! Tensors larger than one binding in matmuls, in ops on rows and in ops on images.

use anyhow::{ensure, Result};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor, D};
use candle_nn::ops::{layer_norm, rms_norm, softmax_last_dim};

use crate::bound::{Bound, ATTENTION, EXACT, FUNCTION, MATMUL, NORM, ROPE, SOFTMAX, SUM};
use crate::case::Cases;
use crate::large::{add_case, bytes, check, floats, matrix, REAL, SMALL};
use crate::quant::bound_of;

/// Some sums of f16 on the CPU are in f16.
const HALF_MATMUL: Bound = Bound {
    rel: 4e-3,
    abs: 4e-3,
    ..MATMUL
};

/// Sums of one product per channel.
const LONG_CONV: Bound = Bound {
    abs: 2e-3,
    ..MATMUL
};

pub fn add(cases: &mut Cases) {
    products(cases);
    quantized(cases);
    rows(cases);
    images(cases);
}

fn products(cases: &mut Cases) {
    // Many rows of weights in a linear layer, such as a vocabulary.
    add_case(cases, REAL, "linear", |d, limit| {
        let w = (floats(&matrix(limit, 2048))? * 0.05)?;
        for m in [1, 3, 20] {
            let x = floats(&[m, 2048])?;
            check(d, &[x, w.clone()], MATMUL, |t| t[0].matmul(&t[1].t()?))?;
        }
        Ok(())
    });
    add_case(cases, REAL, "matmul_by_a_large_matrix", |d, limit| {
        let [n, k] = matrix(limit, 512);
        let w = (floats(&[k, n])? * 0.05)?;
        for m in [1, 3, 20] {
            check(d, &[floats(&[m, k])?, w.clone()], MATMUL, |t| {
                t[0].matmul(&t[1])
            })?;
        }
        Ok(())
    });
    add_case(
        cases,
        SMALL,
        "matmul_by_a_large_matrix_of_halves",
        |d, limit| {
            let (n, k) = (limit / 2 / 512 + 32, 512);
            let w = (floats(&[k, n])? * 0.05)?.to_dtype(DType::F16)?;
            let x = floats(&[2, k])?.to_dtype(DType::F16)?;
            check(d, &[x, w], HALF_MATMUL, |t| t[0].matmul(&t[1]))
        },
    );
    add_case(cases, SMALL, "matmul_of_a_large_matrix", |d, limit| {
        let x = floats(&matrix(limit, 512))?;
        let w = (floats(&[512, 8])? * 0.05)?;
        check(d, &[x, w.clone()], MATMUL, |t| t[0].matmul(&t[1]))?;
        let x = floats(&[512, limit / 4 / 512 + 33])?;
        check(d, &[x, w], MATMUL, |t| t[0].t()?.matmul(&t[1]))
    });
    add_case(cases, SMALL, "matmul_with_a_large_result", |d, limit| {
        let side = (limit as f64 / 4.).sqrt() as usize + 9;
        let (a, b) = (floats(&[side, 8])?, floats(&[8, side])?);
        check(d, &[a, b], MATMUL, |t| t[0].matmul(&t[1]))
    });
    add_case(cases, SMALL, "matmul_of_a_large_batch", |d, limit| {
        let batch = limit / 4 / 64 / 32 + 5;
        let (a, b) = (floats(&[batch, 4, 64])?, floats(&[batch, 64, 32])?);
        check(d, &[a, (b * 0.1)?], MATMUL, |t| t[0].matmul(&t[1]))
    });
}

/// Blocks that exceed a binding.
fn quantized(cases: &mut Cases) {
    add_case(cases, REAL, "quantized", |d, limit| {
        // 34 bytes for 32 elements.
        let (k, n) = (2048, limit / 34 * 32 / 2048 + 40);
        let w = QTensor::quantize(&(floats(&[n, k])? * 0.05)?, GgmlDType::Q8_0)?;
        let there = QStorage::from_data(w.data()?, d, GgmlDType::Q8_0)?;
        let there = QTensor::new(there, (n, k))?;
        // The reference has the same numbers in f32: the CPU's quantized matmul would round activations to 8 bits.
        let exact = w.dequantize(&Device::Cpu)?;
        let near = |name: &str, cpu: Tensor, here: Tensor, most: f64| -> Result<()> {
            let off = (here.to_device(&Device::Cpu)? - cpu)?.abs()?;
            let off = off.flatten_all()?.max(0)?.to_scalar::<f32>()?;
            ensure!(f64::from(off) <= most, "{name}: {off}");
            Ok(())
        };
        let ids = Tensor::new(&[0u32, n as u32 - 1, n as u32 / 2], &Device::Cpu)?;
        let rows = exact.index_select(&ids, 0)?;
        let dense = there.dequantize(d)?;
        near(
            "unpacked",
            rows.clone(),
            dense.index_select(&ids.to_device(d)?, 0)?,
            2e-3,
        )?;
        drop(dense);
        let product = QMatMul::from_qtensor(there)?;
        for m in [1, 20] {
            let x = floats(&[m, k])?;
            let y = product.forward(&x.to_device(d)?)?;
            // Activations are within 2, and all rows of weights about as long.
            let most = 2e-3f64.max(2. * bound_of(&rows, m, d)?.abs);
            near("product", x.matmul(&exact.t()?)?, y, most)?;
        }
        Ok(())
    });
}

fn rows(cases: &mut Cases) {
    add_case(cases, REAL, "attention", |d, limit| {
        let t = limit / 4 / 8 / 64 + 40;
        let k = floats(&[1, 8, t, 64])?;
        let v = (floats(&[1, 8, t + 3, 64])?.narrow(2, 3, t)? * 0.5)?;
        check(d, &[floats(&[1, 8, 2, 64])?, k, v], ATTENTION, |t| {
            let p = softmax_last_dim(&(t[0].matmul(&t[1].t()?)? * 0.125)?)?;
            p.matmul(&t[2])
        })
    });
    add_case(cases, REAL, "softmax", |d, limit| {
        check(d, &[floats(&matrix(limit, 3001))?], SOFTMAX, |t| {
            softmax_last_dim(&t[0])
        })
    });
    add_case(cases, SMALL, "softmax_of_one_row", |d, limit| {
        let x = floats(&[1, limit / 4 + 33])?;
        check(d, &[x], FUNCTION, |t| softmax_last_dim(&t[0]))
    });
    add_case(cases, SMALL, "norms", |d, limit| {
        let x = floats(&matrix(limit, 1024))?;
        let operands = [x, floats(&[1024])?, floats(&[1024])?];
        check(d, &operands, NORM, |t| rms_norm(&t[0], &t[1], 1e-5))?;
        check(d, &operands, NORM, |t| {
            layer_norm(&t[0], &t[1], &t[2], 1e-5)
        })
    });
    add_case(cases, SMALL, "rope", |d, limit| {
        let t = limit / 4 / 4 / 64 + 5;
        let operands = [
            floats(&[1, 4, t, 64])?,
            floats(&[t, 32])?,
            floats(&[t, 32])?,
        ];
        check(d, &operands, ROPE, |t| {
            candle_nn::rotary_emb::rope(&t[0], &t[1], &t[2])
        })
    });
    add_case(cases, SMALL, "argsort", |d, limit| {
        let x = floats(&matrix(limit, 100))?;
        check(d, &[x], EXACT, |t| t[0].arg_sort_last_dim(true))
    });
    add_case(cases, SMALL, "argsort_of_a_long_row", |d, limit| {
        // All values differ: the CPU's sort is not stable.
        let n = limit / 8 + 33;
        let value = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
        let x: Vec<u32> = (0..2 * n).map(value).collect();
        let x = Tensor::from_vec(x, (2, n), &Device::Cpu)?;
        check(d, &[x], EXACT, |t| t[0].arg_sort_last_dim(false))
    });
    add_case(cases, SMALL, "logits", |d, limit| {
        let x = floats(&matrix(limit, 3001))?.to_dtype(DType::F16)?;
        check(d, &[x], EXACT, |t| t[0].argmax(D::Minus1))
    });
}

fn images(cases: &mut Cases) {
    add_case(cases, SMALL, "conv2d", |d, limit| {
        let x = floats(&[limit / 4 / 3 / 1024 + 3, 3, 32, 32])?;
        let w = (floats(&[2, 3, 3, 3])? * 0.1)?;
        check(d, &[x, w], MATMUL, |t| t[0].conv2d(&t[1], 1, 2, 1, 1))
    });
    add_case(cases, SMALL, "conv1d_with_a_large_result", |d, limit| {
        let x = floats(&[1, 2, 4000])?;
        let w = (floats(&[limit / 4 / 3998 + 3, 2, 3])? * 0.1)?;
        check(d, &[x, w], MATMUL, |t| t[0].conv1d(&t[1], 0, 1, 1, 1))
    });
    add_case(cases, SMALL, "conv2d_of_a_large_image", |d, limit| {
        let x = floats(&[1, limit / 4 / 1024 + 3, 32, 32])?;
        let w = (floats(&[2, limit / 4 / 1024 + 3, 2, 2])? * 0.01)?;
        check(d, &[x, w], LONG_CONV, |t| t[0].conv2d(&t[1], 0, 1, 1, 1))
    });
    add_case(cases, SMALL, "conv_transpose2d", |d, limit| {
        let x = floats(&[limit / 4 / 3 / 1024 + 3, 3, 32, 32])?;
        let w = (floats(&[3, 2, 2, 2])? * 0.1)?;
        check(d, &[x, w], MATMUL, |t| {
            t[0].conv_transpose2d(&t[1], 0, 0, 2, 1)
        })
    });
    add_case(cases, SMALL, "upsample_bilinear", |d, limit| {
        let x = floats(&[limit / 4 / 3 / 1024 + 3, 3, 16, 16])?;
        check(d, &[x], FUNCTION, |t| {
            t[0].upsample_bilinear2d(32, 32, false)
        })
    });
    add_case(cases, SMALL, "pool_of_a_large_image", |d, limit| {
        let x = bytes(&[1, 1, limit / 500 + 3, 501])?;
        check(d, &[x], EXACT, |t| {
            t[0].max_pool2d_with_stride((3, 2), (2, 3))
        })
    });
    add_case(cases, SMALL, "pool", |d, limit| {
        let x = floats(&[limit / 4 / 3 / 1024 + 3, 3, 32, 32])?;
        check(d, std::slice::from_ref(&x), EXACT, |t| t[0].max_pool2d(2))?;
        check(d, &[x], SUM, |t| t[0].avg_pool2d(3))
    });
    add_case(cases, SMALL, "upsample", |d, limit| {
        let x = floats(&[limit / 4 / 3 / 1024 + 3, 3, 16, 16])?;
        check(d, &[x], EXACT, |t| t[0].upsample_nearest2d(32, 32))
    });
}
