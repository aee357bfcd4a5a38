//! Quantized tensors: every GGUF format against the CPU's unpacking of the same blocks. A matmul is compared with that
//! of unpacked weights, and with the CPU's quantized matmul, which rounds the activations to eight bits.

use std::borrow::Cow;

use anyhow::{ensure, Result};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor, D};

use crate::bound::{close, floats, Bound, EXACT, MATMUL};
use crate::case::Cases;
use crate::input::{tensor, Fill, Operand, Rng, FLOATS};

/// `scale * q + shift`, fused or not; either term may be much larger than the sum.
const UNPACKED: Bound = Bound {
    abs: 2e-6,
    rel: 3.6e-7,
    ulps: 1,
};

/// A format and the floats in its blocks: the byte offset of each f16, or of the one f32 of Q8_K, and a magnitude that
/// keeps elements within a few units.
pub struct Format {
    dtype: GgmlDType,
    halves: &'static [usize],
    most: f64,
}

const fn format(dtype: GgmlDType, halves: &'static [usize], most: f64) -> Format {
    Format {
        dtype,
        halves,
        most,
    }
}

#[rustfmt::skip]
pub const FORMATS: [Format; 15] = [
    format(GgmlDType::F32,  &[],       0.0),
    format(GgmlDType::F16,  &[],       0.0),
    format(GgmlDType::BF16, &[],       0.0),
    format(GgmlDType::Q4_0, &[0],      0.2),
    format(GgmlDType::Q4_1, &[0, 2],   0.1),
    format(GgmlDType::Q5_0, &[0],      0.1),
    format(GgmlDType::Q5_1, &[0, 2],   0.05),
    format(GgmlDType::Q8_0, &[0],      0.01),
    format(GgmlDType::Q8_1, &[0, 2],   0.01),
    format(GgmlDType::Q2K,  &[80, 82], 0.03),
    format(GgmlDType::Q3K,  &[108],    0.01),
    format(GgmlDType::Q4K,  &[0, 2],   0.002),
    format(GgmlDType::Q5K,  &[0, 2],   0.001),
    format(GgmlDType::Q6K,  &[208],    0.0004),
    format(GgmlDType::Q8K,  &[],       0.01),
];

impl Format {
    pub fn name(&self) -> String {
        format!("{:?}", self.dtype).to_lowercase()
    }

    pub fn is_dense(&self) -> bool {
        self.dtype.block_size() == 1
    }

    /// Blocks of random bits, with floats that keep elements within a few units.
    fn blocks(&self, count: usize, seed: u64) -> Result<Vec<u8>> {
        let mut rng = Rng::new(seed);
        let (size, elems) = (self.dtype.type_size(), self.dtype.block_size());
        if self.is_dense() {
            let t = QTensor::quantize(
                &tensor(DType::F32, &[count], seed, Fill::Small)?,
                self.dtype,
            )?;
            return Ok(t.data()?.into_owned());
        }
        let mut bytes: Vec<u8> = (0..count / elems * size)
            .map(|_| rng.next() as u8)
            .collect();
        for block in bytes.chunks_mut(size) {
            for &at in self.halves {
                let v = half::f16::from_f64(rng.uniform(-self.most, self.most));
                block[at..at + 2].copy_from_slice(&v.to_le_bytes());
            }
            if self.dtype == GgmlDType::Q8K {
                let v = rng.uniform(-self.most, self.most) as f32;
                block[..4].copy_from_slice(&v.to_le_bytes());
            }
        }
        Ok(bytes)
    }
}

fn load(bytes: &[u8], dtype: GgmlDType, dims: &[usize], device: &Device) -> Result<QTensor> {
    let storage = QStorage::from_data(Cow::Owned(bytes.to_vec()), device, dtype)?;
    Ok(QTensor::new(storage, dims)?)
}

/// The same blocks on the CPU and on the device.
pub fn pair(f: &Format, dims: &[usize], seed: u64, device: &Device) -> Result<(QTensor, QTensor)> {
    let bytes = f.blocks(dims.iter().product(), seed)?;
    let cpu = load(&bytes, f.dtype, dims, &Device::Cpu)?;
    Ok((cpu, load(&bytes, f.dtype, dims, device)?))
}

/// Rows of weights and their size: whole and partial groups of blocks, columns that do not fill a tile.
const SIZES: [(usize, usize); 6] = [
    (1, 256),
    (3, 768),
    (8, 512),
    (33, 256),
    (66, 768),
    (130, 1280),
];
const SMALL_SIZES: [(usize, usize); 4] = [(1, 32), (5, 96), (31, 160), (64, 576)];
/// So many columns that a row of activations is multiplied by several at a time, in several rounds.
const WIDE_SIZES: [(usize, usize); 2] = [(4099, 2304), (33_001, 256)];
/// Each number of rows that a kernel takes, and some that do not fill a tile.
const MS: [usize; 9] = [1, 2, 3, 5, 8, 9, 12, 33, 70];

pub fn add(cases: &mut Cases) {
    for f in &FORMATS {
        let name = f.name();
        let small = if f.dtype.block_size() <= 32 {
            &SMALL_SIZES[..]
        } else {
            &[]
        };
        let sizes: Vec<_> = SIZES.iter().chain(small).copied().collect();
        for (n, k) in sizes {
            cases.add(format!("quant/{name}/unpack/{n}x{k}"), move |d| {
                unpack(f, n, k, d)
            });
            for m in MS {
                cases.add(format!("quant/{name}/matmul/{m}x{k}x{n}"), move |d| {
                    matmul(f, &[m], [n, k], d)
                });
            }
        }
        for &(n, k) in WIDE_SIZES.iter().filter(|_| !f.is_dense()) {
            cases.add(format!("quant/{name}/matmul/1x{k}x{n}"), move |d| {
                matmul(f, &[1], [n, k], d)
            });
        }
        cases.add(format!("quant/{name}/beside_the_cpu"), move |d| {
            beside_the_cpu(f, d)
        });
        cases.add(format!("quant/{name}/views"), move |d| views(f, d));
        cases.add(format!("quant/{name}/quantize"), move |d| quantize(f, d));
        if !f.is_dense() {
            cases.add(format!("quant/{name}/experts"), move |d| experts(f, d));
            cases.add(format!("quant/{name}/large"), move |d| {
                matmul(f, &[125, 40], [24_600, 512], d)
            });
            cases.add(format!("quant/{name}/prompts"), move |d| {
                matmul(f, &[300, 17, 300], [66, 768], d)?;
                matmul(f, &[20, 300], [66, 768], d)
            });
            if f.dtype.block_size() == 32 {
                cases.add(format!("quant/{name}/zero_blocks"), move |d| {
                    zero_blocks(f, d)
                });
            }
        }
        cases.alone(format!("quant/{name}/ids_out_of_range"), move |d| {
            ids_out_of_range(f, d)
        });
    }
    cases.add("quant/wrong_shapes", wrong_shapes);
}

fn unpack(f: &Format, n: usize, k: usize, device: &Device) -> Result<()> {
    let (cpu, here) = pair(f, &[n, k], 1, device)?;
    ensure!(cpu.data()? == here.data()?, "the bytes changed");
    ensure!(cpu.storage_size_in_bytes() == here.storage_size_in_bytes());
    let expected = cpu.dequantize(&Device::Cpu)?;
    close(&expected, &here.dequantize(device)?, UNPACKED)?;
    let half = here.dequantize_f16(device)?;
    close(&expected.to_dtype(DType::F64)?, &half, UNPACKED)?;
    let ids: Vec<u32> = (0..7).map(|i| (i * 5 % n) as u32).collect();
    for ids in [
        Tensor::new(&ids[..], &Device::Cpu)?,
        Tensor::new(&ids[..6], &Device::Cpu)?.reshape((2, 3))?,
    ] {
        let picked = here.embedding(&ids.to_device(device)?)?;
        close(&cpu.embedding(&ids)?, &picked, UNPACKED)?;
    }
    Ok(())
}

/// Activations of magnitude at most 1.
pub fn activations(dims: &[usize], dtype: DType, seed: u64) -> Result<Tensor> {
    Ok((tensor(DType::F32, dims, seed, Fill::Small)? * 0.5)?.to_dtype(dtype)?)
}

/// `x` times the transpose of `w` in f64.
pub fn product(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (x, w) = (x.to_dtype(DType::F64)?, w.to_dtype(DType::F64)?);
    let rows = x.elem_count() / w.dim(1)?;
    let mut dims = x.dims().to_vec();
    dims[x.rank() - 1] = w.dim(0)?;
    Ok(x.reshape((rows, w.dim(1)?))?
        .matmul(&w.t()?)?
        .reshape(dims)?)
}

/// The bound for activations within 1 and weights of a few units instead of one. If the device multiplies integers, it
/// rounds activations to steps of 1 / 16320 or less: six standard deviations of a sum of such errors. If it multiplies
/// many rows with cooperative matrices, it rounds activations and weights to f16, by a relative 2^-11 each: six standard
/// deviations of such a sum.
pub fn bound_of(weights: &Tensor, rows: usize, device: &Device) -> Result<Bound> {
    let float = Bound {
        abs: 1e-4,
        ..MATMUL
    };
    let device = device.as_webgpu_device()?.runtime();
    let deviation = if rows > 16 && device.cooperative() {
        (2. / 3f64).sqrt() / 2048.
    } else if device.dot4() {
        1. / (12f64.sqrt() * 16320.)
    } else {
        return Ok(float);
    };
    let squares = weights.to_dtype(DType::F64)?.sqr()?.sum(D::Minus1)?;
    let greatest = squares.max_all()?.to_scalar::<f64>()?.sqrt();
    Ok(Bound {
        abs: float.abs + 6.0 * greatest * deviation,
        ..float
    })
}

/// Several numbers of rows times one matrix, for which the first with cooperative matrices finds the scales.
fn matmul(f: &Format, rows: &[usize], [n, k]: [usize; 2], device: &Device) -> Result<()> {
    let (cpu, here) = pair(f, &[n, k], 2, device)?;
    let weights = cpu.dequantize(&Device::Cpu)?;
    let here = matmul_of(here);
    for &m in rows {
        // Only loads of x and stores of y depend on their dtype: a few sizes suffice for 16-bit dtypes.
        let dtypes = if [1, 3, 33].contains(&m) && n < 100 {
            &FLOATS[..]
        } else {
            &FLOATS[..1]
        };
        for &dtype in dtypes {
            let x = activations(&[m, k], dtype, 3)?;
            let y = here.forward(&x.to_device(device)?)?;
            close(&product(&x, &weights)?, &y, bound_of(&weights, m, device)?)?;
        }
    }
    Ok(())
}

/// Every other block is zero, but has a large scale, which exceeds f16 when the line is scaled by its small elements.
fn zero_blocks(f: &Format, device: &Device) -> Result<()> {
    let [n, k] = [66, 768];
    let mut bytes = f.blocks(n * k, 8)?;
    let half = |v: f64| half::f16::from_f64(v).to_le_bytes();
    for (i, block) in bytes.chunks_mut(f.dtype.type_size()).enumerate() {
        if i % 2 == 0 {
            block.fill(match f.dtype {
                GgmlDType::Q4_0 => 0x88,
                _ => 0,
            });
            if f.dtype == GgmlDType::Q5_0 {
                block[2..6].fill(0xff); // the high bits of 16, which stands for 0
            }
            block[..2].copy_from_slice(&half(60_000.));
        } else {
            for &at in f.halves {
                block[at..at + 2].copy_from_slice(&half(0.001));
            }
        }
    }
    let weights = load(&bytes, f.dtype, &[n, k], &Device::Cpu)?.dequantize(&Device::Cpu)?;
    let here = matmul_of(load(&bytes, f.dtype, &[n, k], device)?);
    for m in [5, 20, 300] {
        let x = activations(&[m, k], DType::F32, 3)?;
        let y = here.forward(&x.to_device(device)?)?;
        close(&product(&x, &weights)?, &y, bound_of(&weights, m, device)?)?;
    }
    Ok(())
}

/// Avoids `QMatMul::from_qtensor`, which unpacks dense tensors when they are loaded.
pub fn matmul_of(weights: QTensor) -> QMatMul {
    QMatMul::QTensor(std::sync::Arc::new(weights))
}

/// The CPU rounds activations to 1/127 of the greatest of a block, and a scale of Q4_1 and Q5_1 to f16. The bound is
/// half a step per activation, and as much again for other roundings.
fn beside_the_cpu(f: &Format, device: &Device) -> Result<()> {
    let (m, n, k) = (5, 40, 1024);
    let (cpu, here) = pair(f, &[n, k], 4, device)?;
    let x = activations(&[m, k], DType::F32, 5)?;
    let expected = floats(&matmul_of(cpu).forward(&x)?)?;
    let weights = matmul_of(here);
    let got = floats(&weights.forward(&x.to_device(device)?)?)?;
    let QMatMul::QTensor(weights) = weights else {
        anyhow::bail!("not quantized")
    };
    let w = weights
        .dequantize(device)?
        .to_device(&Device::Cpu)?
        .to_vec2::<f32>()?;
    let x = x.to_vec2::<f32>()?;
    for (i, (e, g)) in expected.iter().zip(&got).enumerate() {
        let (x, w) = (&x[i / n], &w[i % n]);
        let greatest = x.iter().fold(0f32, |a, v| a.max(v.abs()));
        let sum: f32 = w.iter().map(|v| v.abs()).sum();
        let allowed = f64::from(sum * greatest / 127.0);
        ensure!(
            (e - g).abs() <= allowed,
            "[{i}] {g}, the CPU gives {e}, the bound is {allowed}"
        );
    }
    Ok(())
}

/// Activations in any layout, and batches.
fn views(f: &Format, device: &Device) -> Result<()> {
    let (n, k) = (36, 256);
    let (cpu, here) = pair(f, &[n, k], 6, device)?;
    let weights = cpu.dequantize(&Device::Cpu)?;
    let here = matmul_of(here);
    type View = fn(Tensor) -> candle_core::Result<Tensor>;
    let views: [(&[usize], View); 9] = [
        (&[3, 1, 256], Ok),
        (&[20, 1, 256], Ok),
        (&[2, 3, 256], Ok),
        (&[2, 2, 5, 256], Ok),
        (&[256, 5], |t| t.t()),
        (&[256, 21], |t| t.t()),
        (&[4, 259], |t| t.narrow(1, 1, 256)),
        (&[2, 12, 256], |t| t.narrow(1, 2, 3)),
        (&[2, 3, 1, 256], |t| {
            t.transpose(0, 1)?.broadcast_as((3, 2, 4, 256))
        }),
    ];
    for (dims, view) in views {
        for dtype in FLOATS {
            let x = Operand::viewed(activations(dims, dtype, 7)?, view);
            let wide = x.wide()?;
            close(
                &product(&wide, &weights)?,
                &here.forward(&x.on(device)?)?,
                bound_of(&weights, wide.elem_count() / k, device)?,
            )?;
        }
    }
    let none = Tensor::zeros((0, 256), DType::F32, device)?;
    ensure!(here.forward(&none)?.dims() == [0, 36]);
    Ok(())
}

/// Quantizing gives the CPU's bytes, from a source on either device.
fn quantize(f: &Format, device: &Device) -> Result<()> {
    let x = tensor(DType::F32, &[6, 512], 8, Fill::Wide)?;
    let here = x.to_device(device)?;
    let expected = QTensor::quantize(&x, f.dtype)?;
    ensure!(
        QTensor::quantize(&here, f.dtype)?.data()? == expected.data()?,
        "quantize"
    );
    ensure!(
        QTensor::quantize_onto(&x, f.dtype, device)?.data()? == expected.data()?,
        "quantize_onto"
    );
    let weights: Vec<f32> = (0..512).map(|i| 0.5 + (i % 7) as f32).collect();
    let weighed = matches!(
        f.dtype,
        GgmlDType::Q2K | GgmlDType::Q3K | GgmlDType::Q4K | GgmlDType::Q5K | GgmlDType::Q6K
    );
    let got = QTensor::quantize_imatrix(&here, &weights, f.dtype);
    let onto = QTensor::quantize_imatrix_onto(&x, &weights, f.dtype, device);
    if !weighed {
        ensure!(
            got.is_err() && onto.is_err(),
            "an importance matrix for {:?}",
            f.dtype
        );
        return Ok(());
    }
    let expected = QTensor::quantize_imatrix(&x, &weights, f.dtype)?;
    ensure!(got?.data()? == expected.data()?, "quantize_imatrix");
    ensure!(onto?.data()? == expected.data()?, "quantize_imatrix_onto");
    Ok(())
}

/// Each token with its chosen experts, from one row per token and from one row per expert.
fn experts(f: &Format, device: &Device) -> Result<()> {
    for (n, k) in [(7, 256), (70, 2048)] {
        let (cpu, here) = pair(f, &[4, n, k], 9, device)?;
        let weights = cpu.dequantize(&Device::Cpu)?;
        let ids = Tensor::new(&[[3u32, 1], [0, 0], [2, 3]], &Device::Cpu)?;
        for rows in [1, 2] {
            for dtype in FLOATS {
                let x = activations(&[3, rows, k], dtype, 10)?;
                let mut expected = Vec::new();
                for (token, picked) in ids.to_vec2::<u32>()?.into_iter().enumerate() {
                    for (i, id) in picked.into_iter().enumerate() {
                        let row = x.get(token)?.narrow(0, i.min(rows - 1), 1)?;
                        expected.push(product(&row, &weights.get(id as usize)?)?);
                    }
                }
                let expected = Tensor::cat(&expected, 0)?.reshape((3, 2, n))?;
                let y = here.indexed_moe_forward(&x.to_device(device)?, &ids.to_device(device)?)?;
                close(&expected, &y, bound_of(&weights, 1, device)?)?;
            }
        }
    }
    Ok(())
}

fn ids_out_of_range(f: &Format, device: &Device) -> Result<()> {
    let (_, here) = pair(f, &[4, 256], 11, device)?;
    let ids = Tensor::new(&[1u32, 4, 2], device)?;
    let picked = here.embedding(&ids)?;
    let message = match device.synchronize() {
        Err(e) => e.to_string(),
        Ok(()) => anyhow::bail!("an id out of range passed"),
    };
    ensure!(message.contains("index 4"), "{message}");
    drop(picked);
    if f.is_dense() {
        return Ok(());
    }
    let (_, stack) = pair(f, &[2, 3, 256], 12, device)?;
    let x = Tensor::ones((1, 1, 256), DType::F32, device)?;
    let y = stack.indexed_moe_forward(&x, &Tensor::new(&[[0u32, 9]], device)?)?;
    let message = match device.synchronize() {
        Err(e) => e.to_string(),
        Ok(()) => anyhow::bail!("an expert out of range passed"),
    };
    ensure!(message.contains("index 9"), "{message}");
    drop(y);
    // The fault is reported once.
    close(
        &Tensor::ones(3, DType::F32, &Device::Cpu)?,
        &Tensor::ones(3, DType::F32, device)?,
        EXACT,
    )
}

/// Shapes that do not match are errors that name them.
fn wrong_shapes(device: &Device) -> Result<()> {
    let q4k = &FORMATS[11];
    let (_, w) = pair(q4k, &[4, 256], 13, device)?;
    let of = |dims: &[usize]| Tensor::zeros(dims, DType::F32, device);
    let stack = pair(q4k, &[2, 2, 256], 14, device)?.1;
    let ids = Tensor::zeros((1, 2), DType::U32, device)?;
    ensure!(stack.indexed_moe_forward(&of(&[1, 3, 256])?, &ids).is_err());
    ensure!(stack.indexed_moe_forward(&of(&[2, 1, 256])?, &ids).is_err());
    ensure!(w.embedding(&Tensor::zeros(2, DType::U32, device)?)?.dims() == [2, 256]);
    let w = matmul_of(w);
    for dims in [&[3, 128][..], &[256], &[3, 257]] {
        ensure!(w.forward(&of(dims)?).is_err(), "{dims:?} passed");
    }
    ensure!(
        w.forward(&Tensor::zeros((2, 256), DType::U32, device)?)
            .is_err(),
        "u32 passed"
    );
    ensure!(
        QStorage::from_data(Cow::Owned(vec![0; 145]), device, GgmlDType::Q4K).is_err(),
        "half a block passed"
    );
    Ok(())
}
