//! Ops by the dtype of something else: the ids of indexing, the condition of `where_cond`, the target of a cast.

use candle_core::{bail, DType, Device, Result, Tensor};
use DType::{BF16, F16, F32, F64, F8E4M3, I16, I32, I64, U32, U8};

use crate::ops::{input, ALL};
use crate::table::{Row, Table};

const IDS: &[DType] = &[U8, U32, I16, I32, I64];
const UNSIGNED_I64: &[DType] = &[U8, U32, I64];
const UNSIGNED: &[DType] = &[U8, U32];

/// Values of shape (8, 4), ids of shape (8, 1).
type Op = fn(&Tensor, &Tensor) -> Result<Tensor>;

#[rustfmt::skip]
const OPS: &[(&str, Op, &[DType], &[DType])] = &[
    // op            how it is tried                                            CUDA          Metal
    ("where_cond",   |x, ids| ids.where_cond(&x.narrow(1, 0, 1)?, &x.narrow(1, 1, 1)?), UNSIGNED_I64, UNSIGNED),
    ("index_select", |x, ids| x.index_select(&ids.flatten_all()?, 1),           UNSIGNED_I64, UNSIGNED_I64),
    ("gather",       |x, ids| x.gather(ids, 1),                                 UNSIGNED_I64, UNSIGNED_I64),
    ("scatter",      |x, ids| x.scatter(ids, &ids.to_dtype(F32)?, 1),            UNSIGNED_I64, UNSIGNED_I64),
    ("scatter_add",  |x, ids| x.scatter_add(ids, &ids.to_dtype(F32)?, 1),     IDS,          UNSIGNED_I64),
    ("index_add",    |x, ids| x.index_add(&ids.flatten_all()?.narrow(0, 0, 4)?, x, 1), IDS,   UNSIGNED_I64),
];

pub fn table() -> Table<DType> {
    let row = |&(op, run, cuda, metal): &(&str, Op, &'static [DType], &'static [DType])| Row {
        op: op.to_string(),
        run: Box::new(move |d: &Device, dtype| {
            let ids = Tensor::new(&[[3u32], [0], [1], [2], [1], [1], [0], [3]], &Device::Cpu)?;
            let ids = ids.to_dtype(dtype)?.to_device(d)?;
            run(&input(d, F32)?.reshape((8, 4))?, &ids)
        }),
        cuda,
        metal,
    };
    Table {
        title: "Ops of f32 values, by the dtype of their ids or condition",
        columns: IDS,
        name: |dtype| dtype.as_str().to_string(),
        reference: U32,
        rows: OPS.iter().map(row).collect(),
    }
}

/// Targets of casts on CUDA and Metal; a cast to the same dtype does nothing.
fn targets(from: DType) -> [&'static [DType]; 2] {
    match from {
        U8 => [
            &[U8, U32, I64, BF16, F16, F32, F64],
            &[U8, U32, I64, BF16, F16, F32],
        ],
        U32 => targets(U8),
        F32 => targets(U8),
        F64 => [&[U8, U32, I64, BF16, F16, F32, F64], &[F64]],
        BF16 | F16 => [
            &[U8, U32, BF16, F16, F32, F64],
            &[U8, U32, I64, BF16, F16, F32],
        ],
        I64 => [&[U8, U32, I64, F32, F64], &[U8, U32, I64, BF16, F16, F32]],
        I16 => [&[I16], &[I16]],
        I32 => [&[I32], &[I32]],
        F8E4M3 => [&[F8E4M3], &[F8E4M3]],
        _ => [&[], &[]],
    }
}

pub fn casts() -> Table<DType> {
    let row = |&from: &DType| {
        let [cuda, metal] = targets(from);
        Row {
            op: format!("from {}", from.as_str()),
            run: Box::new(move |d: &Device, to| {
                if d.is_cpu() && (from, to) == (F8E4M3, F64) {
                    bail!("it never returns (0.11.1)")
                }
                input(d, from)?.to_dtype(to)
            }),
            cuda,
            metal,
        }
    };
    Table {
        title: "Casts, by their target",
        columns: ALL,
        name: |dtype| dtype.as_str().to_string(),
        reference: F32,
        rows: ALL.iter().map(row).collect(),
    }
}
