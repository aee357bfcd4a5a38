//! Copies of views, cat, slice_set, const_set, filling.

use candle_core::{DType, Device, Tensor};

use crate::bound::{close, EXACT};
use crate::case::Cases;
use crate::input::{named, same, tensor, Fill, Operand, ALL, LAYOUTS, SHAPES};

/// Dtypes that are stored and copied, but not computed with.
const STORED: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::U8,
    DType::U32,
    DType::I64,
    DType::I16,
    DType::I32,
    DType::F64,
    DType::F8E4M3,
];

pub fn add(cases: &mut Cases) {
    for dtype in STORED {
        let name = dtype.as_str();
        for l in LAYOUTS.iter().chain(&SHAPES) {
            cases.add(format!("copy/contiguous/{name}/{}", l.name), move |d| {
                let x = Operand::new(l, dtype, 31, Fill::Small)?;
                same(d, &[x], EXACT, |t| t[0].force_contiguous())
            });
        }
        cat(cases, dtype);
        slice_set(cases, dtype);
        joined(cases, dtype);
        cases.add(format!("copy/round_trip/{name}"), move |d| {
            for n in [0, 1, 2, 3, 5, 1000, 70001] {
                let x = tensor(dtype, &[n], 32, Fill::Small)?;
                close(&x, &x.to_device(d)?, EXACT)?;
            }
            Ok(())
        });
    }
    fill(cases);
}

/// Consecutive copies that the recorder may merge into one, and others that it must not merge.
fn joined(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    // As in repeat_kv: the heads of a cache, each several times.
    cases.add(format!("copy/joined/{name}/repeat"), move |d| {
        let cache = Operand::viewed(tensor(dtype, &[1, 2, 9, 8], 45, Fill::Small)?, |t| {
            t.narrow(2, 1, 5)
        });
        let repeat = |t: &[Tensor]| Tensor::cat(&[&t[0]; 6], 2)?.reshape((1, 12, 5, 8));
        same(d, &[cache], EXACT, repeat)
    });
    // Each copy is one row further, so rows are written three times: the last write wins in ascending order, the first
    // in descending order.
    for (order, rows) in [
        ("up", [0, 1, 2, 3, 4]),
        ("down", [4, 3, 2, 1, 0]),
        ("mixed", [0, 2, 4, 1, 3]),
    ] {
        cases.add(
            format!("copy/joined/{name}/overlapping_{order}"),
            move |d| {
                let y = Operand::of(tensor(dtype, &[7, 4], 46, Fill::Small)?);
                let x = Operand::of(tensor(dtype, &[15, 4], 47, Fill::Small)?);
                same(d, &[y, x], EXACT, |t| {
                    let y = t[0].copy()?;
                    for (i, row) in rows.into_iter().enumerate() {
                        y.slice_set(&t[1].narrow(0, 3 * i, 3)?.contiguous()?, 0, row)?;
                        y.slice_set(&t[1].narrow(0, i, 3)?.contiguous()?, 0, row)?;
                    }
                    // Sources one row further each time, and the same source.
                    let (z, three) = (t[0].copy()?, t[1].narrow(0, 1, 3)?);
                    for (i, row) in rows.into_iter().enumerate() {
                        z.slice_set(&t[1].narrow(0, i, 3)?, 0, row)?;
                    }
                    let w = t[0].copy()?;
                    for row in rows {
                        w.slice_set(&three, 0, row)?;
                    }
                    Tensor::cat(&[y, z, w], 0)
                })
            },
        );
    }
}

fn cat(cases: &mut Cases, dtype: DType) {
    for dim in 0..3 {
        cases.add(format!("cat/{}/dim{dim}", dtype.as_str()), move |d| {
            let mut operands = Vec::new();
            for (i, size) in [2usize, 1, 5, 0, 3].into_iter().enumerate() {
                let mut dims = [3, 5, 7];
                dims[dim] = size;
                operands.push(Operand::of(tensor(
                    dtype,
                    &dims,
                    40 + i as u64,
                    Fill::Small,
                )?));
            }
            same(d, &operands, EXACT, |t| Tensor::cat(t, dim))
        });
        cases.add(format!("cat/{}/views_dim{dim}", dtype.as_str()), move |d| {
            let operands = ["contiguous", "transposed", "offset", "broadcast", "strided"]
                .map(|l| Operand::new(named(l), dtype, 45, Fill::Small));
            let operands = operands.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            same(d, &operands, EXACT, |t| Tensor::cat(t, dim))
        });
    }
    cases.add(format!("cat/{}/stack", dtype.as_str()), move |d| {
        let x = Operand::of(tensor(dtype, &[3, 5], 46, Fill::Small)?);
        same(d, &[x.clone(), x], EXACT, |t| Tensor::stack(t, 1))
    });
}

fn slice_set(cases: &mut Cases, dtype: DType) {
    for dim in 0..3 {
        cases.add(format!("slice_set/{}/dim{dim}", dtype.as_str()), move |d| {
            for (size, start) in [(1, 0), (2, 1), (1, 4), (3, 2)] {
                let mut dims = [5, 5, 5];
                let x = Operand::of(tensor(dtype, &dims, 50, Fill::Small)?);
                dims[dim] = size;
                let src = Operand::of(tensor(dtype, &dims, 51, Fill::Large)?);
                same(d, &[x, src], EXACT, |t| {
                    let x = t[0].force_contiguous()?;
                    x.slice_set(&t[1], dim, start)?;
                    Ok(x)
                })?;
            }
            Ok(())
        });
    }
}

fn fill(cases: &mut Cases) {
    for dtype in ALL {
        let name = dtype.as_str();
        cases.add(format!("const_set/{name}/new"), move |d| {
            let new = |d: &Device, n: usize| -> candle_core::Result<[Tensor; 2]> {
                Ok([Tensor::zeros(n, dtype, d)?, Tensor::ones(n, dtype, d)?])
            };
            for n in [0, 1, 2, 3, 7, 1001] {
                for (e, g) in new(&Device::Cpu, n)?.iter().zip(&new(d, n)?) {
                    close(e, g, EXACT)?;
                }
            }
            Ok(())
        });
        for l in [
            "contiguous",
            "transposed",
            "offset",
            "strided",
            "rows",
            "odd",
        ]
        .map(named)
        {
            cases.add(format!("const_set/{name}/{}", l.name), move |d| {
                let base = tensor(dtype, l.base, 60, Fill::Positive)?;
                let set = |d: &Device| -> candle_core::Result<Tensor> {
                    let storage = base.to_device(d)?.copy()?;
                    (l.view)(storage.clone())?.zero_set()?;
                    // Neighbours are unchanged.
                    Ok(storage)
                };
                close(&set(&Device::Cpu)?, &set(d)?, EXACT)?;
                let set = |d: &Device| -> candle_core::Result<Tensor> {
                    let storage = base.to_device(d)?.copy()?;
                    (l.view)(storage.clone())?.one_set()?;
                    Ok(storage)
                };
                close(&set(&Device::Cpu)?, &set(d)?, EXACT)
            });
        }
    }
    cases.add("const_set/full", |d| {
        let cpu = &Device::Cpu;
        close(
            &Tensor::full(-1.5f32, (3, 5), cpu)?,
            &Tensor::full(-1.5f32, (3, 5), d)?,
            EXACT,
        )?;
        close(
            &Tensor::full(200u8, 7, cpu)?,
            &Tensor::full(200u8, 7, d)?,
            EXACT,
        )?;
        let v = i64::MIN + 3;
        close(&Tensor::full(v, 5, cpu)?, &Tensor::full(v, 5, d)?, EXACT)?;
        let v = half::bf16::from_f32(0.1);
        close(&Tensor::full(v, 5, cpu)?, &Tensor::full(v, 5, d)?, EXACT)
    });
    cases.add("copy/is_a_copy", |d| {
        let x = Tensor::ones(5, DType::F32, d)?;
        let y = x.copy()?;
        y.zero_set()?;
        close(&Tensor::ones(5, DType::F32, &Device::Cpu)?, &x, EXACT)
    });
}
