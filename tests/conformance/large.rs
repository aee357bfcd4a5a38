//! Tensors larger than one binding, which every family splits into binding ranges. Sizes follow from the binding limit;
//! if that is larger than a case needs, the case runs in its own process with a lower limit.

use std::process::Command;

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor, WithDType};

use crate::bound::{Bound, EXACT, FUNCTION, SUM};
use crate::case::Cases;

/// Bytes of a binding on a software adapter. The CPU can just keep up with tensors of this size.
pub const REAL: u64 = 128 << 20;
/// Runs the same code with less data.
pub const SMALL: u64 = 1 << 20;

type Run = fn(&Device, usize) -> Result<()>;

/// A case for bindings of `limit` bytes, or the device's limit if that is lower; the case gets the number.
pub fn add_case(cases: &mut Cases, limit: u64, name: &'static str, run: Run) {
    let name = format!("large/{name}");
    cases.alone(name.clone(), move |d| {
        let here = d.as_webgpu_device()?.runtime().binding_limit();
        if here <= limit {
            return run(d, here as usize);
        }
        let out = Command::new(std::env::current_exe()?)
            .args(["--exact", &name])
            .env(candle_webgpu::BINDING_VAR, limit.to_string())
            .output()?;
        let said = String::from_utf8_lossy(&out.stdout);
        ensure!(out.status.success() && said.contains("1 passed"), "{said}");
        Ok(())
    });
}

/// Numbers from -2 to 2 whose period is not that of a binding range.
pub fn floats(dims: &[usize]) -> Result<Tensor> {
    let n: usize = dims.iter().product();
    let value = |i: usize| (i as u32).wrapping_mul(2_654_435_761) as f32 / 1_073_741_824.0 - 2.0;
    Ok(Tensor::from_vec(
        (0..n).map(value).collect::<Vec<f32>>(),
        dims,
        &Device::Cpu,
    )?)
}

pub fn bytes(dims: &[usize]) -> Result<Tensor> {
    let n: usize = dims.iter().product();
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8;
    Ok(Tensor::from_vec(
        (0..n).map(value).collect::<Vec<u8>>(),
        dims,
        &Device::Cpu,
    )?)
}

/// Ids below `size`, including the first and the last.
fn ids(n: usize, size: usize) -> Result<Tensor> {
    let value = |i: usize| match i {
        0 => size as u32 - 1,
        1 => 0,
        _ => (i as u32).wrapping_mul(2_654_435_761) % size as u32,
    };
    Ok(Tensor::from_vec(
        (0..n).map(value).collect::<Vec<u32>>(),
        n,
        &Device::Cpu,
    )?)
}

fn differ<T: WithDType + std::fmt::Debug>(
    cpu: &Tensor,
    here: &Tensor,
    near: impl Fn(T, T) -> bool,
) -> Result<()> {
    let all = |t: &Tensor| t.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<T>();
    let (cpu, here) = (all(cpu)?, all(here)?);
    let wrong = (0..cpu.len()).find(|&i| !near(cpu[i], here[i]));
    let Some(i) = wrong else { return Ok(()) };
    let many = (0..cpu.len()).filter(|&i| !near(cpu[i], here[i])).count();
    anyhow::bail!(
        "{many} of {} differ, the first at {i}: {:?}, expected {:?}",
        cpu.len(),
        here[i],
        cpu[i]
    )
}

/// Compares `op` on the device with `op` on the CPU in the same dtype.
pub fn check<F>(d: &Device, operands: &[Tensor], bound: Bound, op: F) -> Result<()>
where
    F: Fn(&[Tensor]) -> candle_core::Result<Tensor>,
{
    let here: candle_core::Result<Vec<Tensor>> = operands.iter().map(|t| t.to_device(d)).collect();
    let (cpu, here) = (op(operands)?, op(&here?)?);
    ensure!(cpu.dims() == here.dims() && cpu.dtype() == here.dtype());
    let near = |e: f32, g: f32| {
        let off = (f64::from(g) - f64::from(e)).abs();
        e == g || e.is_nan() && g.is_nan() || off <= bound.abs + bound.rel * f64::from(e).abs()
    };
    match cpu.dtype() {
        DType::U8 => differ(&cpu, &here, |e: u8, g| e == g),
        DType::U32 => differ(&cpu, &here, |e: u32, g| e == g),
        DType::F16 => differ(&cpu, &here, |e: half::f16, g| near(e.to_f32(), g.to_f32())),
        DType::F32 => differ(&cpu, &here, near),
        other => anyhow::bail!("no comparison of {other:?}"),
    }
}

/// Rows and columns of an f32 matrix slightly larger than a binding.
pub fn matrix(limit: usize, cols: usize) -> [usize; 2] {
    [limit / 4 / cols + 33, cols]
}

pub fn add(cases: &mut Cases) {
    elementwise(cases);
    copies(cases);
    reductions(cases);
    indices(cases);
}

fn elementwise(cases: &mut Cases) {
    add_case(cases, REAL, "upload_readback", |d, limit| {
        check(d, &[bytes(&[limit + 77_777])?], EXACT, |t| Ok(t[0].clone()))
    });
    add_case(cases, SMALL, "fill", |d, limit| {
        check(d, &[bytes(&[4])?], EXACT, |t| {
            let x = Tensor::zeros((2, limit / 2 + 77), DType::U8, t[0].device())?;
            x.narrow(1, 5, limit / 2)?.const_set(7u8.into())?;
            Ok(x)
        })
    });
    add_case(cases, REAL, "map", |d, limit| {
        let x = floats(&matrix(limit, 1000))?;
        check(d, &[x], FUNCTION, |t| t[0].affine(0.5, 1.)?.exp())
    });
    add_case(cases, SMALL, "map_of_a_transposed_view", |d, limit| {
        check(d, &[floats(&matrix(limit, 1000))?], EXACT, |t| {
            t[0].t()?.neg()
        })
    });
    add_case(cases, SMALL, "cast_that_grows", |d, limit| {
        let x = bytes(&[3, limit / 12 + 4444])?;
        check(d, &[x], EXACT, |t| {
            t[0].narrow(1, 3, limit / 12 + 4000)?.to_dtype(DType::F32)
        })
    });
    add_case(cases, SMALL, "cast_that_shrinks", |d, limit| {
        check(d, &[floats(&matrix(limit, 999))?], EXACT, |t| {
            t[0].to_dtype(DType::F16)
        })
    });
    add_case(cases, REAL, "zip", |d, limit| {
        let dims = matrix(limit, 1000);
        let (x, row) = (floats(&dims)?, floats(&[1000])?);
        let column = floats(&[dims[0], 1])?;
        check(d, &[x, row, column], EXACT, |t| {
            t[0].broadcast_sub(&t[1])?.broadcast_maximum(&t[2])
        })
    });
    add_case(cases, SMALL, "zip_with_a_transposed_view", |d, limit| {
        let side = (limit as f64 / 4.).sqrt() as usize + 9;
        check(d, &[floats(&[side, side])?], EXACT, |t| &t[0].t()? + &t[0])
    });
    add_case(cases, SMALL, "comparison", |d, limit| {
        let x = floats(&[limit / 4 + 333])?;
        check(d, &[x], EXACT, |t| {
            t[0].lt(&t[0].narrow(0, 3, 1)?.broadcast_as(t[0].dims())?)
        })
    });
    add_case(cases, SMALL, "where_cond", |d, limit| {
        let x = bytes(&[3, limit / 3 + 77])?;
        check(d, &[x], EXACT, |t| {
            let zero = t[0].zeros_like()?;
            t[0].ge(128u8)?.where_cond(&t[0], &zero)
        })
    });
    add_case(cases, SMALL, "random", |d, limit| {
        // The numbers of a large tensor are those of its parts in order.
        let (n, part) = (limit / 4 + 4000, (limit / 8) & !3);
        d.set_seed(9)?;
        let all = Tensor::rand(0f32, 1., n, d)?;
        d.set_seed(9)?;
        let parts = [part, n - part].map(|n| Tensor::rand(0f32, 1., n, d));
        let [first, second] = parts;
        let parts = Tensor::cat(&[first?, second?], 0)?;
        ensure!(
            all.ne(&parts)?
                .to_dtype(DType::F32)?
                .sum_all()?
                .to_scalar::<f32>()?
                == 0.
        );
        let mean = all.mean_all()?.to_scalar::<f32>()?;
        ensure!((mean - 0.5).abs() < 0.02, "a mean of {mean}");
        Ok(())
    });
}

fn copies(cases: &mut Cases) {
    add_case(cases, REAL, "cat", |d, limit| {
        let x = bytes(&[2, limit / 3])?;
        check(d, &[x], EXACT, |t| {
            let both = Tensor::cat(&[&t[0], &t[0]], 1)?;
            Tensor::cat(&[&both, &t[0].repeat((1, 2))?], 0)
        })
    });
    add_case(cases, REAL, "key_value_cache", |d, limit| {
        let dims = [1, 4, limit / 4 / 4 / 64 + 8, 64];
        check(d, &[floats(&[1, 4, 5, 64])?], EXACT, |t| {
            let cache = Tensor::zeros(&dims, DType::F32, t[0].device())?;
            cache.slice_set(&t[0], 2, 0)?;
            cache.slice_set(&t[0], 2, dims[2] - 5)?;
            let seen = cache.narrow(2, dims[2] - 9, 9)?;
            seen.contiguous()? + cache.narrow(2, 0, 9)?
        })
    });
    add_case(cases, SMALL, "copy_of_a_transposed_view", |d, limit| {
        let x = bytes(&[limit / 3000 + 5, 3001])?;
        check(d, &[x], EXACT, |t| t[0].t()?.contiguous())
    });
    add_case(cases, REAL, "beyond_31_bits", |d, limit| {
        let n = (1usize << 31) + 4321;
        if d.as_webgpu_device()?.adapter().max_buffer_size < n as u64 {
            // Values cannot be that large here, so the largest is used.
            return check(d, &[bytes(&[limit + 9])?], EXACT, |t| {
                t[0].narrow(0, 9, limit)
            });
        }
        let part = bytes(&[1000])?;
        let x = Tensor::zeros(n, DType::U8, d)?;
        x.slice_set(&part.to_device(d)?, 0, n - 1000)?;
        let end = x.narrow(0, n - 1001, 1001)?.to_vec1::<u8>()?;
        ensure!(end[0] == 0 && end[1..] == part.to_vec1::<u8>()?);
        let ids = Tensor::new(&[n as u32 - 1, 0, n as u32 - 1000], d)?;
        let got = x.index_select(&ids, 0)?.to_vec1::<u8>()?;
        ensure!(got == [end[1000], 0, end[1]]);
        ensure!(x.argmax(0)?.to_scalar::<u32>()? as usize >= n - 1000);
        Ok(())
    });
}

fn reductions(cases: &mut Cases) {
    add_case(cases, REAL, "sum", |d, limit| {
        // Whole numbers: their sums are exact in any order.
        let x = floats(&[3, limit / 12 / 100 + 7, 100])?.round()?;
        for dims in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].sum(dims))?;
        }
        Ok(())
    });
    add_case(cases, SMALL, "extremes", |d, limit| {
        let x = bytes(&[limit / 1000 + 7, 1001])?;
        for dim in [0, 1] {
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].max(dim))?;
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].min(dim))?;
        }
        Ok(())
    });
    add_case(cases, SMALL, "winners", |d, limit| {
        let x = floats(&matrix(limit, 1001))?;
        for dim in [0, 1] {
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmax(dim))?;
        }
        check(d, &[x], EXACT, |t| t[0].flatten_all()?.argmin(0))
    });
    // A NaN wins only if it is the first of all elements, not the first of a part.
    add_case(cases, SMALL, "winners_and_nan", |d, limit| {
        let n = limit / 4 + 33;
        let mut values = vec![1f32; n];
        (n / 4..n / 4 * 3).for_each(|i| values[i] = f32::NAN);
        values[n / 4 * 3 + 5] = 3.;
        for first in [0., f32::NAN] {
            values[0] = first;
            let x = Tensor::from_vec(values.clone(), n, &Device::Cpu)?;
            check(d, std::slice::from_ref(&x), EXACT, |t| t[0].argmax(0))?;
            check(d, &[x], EXACT, |t| t[0].max(0))?;
        }
        Ok(())
    });
}

fn indices(cases: &mut Cases) {
    add_case(cases, REAL, "embedding", |d, limit| {
        let dims = matrix(limit, 256);
        check(d, &[floats(&dims)?, ids(100, dims[0])?], EXACT, |t| {
            t[0].embedding(&t[1])
        })
    });
    add_case(cases, SMALL, "embedding_out_of_range", |d, limit| {
        let dims = matrix(limit, 256);
        let table = Tensor::zeros(&dims, DType::F32, d)?;
        let ids = Tensor::new(&[0u32, dims[0] as u32, 3], d)?;
        let error = table.embedding(&ids).and_then(|y| y.to_vec2::<f32>());
        let Err(error) = error else {
            anyhow::bail!("no error")
        };
        ensure!(error.to_string().contains(&dims[0].to_string()), "{error}");
        Ok(())
    });
    add_case(cases, SMALL, "index_select_of_columns", |d, limit| {
        let x = bytes(&[301, limit / 300])?;
        let ids = ids(50, limit / 300)?;
        check(d, &[x, ids], EXACT, |t| t[0].index_select(&t[1], 1))
    });
    add_case(
        cases,
        SMALL,
        "index_select_with_a_large_result",
        |d, limit| {
            let x = bytes(&[50, 1000])?;
            check(d, &[x, ids(limit / 1000 + 7, 50)?], EXACT, |t| {
                t[0].index_select(&t[1], 0)
            })
        },
    );
    add_case(cases, SMALL, "gather", |d, limit| {
        let n = limit + 77;
        let x = bytes(&[n])?;
        check(d, &[x, ids(5001, n)?], EXACT, |t| t[0].gather(&t[1], 0))?;
        let dims = matrix(limit, 64);
        let ids = ids(20 * 64, dims[0])?.reshape((20, 64))?;
        check(d, &[floats(&dims)?, ids], EXACT, |t| t[0].gather(&t[1], 0))
    });
    add_case(cases, SMALL, "scatter", |d, limit| {
        let (n, some) = (limit + 77, 5001);
        let operands = [bytes(&[n])?, ids(some, n)?, bytes(&[some])?];
        check(d, &operands, EXACT, |t| t[0].scatter(&t[1], &t[2], 0))
    });
    add_case(cases, SMALL, "index_add", |d, limit| {
        let dims = matrix(limit, 64);
        let operands = [floats(&dims)?, ids(200, dims[0])?, floats(&[200, 64])?];
        check(d, &operands, SUM, |t| t[0].index_add(&t[1], &t[2], 0))
    });
    add_case(cases, SMALL, "scatter_add", |d, limit| {
        let dims = matrix(limit, 64);
        let ids = ids(20 * 64, dims[0])?.reshape((20, 64))?;
        let operands = [floats(&dims)?, ids, floats(&[20, 64])?];
        check(d, &operands, SUM, |t| t[0].scatter_add(&t[1], &t[2], 0))
    });
    // In the CPU's order: of equal ids the last one stays.
    add_case(cases, SMALL, "scatter_of_a_large_source", |d, limit| {
        let n = limit / 4 + 33;
        let x = floats(&[n])?;
        let operands = [floats(&[1000])?, ids(n, 1000)?, x];
        check(d, &operands, EXACT, |t| t[0].scatter(&t[1], &t[2], 0))
    });
}
