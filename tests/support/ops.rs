//! Ops by the dtype of their values.

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_nn::{ops as nn, rotary_emb};
use DType::{BF16, F16, F32, F64, F8E4M3, I16, I32, I64, U32, U8};

use crate::shared::ops::{self, Family, Op, F, F_F64, F_F64_INT, F_INT};
use crate::table::{Row, Table};

pub const ALL: &[DType] = &[U8, U32, I16, I32, I64, BF16, F16, F32, F64, F8E4M3];

// Dtypes for which CUDA or Metal has a kernel.
const NONE: &[DType] = &[];
const F_U32: &[DType] = &[BF16, F16, F32, U32];
const F_U32_I64: &[DType] = &[BF16, F16, F32, U32, I64];
const F_U8_U32: &[DType] = &[BF16, F16, F32, U8, U32];
const F_F64_U8_U32: &[DType] = &[BF16, F16, F32, F64, U8, U32];
const F_F64_INT_F8: &[DType] = &[BF16, F16, F32, F64, U8, U32, I64, F8E4M3];
const COPY2D: &[DType] = &[BF16, F16, F32, U8, U32, I16, I32, I64];

/// 1, 2, ..., n, 1, ... of shape (1, 2, 4, 4): exact in every dtype.
fn cycle(d: &Device, dtype: DType, n: usize) -> Result<Tensor> {
    let values: Vec<f32> = (0..32).map(|i| (1 + i % n) as f32).collect();
    Tensor::from_vec(values, (1, 2, 4, 4), &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(d)
}

pub fn input(d: &Device, dtype: DType) -> Result<Tensor> {
    cycle(d, dtype, 4)
}

/// Ones of the same shape, dtype and device.
fn ones(x: &Tensor) -> Result<Tensor> {
    filled(x, x.dims())
}

fn filled(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    Tensor::ones(dims, F32, &Device::Cpu)?
        .to_dtype(x.dtype())?
        .to_device(x.device())
}

/// Ids of shape `dims`, all 0.
fn zeros(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    Tensor::zeros(dims, U32, x.device())
}

fn table_of_angles(x: &Tensor) -> Result<[Tensor; 2]> {
    Ok([filled(x, &[4, 2])?, filled(x, &[4, 2])?])
}

fn square(x: &Tensor) -> Result<Tensor> {
    x.reshape((8, 4))
}

/// (1, 2, 16)
fn line(x: &Tensor) -> Result<Tensor> {
    x.flatten_from(2)
}

/// An op, how it is tried, and the dtypes for which CUDA and Metal have a kernel.
type Line = (
    &'static str,
    fn(&Tensor) -> Result<Tensor>,
    &'static [DType],
    &'static [DType],
);

#[rustfmt::skip]
const STORAGE: &[Line] = &[
    // op                   how it is tried                                                     CUDA           Metal
    ("to and from the host", |x| Ok(x.clone()),                                                 ALL,           ALL),
    ("copy of a view",      |x| x.transpose(2, 3)?.contiguous(),                                F_F64_INT,     F_INT),
    ("cat, slice_set",      |x| Tensor::cat(&[x, x], 1),                                        F_F64_INT_F8,  COPY2D),
    ("ones, full",          |x| Tensor::ones(x.dims(), x.dtype(), x.device()),                  F_F64_INT_F8,  F_INT),
];

#[rustfmt::skip]
const WHERE_COND: Line =
    ("where_cond",          |x| Tensor::ones(x.dims(), U8, x.device())?.where_cond(x, &ones(x)?), F_F64_INT,   F_INT);

#[rustfmt::skip]
const OPS: &[Line] = &[
    ("arg_sort_last_dim",   |x| x.arg_sort_last_dim(false),                                     F_F64_INT,     F_INT),
    ("gather",              |x| square(x)?.gather(&zeros(x, &[8, 2])?, 1),                      F_F64_INT,     F_U32_I64),
    ("scatter",             |x| square(x)?.scatter(&zeros(x, &[8, 1])?, &filled(x, &[8, 1])?, 1), F_F64_INT,   F_U32),
    ("scatter_add",         |x| square(x)?.scatter_add(&zeros(x, &[8, 1])?, &filled(x, &[8, 1])?, 1), F_F64_INT, F_U32),
    ("index_select",        |x| square(x)?.index_select(&zeros(x, &[3])?, 0),                   F_F64_INT,     F_INT),
    ("index_add",           |x| square(x)?.index_add(&zeros(x, &[1])?, &filled(x, &[1, 4])?, 0), F_F64_INT,    F_INT),
    ("rand",                |x| x.rand_like(0., 1.)?.zeros_like(),                              F_F64,         F),
    ("randn",               |x| x.randn_like(0., 1.)?.zeros_like(),                             F_F64,         F),
    ("matmul",              |x| square(x)?.matmul(&x.reshape((4, 8))?),                         F_F64,         F),
    ("conv1d",              |x| line(x)?.conv1d(&filled(x, &[2, 2, 2])?, 0, 2, 1, 1),           F_F64,         F),
    ("conv2d",              |x| x.conv2d(&filled(x, &[2, 2, 2, 2])?, 0, 2, 1, 1),               F_F64,         F),
    ("conv_transpose1d",    |x| line(x)?.conv_transpose1d(&filled(x, &[2, 2, 2])?, 1, 0, 2, 1, 1), F_F64_U8_U32, F_U8_U32),
    ("conv_transpose2d",    |x| x.conv_transpose2d(&filled(x, &[2, 2, 2, 2])?, 0, 0, 2, 1),     F_F64_U8_U32,  F),
    ("avg_pool2d",          |x| x.avg_pool2d(2),                                                F_F64_U8_U32,  F_U8_U32),
    ("max_pool2d",          |x| x.max_pool2d(2),                                                F_F64_U8_U32,  F_U8_U32),
    ("upsample_nearest1d",  |x| line(x)?.upsample_nearest1d(32),                                NONE,          NONE),
    ("upsample_nearest2d",  |x| x.upsample_nearest2d(8, 8),                                     F_F64_U8_U32,  F_U8_U32),
    ("upsample_bilinear2d", |x| x.upsample_bilinear2d(8, 8, false),                             F_F64_U8_U32,  F_U8_U32),
];

#[rustfmt::skip]
const FUSED: &[Line] = &[
    ("softmax_last_dim",    nn::softmax_last_dim,                                              F_F64,         F),
    ("rms_norm",            |x| nn::rms_norm(x, &filled(x, &[4])?, 1e-5),                      F_F64,         F),
    ("layer_norm",          |x| nn::layer_norm(x, &filled(x, &[4])?, &filled(x, &[4])?, 1e-5), F_F64,         F),
    ("rope",                |x| { let [c, s] = table_of_angles(x)?; rotary_emb::rope(x, &c, &s) }, F_F64,      F),
    ("rope_i",              |x| { let [c, s] = table_of_angles(x)?; rotary_emb::rope_i(x, &c, &s) }, F_F64,    F),
    ("rope_thd",            |x| { let [c, s] = table_of_angles(x)?; rotary_emb::rope_thd(x, &c, &s) }, F_F64,  F),
    ("sdpa",                |x| { let q = x.reshape((1, 1, 1, 32))?; nn::sdpa(&q, &q, &q, None, false, 1., 1.) }, NONE, F),
];

/// Ops in which the CPU casts f8e4m3 to f64, which recurses forever (0.11.1).
const ENDLESS: &[&str] = &["upsample_bilinear2d"];

fn own(&(op, run, cuda, metal): &Line) -> Row<DType> {
    Row {
        op: op.to_string(),
        run: Box::new(move |d: &Device, dtype| {
            if d.is_cpu() && dtype == F8E4M3 && ENDLESS.contains(&op) {
                bail!("it never returns")
            }
            run(&input(d, dtype)?)
        }),
        cuda,
        metal,
    }
}

fn shared(op: &'static Op) -> Row<DType> {
    Row {
        op: op.name.to_string(),
        run: Box::new(|d: &Device, dtype| {
            let x = [input(d, dtype)?, cycle(d, dtype, 2)?];
            op.run(&x, &[3], &[2., 1.])
        }),
        cuda: op.cuda,
        metal: op.metal,
    }
}

fn of(title: &'static str, rows: Vec<Row<DType>>) -> Table<DType> {
    Table {
        title,
        columns: ALL,
        name: |dtype| dtype.as_str().to_string(),
        reference: F32,
        rows,
    }
}

/// The only op of candle-nn in the shared table.
const SIGMOID: &str = "sigmoid";

pub fn table() -> Table<DType> {
    let shared_ops = ops::OPS.iter().filter(|op| op.name != SIGMOID);
    let (reductions, elementwise): (Vec<_>, Vec<_>) =
        shared_ops.partition(|op| matches!(op.family, Family::Sum | Family::Extremum));
    let rows = STORAGE.iter().map(own);
    let rows = rows.chain(elementwise.into_iter().map(shared));
    let rows = rows.chain([own(&WHERE_COND)]);
    let rows = rows.chain(reductions.into_iter().map(shared));
    let rows = rows.chain(OPS.iter().map(own));
    of("Ops, by the dtype of their values", rows.collect())
}

pub fn fused() -> Table<DType> {
    let sigmoid = ops::OPS.iter().filter(|op| op.name == SIGMOID);
    let rows = sigmoid.map(shared).chain(FUSED.iter().map(own));
    of(
        "candle-nn's fused ops, by the dtype of their values",
        rows.collect(),
    )
}
