//! How far the device may be from the reference: one table, and the comparison.
//!
//! The reference is the CPU backend fed with the same inputs. For floats it computes in f64 (its own f16 and bf16
//! arithmetic is coarser than what is tested), and the result is rounded to the dtype. Integers are exact.

use anyhow::{bail, ensure, Result};
use candle_core::{DType, Device, Tensor};

/// f32 passes within `abs + rel * |expected|`. f16 and bf16 pass within so many units in the last place, or within
/// the bound for f32, which matters next to zero.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub abs: f64,
    pub rel: f64,
    pub ulps: u32,
}

const fn bound(abs: f64, rel: f64, ulps: u32) -> Bound {
    Bound { abs, rel, ulps }
}

/// Adapters may flush subnormals to zero.
const FLUSH: f64 = f32::MIN_POSITIVE as f64;

//                             abs    rel    ulps
pub const EXACT: Bound = bound(0.0, 0.0, 0);
/// One operation: +, -, *, /, sqrt. WGSL lets a division be off by 2.5 places.
pub const ARITH: Bound = bound(FLUSH, 3.6e-7, 1);
/// A product and a sum, fused or not: what cancels shows the rounding of the product.
pub const AFFINE: Bound = bound(1e-7, 3.6e-7, 1);
/// exp, log, tanh, erf, silu, gelu, sigmoid, elu.
pub const FUNCTION: Bound = bound(3e-7, 1.5e-6, 1);
/// sin and cos: absolute, since they cross zero.
pub const PERIODIC: Bound = bound(1e-6, 1e-6, 1);
pub const POWF: Bound = bound(FLUSH, 4e-6, 1);
/// Sums of up to a few thousand numbers within 2.
pub const SUM: Bound = bound(4e-5, 4e-6, 1);
/// Dot products of up to a few thousand pairs of numbers within 1.
pub const MATMUL: Bound = bound(3e-5, 4e-6, 1);
pub const SOFTMAX: Bound = bound(1e-7, 4e-6, 1);
/// Means of up to a few thousand numbers within 2, by weights from scores within 20.
pub const ATTENTION: Bound = bound(1e-5, 1e-5, 1);
/// The same; where f16 is multiplied by cooperative matrices, weights are rounded to it, by 2^-11, before they are added up and
/// divided by their sum: 2^-11 of values within 2 at most.
pub fn attention(dtype: DType, device: &Device) -> Result<Bound> {
    let device = device.as_webgpu_device()?.runtime();
    let rounded = dtype == DType::F16 && device.cooperative_attention();
    let abs = if rounded { 2. / 2048. } else { 0. };
    Ok(Bound {
        abs: ATTENTION.abs + abs,
        ..ATTENTION
    })
}
pub const NORM: Bound = bound(4e-6, 6e-6, 1);
pub const ROPE: Bound = bound(1e-6, 1e-6, 1);

#[cfg(target_arch = "wasm32")]
thread_local! {
    /// The greatest difference of finite floats since it was last asked for, whatever the bound is.
    pub static WORST: std::cell::Cell<f64> = const { std::cell::Cell::new(0.) };
}

#[cfg(target_arch = "wasm32")]
fn note(difference: f64) {
    if difference.is_finite() {
        WORST.with(|worst| worst.set(worst.get().max(difference)));
    }
}

#[cfg(not(target_arch = "wasm32"))]
thread_local! {
    /// What this thread's comparisons got from the device, while somebody asks.
    static SEEN: std::cell::RefCell<Option<Vec<Tensor>>> = const { std::cell::RefCell::new(None) };
}

/// Runs, and gives what was compared meanwhile, on the CPU.
#[cfg(not(target_arch = "wasm32"))]
pub fn traced<T>(run: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    SEEN.set(Some(Vec::new()));
    let outcome = run();
    (outcome, SEEN.take().unwrap_or_default())
}

/// Values as f64; every dtype but large i64 is exact.
pub fn floats(t: &Tensor) -> Result<Vec<f64>> {
    let t = t.to_device(&Device::Cpu)?.flatten_all()?.contiguous()?;
    // The CPU's cast from f8e4m3 to f64 calls itself for ever (0.11.1).
    let t = match t.dtype() {
        DType::F8E4M3 => t.to_dtype(DType::F32)?,
        _ => t,
    };
    Ok(t.to_dtype(DType::F64)?.to_vec1()?)
}

pub fn ints(t: &Tensor) -> Result<Vec<i64>> {
    let t = t.to_device(&Device::Cpu)?.flatten_all()?.contiguous()?;
    Ok(t.to_dtype(DType::I64)?.to_vec1()?)
}

/// Narrow floats in units of the last place: neighbours differ by 1, infinity follows the greatest.
fn place(dtype: DType, v: f64) -> i64 {
    if dtype == DType::F8E4M3 {
        let bits = float8::F8E4M3::from_f64(v).to_bits();
        let magnitude = i64::from(bits & 0x7f);
        return if bits & 0x80 != 0 {
            -magnitude
        } else {
            magnitude
        };
    }
    let bits = match dtype {
        DType::F16 => half::f16::from_f64(v).to_bits(),
        _ => half::bf16::from_f64(v).to_bits(),
    };
    let magnitude = i64::from(bits & 0x7fff);
    if bits & 0x8000 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// What the device gave against what the CPU gave; `expected` may be wider.
pub fn close(expected: &Tensor, got: &Tensor, bound: Bound) -> Result<()> {
    ensure!(
        expected.dims() == got.dims(),
        "shape {:?}, expected {:?}",
        got.dims(),
        expected.dims()
    );
    let got = &got.to_device(&Device::Cpu)?;
    #[cfg(not(target_arch = "wasm32"))]
    SEEN.with_borrow_mut(|seen| seen.iter_mut().for_each(|all| all.push(got.clone())));
    let dtype = got.dtype();
    let wider = expected.dtype() == DType::F64 && dtype.is_float();
    ensure!(
        expected.dtype() == dtype || wider,
        "dtype {dtype:?}, expected {:?}",
        expected.dtype()
    );
    if dtype.is_float() {
        close_floats(&floats(expected)?, &floats(got)?, dtype, bound)
    } else {
        let (e, g) = (ints(expected)?, ints(got)?);
        report(e.len(), |i| {
            (e[i] != g[i]).then(|| format!("{}, expected {}", g[i], e[i]))
        })
    }
}

fn close_floats(expected: &[f64], got: &[f64], dtype: DType, bound: Bound) -> Result<()> {
    let half = matches!(dtype, DType::F16 | DType::BF16 | DType::F8E4M3);
    report(expected.len(), |i| {
        let g = got[i];
        // The reference as the dtype would hold it.
        let e = match dtype {
            DType::F32 => f64::from(expected[i] as f32),
            DType::F16 => half::f16::from_f64(expected[i]).to_f64(),
            DType::BF16 => half::bf16::from_f64(expected[i]).to_f64(),
            DType::F8E4M3 => float8::F8E4M3::from_f64(expected[i]).to_f64(),
            _ => expected[i],
        };
        #[cfg(target_arch = "wasm32")]
        note((g - e).abs());
        let ok = if e.is_nan() || g.is_nan() {
            e.is_nan() && g.is_nan()
        } else {
            let near =
                (g - e).abs() <= bound.abs + bound.rel * e.abs() && g.is_finite() && e.is_finite();
            let places = || place(dtype, g).abs_diff(place(dtype, e)) <= u64::from(bound.ulps);
            g == e || near || (half && places())
        };
        (!ok).then(|| format!("{g:e}, expected {e:e} (off by {:e})", g - e))
    })
}

/// Fails with the first few differences.
fn report(n: usize, difference: impl Fn(usize) -> Option<String>) -> Result<()> {
    let wrong: Vec<(usize, String)> = (0..n).filter_map(|i| Some((i, difference(i)?))).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let first: Vec<String> = wrong
        .iter()
        .take(4)
        .map(|(i, d)| format!("[{i}] {d}"))
        .collect();
    bail!("{} of {n} differ: {}", wrong.len(), first.join("; "))
}

/// The comparison itself is tested, too: what it lets pass decides what all others mean.
pub fn add(cases: &mut crate::case::Cases) {
    cases.add("comparison/refuses", |_| {
        let of = |v: f64, dtype| Tensor::new(&[v, 1.], &Device::Cpu)?.to_dtype(dtype);
        let nan = f64::NAN;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for (e, g) in [
                (1., 1.02),
                (nan, 1.),
                (1., nan),
                (f64::INFINITY, 1e4),
                (0., f64::INFINITY),
                (1., -1.),
            ] {
                let refused = close(&of(e, DType::F64)?, &of(g, dtype)?, FUNCTION).is_err();
                ensure!(refused, "{g} passed for {e} in {dtype:?}");
            }
            for v in [nan, f64::INFINITY, 0.1, -3e4] {
                close(&of(v, DType::F64)?, &of(v, dtype)?, EXACT)?;
            }
        }
        let wrong = close(&of(1., DType::U8)?, &of(2., DType::U8)?, SUM);
        ensure!(wrong.is_err(), "2 passed for 1");
        ensure!(
            close(&of(1., DType::F32)?, &of(1., DType::F16)?, SUM).is_err(),
            "f16 passed for f32"
        );
        let row = of(1., DType::F32)?;
        ensure!(
            close(&row, &row.unsqueeze(0)?, SUM).is_err(),
            "(1, 2) passed for (2)"
        );
        Ok(())
    });
}
