//! Quantized tensors, by their dtype.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module, Result, Tensor};
use GgmlDType::{BF16, F16, F32, Q2K, Q3K, Q4K, Q4_0, Q4_1, Q5K, Q5_0, Q5_1, Q6K, Q8K, Q8_0, Q8_1};

use crate::table::{Row, Table};

const ALL: &[GgmlDType] = &[
    F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, Q2K, Q3K, Q4K, Q5K, Q6K, Q8K,
];

// What CUDA and Metal have kernels for, or do on the CPU.
const NONE: &[GgmlDType] = &[];
const USUAL: &[GgmlDType] = &[
    F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K,
];
const TO_F16: &[GgmlDType] = &[Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Q8K];
const K_QUANTS: &[GgmlDType] = &[Q2K, Q3K, Q4K, Q5K, Q6K];
const EXPERTS: &[GgmlDType] = &[Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K];

/// 1, 2, 3, 4, 1, ... along each row of 256; each row and each matrix starts one later.
fn values(dims: &[usize]) -> Result<Tensor> {
    let count = dims.iter().product::<usize>();
    let values: Vec<f32> = (0..count)
        .map(|i| (1 + (i + i / 256 + i / 1024) % 4) as f32)
        .collect();
    Tensor::from_vec(values, dims, &Device::Cpu)
}

fn load(q: &QTensor, d: &Device) -> Result<QTensor> {
    let bytes = Cow::Owned(q.data()?.into_owned());
    QTensor::new(QStorage::from_data(bytes, d, q.dtype())?, q.shape())
}

fn weights(dims: &[usize], d: &Device, dtype: GgmlDType) -> Result<QTensor> {
    load(&QTensor::quantize(&values(dims)?, dtype)?, d)
}

fn matrix(d: &Device, dtype: GgmlDType) -> Result<QTensor> {
    weights(&[4, 256], d, dtype)
}

/// Row i selects every fourth element, beginning with element i.
fn activations(dims: &[usize], d: &Device) -> Result<Tensor> {
    let count = dims.iter().product::<usize>();
    let picks = |i: usize| i % 4 == i / 256;
    let values: Vec<f32> = (0..count)
        .map(|i| if picks(i) { 1. / 32. } else { 0. })
        .collect();
    Tensor::from_vec(values, dims, d)
}

fn quantize_imatrix(d: &Device, dtype: GgmlDType) -> Result<Tensor> {
    let x = values(&[4, 256])?.to_device(d)?;
    QTensor::quantize_imatrix(&x, &[1.; 256], dtype)?.dequantize(d)
}

fn indexed_moe_forward(d: &Device, dtype: GgmlDType) -> Result<Tensor> {
    let ids = Tensor::new(&[[0u32, 1], [1, 0]], d)?;
    weights(&[2, 4, 256], d, dtype)?.indexed_moe_forward(&activations(&[2, 1, 256], d)?, &ids)
}

type Line = (
    &'static str,
    fn(&Device, GgmlDType) -> Result<Tensor>,
    &'static [GgmlDType],
    &'static [GgmlDType],
);

#[rustfmt::skip]
const OPS: &[Line] = &[
    // op                   how it is tried                                                               CUDA      Metal
    ("load, read back",     |d, t| load(&matrix(d, t)?, &Device::Cpu)?.dequantize(&Device::Cpu),          ALL,      ALL),
    ("dequantize",          |d, t| matrix(d, t)?.dequantize(d),                                           ALL,      ALL),
    ("dequantize_f16",      |d, t| matrix(d, t)?.dequantize_f16(d),                                       TO_F16,   ALL),
    ("embedding",           |d, t| matrix(d, t)?.embedding(&Tensor::new(&[2u32, 0, 3], d)?),              USUAL,    USUAL),
    ("matmul (QMatMul)",    |d, t| QMatMul::from_qtensor(matrix(d, t)?)?.forward(&activations(&[3, 256], d)?), USUAL, USUAL),
    ("quantize",            |d, t| QTensor::quantize(&values(&[4, 256])?.to_device(d)?, t)?.dequantize(d), ALL,     ALL),
    ("quantize_imatrix",    quantize_imatrix,                                                             K_QUANTS, K_QUANTS),
    ("indexed_moe_forward", indexed_moe_forward,                                                          EXPERTS,  NONE),
];

pub fn table() -> Table<GgmlDType> {
    let row = |&(op, run, cuda, metal): &Line| Row {
        op: op.to_string(),
        run: Box::new(run),
        cuda,
        metal,
    };
    Table {
        title: "Quantized tensors, by their dtype",
        columns: ALL,
        name: |dtype| format!("{dtype:?}").to_lowercase(),
        reference: F32,
        rows: OPS.iter().map(row).collect(),
    }
}
