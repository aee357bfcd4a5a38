//! Matmuls of quantized weights that are fused with what surrounds them in models.

use anyhow::Result;
use candle_core::quantized::QTensor;
use candle_core::{DType, Device, Module, Tensor, D};
use candle_nn::ops::{rms_norm, rms_norm_slow, silu};

use crate::bound::{close, Bound, MATMUL};
use crate::case::Cases;
use crate::input::FLOATS;
use crate::quant::{activations, bound_of, matmul_of, pair, product, Format, FORMATS};

pub fn add(cases: &mut Cases) {
    for f in &FORMATS {
        let name = f.name();
        let sizes = [(1, 512, [40, 8, 8]), (3, 768, [12, 5000, 9])];
        for (m, k, columns) in sizes.into_iter().filter(|_| !f.is_dense()) {
            cases.add(
                format!("quant/{name}/fused_projections/{m}x{k}"),
                move |d| fused_projections(f, (m, k), columns, d),
            );
            cases.add(format!("quant/{name}/gated/{m}x{k}"), move |d| {
                gated(f, [m, columns[1], k], d)
            });
        }
        for columns in [[40, 8, 8], [4100, 5, 5]] {
            let n = columns[0];
            cases.add(format!("quant/{name}/rms_norm_matmul/{n}"), move |d| {
                rms_norm_matmul(f, columns, d)
            });
        }
    }
}

/// silu(x gate^T) (x up^T), as in models: nothing holds the intermediate results, so it is fused into one or two
/// kernels.
fn gated(f: &Format, [m, n, k]: [usize; 3], device: &Device) -> Result<()> {
    let x = activations(&[m, k], DType::F32, 3)?;
    let here = x.to_device(device)?;
    let [(gate, gate_here), (up, up_here)] =
        [pair(f, &[n, k], 6, device)?, pair(f, &[n, k], 7, device)?];
    let of = |w: &QTensor| Ok::<_, anyhow::Error>(w.dequantize(&Device::Cpu)?);
    let (gate, up) = (of(&gate)?, of(&up)?);
    let (gate_here, up_here) = (matmul_of(gate_here), matmul_of(up_here));
    let y = (silu(&gate_here.forward(&here)?)? * up_here.forward(&here)?)?;
    let (g, u) = (product(&x, &gate)?, product(&x, &up)?);
    let expected = (silu(&g)? * &u)?;
    // silu's derivative is at most 1.1.
    let greatest = |t: &Tensor| t.abs()?.max_all()?.to_scalar::<f64>();
    let off = [&gate, &up].map(|w| bound_of(w, m, device));
    let [of_gate, of_up] = off;
    let bound = Bound {
        abs: 1.1 * greatest(&u)? * of_gate?.abs + greatest(&g)? * of_up?.abs,
        ..MATMUL
    };
    close(&expected, &y, bound)
}

/// Two and three matmuls of the same rows, which are fused into one kernel.
fn fused_projections(
    f: &Format,
    (m, k): (usize, usize),
    columns: [usize; 3],
    device: &Device,
) -> Result<()> {
    for &dtype in &FLOATS {
        let x = activations(&[m, k], dtype, 3)?;
        let here = x.to_device(device)?;
        for count in [2, 3] {
            let (mut all, mut weights) = (Vec::new(), Vec::new());
            for (seed, n) in (6..).zip(&columns[..count]) {
                let (cpu, w) = pair(f, &[*n, k], seed, device)?;
                weights.push(cpu.dequantize(&Device::Cpu)?);
                all.push(matmul_of(w));
            }
            let products = all.iter().map(|w| w.forward(&here));
            let products = products.collect::<candle_core::Result<Vec<_>>>()?;
            for (y, w) in products.iter().zip(&weights) {
                close(&product(&x, w)?, y, bound_of(w, m, device)?)?;
            }
        }
    }
    Ok(())
}

/// The norm of a row and its matmuls, which are fused into one kernel. h is at most 1.8, since values of magnitude at
/// most 1 have a mean square of 1 / 3. If it is stored, it is also rounded to its dtype, which adds at most 6 u /
/// sqrt(3) 1.8 times the norm of the longest row of weights.
fn rms_norm_matmul(f: &Format, columns: [usize; 3], device: &Device) -> Result<()> {
    let k = 512;
    for &dtype in &FLOATS {
        let [x, alpha] =
            [(vec![1, k], 3), (vec![k], 4)].map(|(d, seed)| activations(&d, dtype, seed));
        let (x, alpha) = (x?, alpha?);
        let wide = |t: &Tensor| t.to_dtype(DType::F64);
        let h = rms_norm_slow(&wide(&x)?, &wide(&alpha)?, 1e-5)?;
        let u = match dtype {
            DType::F16 => 1. / 2048.,
            DType::BF16 => 1. / 256.,
            _ => 0.,
        };
        for count in [1, 3] {
            let (mut all, mut bounds) = (Vec::new(), Vec::new());
            for (seed, n) in (6..).zip(&columns[..count]) {
                let (cpu, w) = pair(f, &[*n, k], seed, device)?;
                let weights = cpu.dequantize(&Device::Cpu)?;
                let squares = wide(&weights)?.sqr()?.sum(D::Minus1)?.max_all()?;
                let mut bound = bound_of(&weights, 1, device)?;
                bound.abs = 1.8 * bound.abs + 6.3 * u * squares.to_scalar::<f64>()?.sqrt();
                bounds.push((product(&h, &weights)?.to_dtype(dtype)?, bound));
                all.push(matmul_of(w));
            }
            let products = {
                let (x, alpha) = (x.to_device(device)?, alpha.to_device(device)?);
                let h = rms_norm(&x, &alpha, 1e-5)?;
                let products = all.iter().map(|w| w.forward(&h));
                products.collect::<candle_core::Result<Vec<_>>>()?
            };
            for (y, (expected, bound)) in products.iter().zip(&bounds) {
                close(expected, y, *bound)?;
            }
        }
    }
    Ok(())
}
