//! sum, min, max, argmin, argmax.

use candle_core::Tensor;

use crate::bound::{EXACT, SUM};
use crate::case::Cases;
use crate::input::{check, named, tensor, Fill, Layout, Operand, ALL, LAYOUTS};
use crate::ops::{self, Family};

const SETS: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

/// Long and short rows and columns.
const DIMS: [(&str, [usize; 3]); 6] = [
    ("row_2049", [3, 1, 2049]),
    ("row_65", [7, 2, 65]),
    ("column_1000", [1, 1000, 5]),
    ("first_300", [300, 3, 4]),
    ("wide_1", [9, 1, 1]),
    ("even", [4, 64, 128]),
];

pub fn add(cases: &mut Cases) {
    for dtype in ALL {
        let name = dtype.as_str();
        let small = match dtype.is_float() {
            true => Fill::Small,
            false => Fill::Ties,
        };
        let odd = ["odd", "odd_transposed"].map(named);
        let layouts: Vec<&'static Layout> = LAYOUTS.iter().chain(odd).collect();
        for l in layouts {
            for dims in SETS {
                let set: Vec<String> = dims.iter().map(usize::to_string).collect();
                let case = format!("reduce/sum/{name}/{}/dims{}", l.name, set.join("_"));
                cases.add(case, move |d| {
                    let x = Operand::new(l, dtype, 71, small)?;
                    check(d, &[x], SUM, |t| t[0].sum(dims))
                });
            }
            for op in ops::of(Family::Extremum) {
                for dim in 0..3 {
                    let case = format!("reduce/{}/{name}/{}/dim{dim}", op.kernel, l.name);
                    cases.add(case, move |d| {
                        for fill in [Fill::Special, Fill::Ties] {
                            let x = Operand::new(l, dtype, 72, fill)?;
                            check(d, &[x], op.bound, |t| op.run(t, &[dim], &[]))?;
                        }
                        Ok(())
                    });
                }
            }
        }
        for (shape, dims) in DIMS {
            cases.add(format!("reduce/sum/{name}/{shape}"), move |d| {
                let x = tensor(dtype, &dims, 73, small)?;
                // Sums of u8 stay below 256.
                let x = match dtype {
                    candle_core::DType::U8 | candle_core::DType::I16 => x.affine(0., 0.)?,
                    _ => x,
                };
                for set in SETS {
                    check(d, &[Operand::of(x.clone())], SUM, |t| t[0].sum(set))?;
                }
                Ok(())
            });
            for op in ops::of(Family::Extremum) {
                cases.add(format!("reduce/{}/{name}/{shape}", op.kernel), move |d| {
                    for (dim, fill) in [(0, Fill::Wide), (1, Fill::Ties), (2, Fill::Wide)] {
                        let x = Operand::of(tensor(dtype, &dims, 74, fill)?);
                        check(d, &[x], op.bound, |t| op.run(t, &[dim], &[]))?;
                    }
                    Ok(())
                });
            }
        }
        cases.add(format!("reduce/empty/{name}"), move |d| {
            // A sum of nothing is 0; an extremum of nothing is an error, as on the CPU.
            let x = Operand::of(tensor(dtype, &[3, 0], 75, Fill::Small)?);
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].sum(1))?;
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].sum(0))?;
            for op in ops::of(Family::Extremum) {
                // Along either dim, even if there are no rows to reduce.
                for dim in 0..2 {
                    let result = op.run(&[x.on(d)?], &[dim], &[]);
                    anyhow::ensure!(result.is_err(), "{} of nothing, dim {dim}", op.name);
                }
            }
            Ok(())
        });
    }
    cases.add("reduce/sum/u32/exact", |d| {
        let x = Tensor::new(
            &[16_777_217u32, 32, 4_000_000_000],
            &candle_core::Device::Cpu,
        )?;
        check(d, &[Operand::of(x)], EXACT, |t| t[0].sum(0))
    });
    cases.add("reduce/sum/i64/carries", |d| {
        let values: Vec<i64> = (0..1000)
            .map(|i| (1i64 << 52) + i * 0xffff_fff1 - (i << 50))
            .collect();
        let values: Vec<i64> = values.into_iter().map(|v| v >> 8).collect();
        let x = Tensor::new(values, &candle_core::Device::Cpu)?;
        check(d, &[Operand::of(x)], EXACT, |t| t[0].sum(0))
    });
    cases.add("reduce/mean_var/f32", |d| {
        let x = Operand::of(tensor(candle_core::DType::F32, &[5, 333], 76, Fill::Small)?);
        check(d, std::slice::from_ref(&x), SUM, |t| t[0].mean(1))?;
        check(d, std::slice::from_ref(&x), SUM, |t| t[0].var(1))?;
        check(d, &[x], SUM, |t| t[0].mean_all())
    });
}
