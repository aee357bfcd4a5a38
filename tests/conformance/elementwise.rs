//! unary, binary, cmp, where_cond, affine, powf, elu.

use candle_core::{DType, Tensor};

use crate::bound::{AFFINE, EXACT, FUNCTION, POWF};
use crate::case::Cases;
use crate::input::{
    check, named, tensor, Fill, Layout, Operand, ALL, LAYOUTS, REALS, SHAPES, WHOLES,
};
use crate::ops::{self, Family};

/// Layouts of two operands of one shape.
const PAIRS: &[(&str, &str)] = &[
    ("contiguous", "contiguous"),
    ("contiguous", "broadcast"),
    ("transposed", "contiguous"),
    ("offset", "strided"),
    ("rows", "scalar"),
    ("scalar", "permuted"),
    ("rows", "contiguous"),
    ("odd", "odd_transposed"),
    ("empty", "empty"),
    ("rank0", "rank0"),
    ("rank8", "rank8"),
];

fn layouts() -> impl Iterator<Item = &'static Layout> {
    LAYOUTS.iter().chain(&SHAPES)
}

pub fn add(cases: &mut Cases) {
    unary(cases);
    scalars(cases);
    binary(cases);
    where_cond(cases);
}

fn unary(cases: &mut Cases) {
    let of_integers = ["contiguous", "transposed", "offset", "odd", "rank0"];
    for op in ops::of(Family::Unary) {
        for &dtype in op.dtypes {
            for l in layouts().filter(|l| dtype.is_float() || of_integers.contains(&l.name)) {
                let case = format!("unary/{}/{}/{}", op.kernel, dtype.as_str(), l.name);
                // The least i64 has no absolute value in i64.
                let fill = match op.name {
                    "abs" if dtype.is_int() => Fill::Small,
                    _ => Fill::Special,
                };
                cases.add(case, move |d| {
                    let x = Operand::new(l, dtype, 1, fill)?;
                    check(d, &[x], op.bound, |t| op.run(t, &[], &[]))
                });
            }
        }
    }
}

fn scalars(cases: &mut Cases) {
    for dtype in ALL {
        for l in layouts() {
            cases.add(format!("affine/{}/{}", dtype.as_str(), l.name), move |d| {
                // Exact in bf16, so that the scalars are the same in f64. 12 * 3 + 7 fits in a u8.
                let (fill, mul, add) = match dtype.is_float() {
                    true => (Fill::Special, 1.5, -0.25),
                    false => (Fill::Positive, 3., 7.),
                };
                let x = Operand::new(l, dtype, 2, fill)?;
                check(d, &[x], AFFINE, |t| t[0].affine(mul, add))
            });
        }
    }
    for dtype in REALS {
        for l in layouts() {
            cases.add(format!("elu/{}/{}", dtype.as_str(), l.name), move |d| {
                let x = Operand::new(l, dtype, 3, Fill::Special)?;
                check(d, &[x], FUNCTION, |t| t[0].elu(0.75))
            });
        }
        for e in [0., 1., 2., 3., 5., 0.5, -1., -2., -0.5, 0.25, 1.5, 10., -3.] {
            for l in ["contiguous", "transposed", "offset"].map(named) {
                let case = format!("powf/{e}/{}/{}", dtype.as_str(), l.name);
                cases.add(case, move |d| {
                    let x = Operand::new(l, dtype, 4, Fill::Special)?;
                    check(d, &[x], POWF, |t| t[0].powf(e))
                });
            }
        }
    }
}

/// Fills of two operands. Results of integers fit in the dtype, since arithmetic on the CPU is checked.
fn fills(name: &str, dtype: DType) -> (Fill, Fill) {
    match name {
        "mul" | "div" if matches!(dtype, DType::F32 | DType::BF16) => (Fill::Normal, Fill::Normal),
        _ if dtype.is_float() => (Fill::Special, Fill::Special),
        "add" | "sub" | "mul" | "div" => (Fill::Large, Fill::Positive),
        _ => (Fill::Special, Fill::Special),
    }
}

fn binary(cases: &mut Cases) {
    for dtype in ALL {
        for &(a, b) in PAIRS {
            let what = format!("{}/{a}+{b}", dtype.as_str());
            let operands = move |fill: (Fill, Fill), seed| -> anyhow::Result<[Operand; 2]> {
                Ok([
                    Operand::new(named(a), dtype, seed, fill.0)?,
                    Operand::new(named(b), dtype, seed + 1, fill.1)?,
                ])
            };
            for op in ops::of(Family::Binary) {
                cases.add(format!("binary/{}/{what}", op.kernel), move |d| {
                    let operands = operands(fills(op.name, dtype), 5)?;
                    check(d, &operands, op.bound, |t| op.run(t, &[], &[]))
                });
            }
            for op in ops::of(Family::Compare) {
                cases.add(format!("cmp/{}/{what}", op.kernel), move |d| {
                    for fill in [Fill::Special, Fill::Ties] {
                        let operands = operands((fill, fill), 7)?;
                        check(d, &operands, op.bound, |t| op.run(t, &[], &[]))?;
                    }
                    Ok(())
                });
            }
        }
    }
    for dtype in WHOLES {
        cases.add(format!("binary/wrap/{}", dtype.as_str()), move |d| {
            // The CPU's debug build panics instead of wrapping, so the expected values are given.
            let max = match dtype {
                DType::U8 => 255i64,
                DType::U32 => 0xffff_ffff,
                DType::I16 => i16::MAX.into(),
                DType::I32 => i32::MAX.into(),
                _ => i64::MAX,
            };
            let to = |v: i64| Tensor::new(&[v], &candle_core::Device::Cpu)?.to_dtype(dtype);
            let (max, two) = (to(max)?.to_device(d)?, to(2)?.to_device(d)?);
            let sum = match dtype {
                DType::I16 => to(i64::from(i16::MIN) + 1)?,
                DType::I32 => to(i64::from(i32::MIN) + 1)?,
                DType::I64 => to(i64::MIN + 1)?,
                _ => to(1)?,
            };
            crate::bound::close(&sum, &max.add(&two)?, EXACT)?;
            crate::bound::close(
                &max.to_device(&candle_core::Device::Cpu)?,
                &sum.to_device(d)?.sub(&two)?,
                EXACT,
            )
        });
    }
}

fn where_cond(cases: &mut Cases) {
    let layouts = [
        ("contiguous", "contiguous", "contiguous"),
        ("broadcast", "transposed", "scalar"),
        ("offset", "strided", "rows"),
        ("permuted", "offset", "broadcast"),
        ("odd", "odd_transposed", "odd"),
        ("empty", "empty", "empty"),
        ("rank0", "rank0", "rank0"),
    ];
    for cond in WHOLES {
        for dtype in ALL {
            for (c, t, f) in layouts {
                let (cn, dn) = (cond.as_str(), dtype.as_str());
                cases.add(format!("where_cond/{cn}/{dn}/{c}+{t}+{f}"), move |d| {
                    let operands = [
                        Operand::new(named(c), cond, 9, Fill::Ties)?,
                        Operand::new(named(t), dtype, 10, Fill::Special)?,
                        Operand::new(named(f), dtype, 11, Fill::Special)?,
                    ];
                    check(d, &operands, EXACT, |t| t[0].where_cond(&t[1], &t[2]))
                });
            }
        }
    }
    cases.add("where_cond/i64/high_word", |d| {
        // True by its high word alone.
        let cond = Tensor::new(&[0i64, 1 << 32, -(1 << 40), 0], &candle_core::Device::Cpu)?;
        let t = tensor(DType::F32, &[4], 1, Fill::Small)?;
        let f = tensor(DType::F32, &[4], 2, Fill::Small)?;
        let operands = [cond, t, f].map(Operand::of);
        check(d, &operands, EXACT, |t| t[0].where_cond(&t[1], &t[2]))
    });
}
