//! index_select, gather, scatter, scatter_add, index_add; ids that mean "nothing", and ids out of range.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

use crate::bound::{close, Bound, EXACT};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, Rng, ALL, INTS};

/// Sums in memory are rounded to the dtype at every addition, the CPU's f64 only once.
const ADDED: Bound = Bound {
    abs: 1e-6,
    rel: 2e-6,
    ulps: 4,
};

type View = fn(Tensor) -> candle_core::Result<Tensor>;

#[rustfmt::skip]
const SOURCES: &[(&str, &[usize], View)] = &[
    ("contiguous", &[6, 5, 8],  Ok),
    ("odd",        &[6, 5, 7],  Ok),
    ("transposed", &[6, 8, 5],  |t| t.transpose(1, 2)),
    ("offset",     &[9, 5, 8],  |t| t.narrow(0, 3, 6)),
    ("odd_offset", &[9, 5, 3],  |t| t.narrow(0, 1, 6)),
    ("strided",    &[6, 5, 16], |t| t.reshape((6, 5, 8, 2))?.narrow(3, 1, 1)?.squeeze(3)),
    ("broadcast",  &[1, 5, 8],  |t| t.broadcast_as((6, 5, 8))),
];

/// Ids below `size`.
fn ids(dtype: DType, dims: &[usize], size: usize, seed: u64) -> Result<Tensor> {
    let mut rng = Rng::new(seed);
    let n: usize = dims.iter().product();
    let ids: Vec<i64> = (0..n).map(|_| rng.below(size as u64) as i64).collect();
    Ok(Tensor::from_vec(ids, dims, &Device::Cpu)?.to_dtype(dtype)?)
}

/// Ids that do not repeat along `dim`: with repeats the last writer wins, and which one is last is unspecified.
fn distinct(dtype: DType, dims: [usize; 3], dim: usize, size: usize, seed: u64) -> Result<Tensor> {
    let mut rng = Rng::new(seed);
    let mut out = vec![0i64; dims.iter().product()];
    let inner: usize = dims[dim + 1..].iter().product();
    for outer in 0..dims[..dim].iter().product() {
        for at in 0..inner {
            let mut order: Vec<i64> = (0..size as i64).collect();
            for i in 0..dims[dim] {
                let j = i + rng.below((size - i) as u64) as usize;
                order.swap(i, j);
                out[(outer * dims[dim] + i) * inner + at] = order[i];
            }
        }
    }
    Ok(Tensor::from_vec(out, &dims, &Device::Cpu)?.to_dtype(dtype)?)
}

/// The id that means "no row".
fn sentinel(dtype: DType) -> i64 {
    match dtype {
        DType::U8 => 255,
        DType::U32 => u32::MAX.into(),
        _ => i64::MAX,
    }
}

pub fn add(cases: &mut Cases) {
    for id in INTS {
        for dtype in ALL {
            for &(name, base, view) in SOURCES {
                let what = format!("{}/{}/{name}", id.as_str(), dtype.as_str());
                reading(cases, &what, (id, dtype), base, view);
            }
            let what = format!("{}/{}", id.as_str(), dtype.as_str());
            writing(cases, &what, id, dtype);
            nothing(cases, &what, id, dtype);
        }
        faults(cases, id);
    }
    for id in [DType::I16, DType::I32] {
        signed(cases, id);
        faults(cases, id);
    }
    in_place(cases);
    dtypes_differ(cases);
    for dtype in [DType::I16, DType::I32, DType::F64, DType::F8E4M3] {
        cases.add(
            format!("index_select/u32/{}/stored", dtype.as_str()),
            move |d| {
                let x = Operand::of(tensor(dtype, &[7, 3], 1, Fill::Small)?);
                let ids = Operand::of(ids(DType::U32, &[5], 7, 2)?);
                crate::input::same(d, &[x, ids], EXACT, |t| t[0].index_select(&t[1], 0))
            },
        );
    }
}

fn reading(
    cases: &mut Cases,
    what: &str,
    (id, dtype): (DType, DType),
    base: &'static [usize],
    view: View,
) {
    for dim in 0..3 {
        cases.add(format!("index_select/{what}/dim{dim}"), move |d| {
            let x = Operand::viewed(tensor(dtype, base, 81, Fill::Special)?, view);
            let size = x.on(&Device::Cpu)?.dim(dim)?;
            for n in [1, 5, 12] {
                let ids = Operand::of(ids(id, &[n], size, 82 + n as u64)?);
                check(d, &[x.clone(), ids], EXACT, |t| {
                    t[0].index_select(&t[1], dim)
                })?;
            }
            // Every second id of a longer list.
            let ids = ids(id, &[6, 2], size, 90)?;
            let ids = Operand::viewed(ids, |t| t.narrow(1, 1, 1)?.squeeze(1));
            check(d, &[x, ids], EXACT, |t| t[0].index_select(&t[1], dim))
        });
        cases.add(format!("gather/{what}/dim{dim}"), move |d| {
            let x = Operand::viewed(tensor(dtype, base, 83, Fill::Special)?, view);
            let mut dims = x.on(&Device::Cpu)?.dims().to_vec();
            let size = dims[dim];
            for n in [1, 3, 7] {
                dims[dim] = n;
                let ids = Operand::of(ids(id, &dims, size, 84)?);
                check(d, &[x.clone(), ids], EXACT, |t| t[0].gather(&t[1], dim))?;
            }
            Ok(())
        });
    }
}

fn writing(cases: &mut Cases, what: &str, id: DType, dtype: DType) {
    for dim in 0..3 {
        let operands = move |unique: bool, view: View| -> Result<[Operand; 3]> {
            let mut dims = [6, 5, 7];
            dims[dim] = 4;
            let size = [6, 5, 7][dim];
            let ids = match unique {
                true => distinct(id, dims, dim, size, 91)?,
                false => ids(id, &dims, size, 91)?,
            };
            let src = tensor(dtype, &dims, 92, Fill::Positive)?;
            let x = tensor(dtype, &[6, 5, 7], 93, Fill::Positive)?;
            Ok([Operand::viewed(x, view), Operand::of(ids), Operand::of(src)])
        };
        cases.add(format!("scatter/{what}/dim{dim}"), move |d| {
            check(d, &operands(true, Ok)?, EXACT, |t| {
                t[0].scatter(&t[1], &t[2], dim)
            })
        });
        cases.add(format!("scatter_add/{what}/dim{dim}"), move |d| {
            check(d, &operands(false, Ok)?, ADDED, |t| {
                t[0].scatter_add(&t[1], &t[2], dim)
            })
        });
        cases.add(format!("index_add/{what}/dim{dim}"), move |d| {
            let mut dims = [6, 5, 7];
            let size = dims[dim];
            dims[dim] = 4;
            let operands = [
                Operand::of(tensor(dtype, &[6, 5, 7], 94, Fill::Positive)?),
                Operand::of(ids(id, &[4], size, 95)?),
                Operand::of(tensor(dtype, &dims, 96, Fill::Positive)?),
            ];
            check(d, &operands, ADDED, |t| t[0].index_add(&t[1], &t[2], dim))
        });
    }
    cases.add(format!("scatter_add/{what}/views"), move |d| {
        let operands = [
            Operand::of(tensor(dtype, &[5, 7], 97, Fill::Positive)?),
            Operand::viewed(ids(id, &[7, 4], 5, 98)?, |t| t.t()),
            Operand::viewed(tensor(dtype, &[1, 7], 99, Fill::Positive)?, |t| {
                t.broadcast_as((4, 7))
            }),
        ];
        check(d, &operands, ADDED, |t| t[0].scatter_add(&t[1], &t[2], 0))
    });
}

/// A repeated row is one row in memory: in-place sums were added to it once per repetition.
fn in_place(cases: &mut Cases) {
    cases.add("scatter/in_place/needs_contiguous", |d| {
        let ids = Tensor::zeros((1, 4), DType::U32, d)?;
        let src = Tensor::ones((1, 4), DType::F32, d)?;
        let repeated = Tensor::zeros((1, 4), DType::F32, d)?.broadcast_as((3, 4))?;
        let across = Tensor::zeros((4, 3), DType::F32, d)?.t()?;
        for x in [repeated, across] {
            ensure!(x.scatter_set(&ids, &src, 0).is_err(), "scatter_set {x:?}");
            ensure!(
                x.scatter_add_set(&ids, &src, 0).is_err(),
                "scatter_add_set {x:?}"
            );
        }
        Ok(())
    });
}

/// A source of 8-byte elements was read as 2-byte elements.
fn dtypes_differ(cases: &mut Cases) {
    cases.add("scatter/dtypes_differ", |d| {
        let ids = Tensor::zeros((2, 3), DType::U32, d)?;
        for (to, from) in [
            (DType::F16, DType::I64),
            (DType::F16, DType::I16),
            (DType::F32, DType::U8),
        ] {
            let (x, src) = (
                Tensor::zeros((2, 3), to, d)?,
                Tensor::ones((2, 3), from, d)?,
            );
            ensure!(
                x.scatter(&ids, &src, 0).is_err(),
                "scatter {from:?} into {to:?}"
            );
            ensure!(
                x.scatter_set(&ids, &src, 0).is_err(),
                "scatter_set {from:?} into {to:?}"
            );
            ensure!(
                x.scatter_add(&ids, &src, 0).is_err(),
                "scatter_add {from:?} into {to:?}"
            );
        }
        Ok(())
    });
}

/// The greatest id reads as 0 and writes nothing.
fn nothing(cases: &mut Cases, what: &str, id: DType, dtype: DType) {
    cases.add(format!("index/none/{what}"), move |d| {
        let none = sentinel(id);
        let line = Tensor::new(&[2i64, none, 0, none, 1], &Device::Cpu)?.to_dtype(id)?;
        let grid = line.unsqueeze(1)?.broadcast_as((5, 3))?.contiguous()?;
        let x = tensor(dtype, &[4, 3], 101, Fill::Positive)?;
        let src = tensor(dtype, &[5, 3], 102, Fill::Positive)?;
        let [x, line, grid, src] = [x, line, grid, src].map(Operand::of);
        check(d, &[x.clone(), line.clone()], EXACT, |t| {
            t[0].index_select(&t[1], 0)
        })?;
        check(d, &[x.clone(), grid.clone()], EXACT, |t| {
            t[0].gather(&t[1], 0)
        })?;
        let all = [x, grid, src.clone()];
        check(d, &all, ADDED, |t| t[0].scatter_add(&t[1], &t[2], 0))?;
        check(d, &all, EXACT, |t| t[0].scatter(&t[1], &t[2], 0))?;
        let [x, ..] = all;
        check(d, &[x, line, src], ADDED, |t| {
            t[0].index_add(&t[1], &t[2], 0)
        })
    });
}

type Indexed = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;

#[rustfmt::skip]
const OPS: &[(&str, Indexed)] = &[
    ("index_select", |x, ids, _| x.index_select(&ids.flatten_all()?, 0)),
    ("gather",       |x, ids, _| x.gather(ids, 0)),
    ("scatter",      |x, ids, src| x.scatter(ids, src, 0)),
    ("scatter_add",  |x, ids, src| x.scatter_add(ids, src, 0)),
    ("index_add",    |x, ids, src| x.index_add(&ids.flatten_all()?, src, 0)),
];

/// The CPU takes ids of these dtypes in few ops, so the reference has the same ids in i64.
fn signed(cases: &mut Cases, id: DType) {
    let none = match id {
        DType::I16 => i64::from(i16::MAX),
        _ => i64::from(i32::MAX),
    };
    for dtype in ALL {
        for &(name, op) in OPS {
            let case = format!("{name}/{}/{}/none", id.as_str(), dtype.as_str());
            cases.add(case, move |d| {
                let ids =
                    |none: i64| Tensor::new(&[[4i64], [none], [0], [none], [2]], &Device::Cpu);
                let x = tensor(dtype, &[6, 1], 103, Fill::Positive)?;
                let src = tensor(dtype, &[5, 1], 104, Fill::Positive)?;
                let here = ids(none)?.to_dtype(id)?.to_device(d)?;
                let y = op(&x.to_device(d)?, &here, &src.to_device(d)?)?;
                close(&op(&x, &ids(i64::MAX)?, &src)?, &y, EXACT)
            });
        }
    }
}

/// An id out of range is an error at the next wait, and only there: the device continues to work.
fn faults(cases: &mut Cases, id: DType) {
    for &(name, op) in OPS {
        let mut wrong = vec![5i64, 200];
        if id == DType::I64 {
            wrong.extend([-1, i64::MIN, 1 << 32, (1 << 32) + 1]);
        }
        if id == DType::U32 {
            wrong.push(0xffff_fffe);
        }
        if matches!(id, DType::I16 | DType::I32) {
            wrong.extend([-1, -32768]);
        }
        for index in wrong {
            cases.alone(
                format!("{name}/{}/out_of_range_{index}", id.as_str()),
                move |d| {
                    let x = Tensor::ones((5, 1), DType::F32, d)?;
                    let src = Tensor::ones((3, 1), DType::F32, d)?;
                    let ids = Tensor::new(&[[1i64], [index], [0]], &Device::Cpu)?.to_dtype(id)?;
                    let ids = ids.to_device(d)?;
                    let error = match op(&x, &ids, &src).and_then(|y| y.to_vec2::<f32>()) {
                        Ok(values) => anyhow::bail!("no error, but {values:?}"),
                        Err(e) => e.to_string(),
                    };
                    for part in [&index.to_string(), "5", name] {
                        ensure!(error.contains(part), "{error:?} does not name {part:?}");
                    }
                    let _ = op(&x, &ids, &src)?;
                    ensure!(d.synchronize().is_err(), "synchronize says nothing");
                    d.synchronize()?;
                    let two = Tensor::new(&[[2f32]; 5], &Device::Cpu)?;
                    close(&two, &x.add(&x)?, EXACT)
                },
            );
        }
    }
}
