//! How far the device may be from the reference: one table, and the comparison.
//!
//! The reference is the CPU backend fed with the same inputs. Floats are computed in f64, since the CPU's own f16 and
//! bf16 arithmetic is less accurate than the device's, and the result is rounded to the dtype. Integers are exact.

use anyhow::{bail, ensure, Result};
use candle_core::{DType, Device, Tensor};

/// f32 passes within `abs + rel * |expected|`. f16 and bf16 pass within `ulps` units in the last place, or within the
/// bound for f32, which matters near zero.
#[derive(Clone, Copy, Debug, PartialEq)]
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
/// One operation: +, -, *, /, sqrt. WGSL allows a division an error of 2.5 ULP.
pub const ARITH: Bound = bound(FLUSH, 3.6e-7, 1);
/// A product and a sum, fused or not: cancellation exposes the rounding of the product.
pub const AFFINE: Bound = bound(1e-7, 3.6e-7, 1);
/// exp, log, tanh, erf, silu, gelu, sigmoid, elu.
pub const FUNCTION: Bound = bound(3e-7, 1.5e-6, 1);
/// sin and cos: an absolute bound, since they cross zero.
pub const PERIODIC: Bound = bound(1e-6, 1e-6, 1);
pub const POWF: Bound = bound(FLUSH, 4e-6, 1);
/// Sums of up to a few thousand numbers of magnitude at most 2.
pub const SUM: Bound = bound(4e-5, 4e-6, 1);
/// Dot products of up to a few thousand pairs of numbers of magnitude at most 1.
pub const MATMUL: Bound = bound(3e-5, 4e-6, 1);
pub const SOFTMAX: Bound = bound(1e-7, 4e-6, 1);
/// Means of up to a few thousand numbers of magnitude at most 2, weighted by scores of magnitude at most 20.
pub const ATTENTION: Bound = bound(1e-5, 1e-5, 1);
/// The bound of a device. Cooperative matrices of f16 round the weights, by a relative 2^-11, before the sum: for
/// values of magnitude at most 2 that adds 2 * 2^-11. f32 that may be rounded has queries, keys and values rounded as well.
pub fn attention(dtype: DType, device: &Device) -> Result<Bound> {
    let device = device.as_webgpu_device()?.runtime();
    let abs = match dtype {
        _ if !device.cooperative_attention() => 0.,
        DType::F32 if device.gemm_reduced_precision_f32() => 4. / 2048.,
        DType::F32 => 0.,
        _ => 2. / 2048.,
    };
    Ok(Bound {
        abs: ATTENTION.abs + abs,
        ..ATTENTION
    })
}
pub const NORM: Bound = bound(4e-6, 6e-6, 1);
pub const ROPE: Bound = bound(1e-6, 1e-6, 1);

#[cfg(target_arch = "wasm32")]
thread_local! {
    /// The greatest difference of finite floats since the last reset, whatever the bound.
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
    /// Results that this thread compared, while [`traced`] runs.
    static SEEN: std::cell::RefCell<Option<Vec<Tensor>>> = const { std::cell::RefCell::new(None) };
}

/// Runs, and also returns the device's results that were compared meanwhile, on the CPU.
#[cfg(not(target_arch = "wasm32"))]
pub fn traced<T>(run: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    SEEN.set(Some(Vec::new()));
    let outcome = run();
    (outcome, SEEN.take().unwrap_or_default())
}

/// Values as f64: exact, except for large i64.
pub fn floats(t: &Tensor) -> Result<Vec<f64>> {
    let t = t.to_device(&Device::Cpu)?.flatten_all()?.contiguous()?;
    // The CPU's cast from f8e4m3 to f64 recurses forever (0.11.1).
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

/// The position of a 16- or 8-bit float among all of them: neighbours differ by 1, and infinity follows the greatest.
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

/// Compares the device's result with the CPU's, which may be in f64.
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
        // The reference, rounded to the dtype.
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

/// Fails if there is a difference, and shows the first few.
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
