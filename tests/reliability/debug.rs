//! Debugging aids: `CHECK_NAN`, `VERIFY`, `DENY`, and `CPU_FALLBACK`.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use candle_core::backend::BackendStorage;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{
    CpuStorage, CustomOp1, DType, Device, Layout, Module, Shape, Tensor, Var, WebGpuStorage, D,
};

use crate::{gpu, refused, works, Case};

const CHECK: &str = candle_webgpu::CHECK_NAN_VAR;
const DENY: &str = candle_webgpu::DENY_VAR;
const FALLBACK: &str = candle_webgpu::CPU_FALLBACK_VAR;
const CHECKED: &[(&str, &str)] = &[(CHECK, "1")];
const VERIFIED: &[(&str, &str)] = &[(candle_webgpu::VERIFY_VAR, "1")];
/// Matmul kernels that are optional: `gemm` and `gemv_k` replace them.
const MATMULS: &str =
    "gemm_coop,gemv_coop,gemv_k.alone,gemv_k.sub32,gemv_k.sub128,gemv_dot.sub,gemv_dot.many";

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "check_nan/names_the_op",      vars: CHECKED, run: names_the_op },
    Case { name: "check_nan/dtypes",            vars: CHECKED, run: dtypes },
    Case { name: "check_nan/no_false_alarm",    vars: CHECKED, run: no_false_alarm },
    Case { name: "check_nan/split",             vars: &[(CHECK, "1"), (candle_webgpu::BINDING_VAR, "32768")], run: split },
    Case { name: "check_nan/many_ops",          vars: CHECKED, run: many_ops },
    Case { name: "check_nan/off",               vars: &[(CHECK, "0")], run: not_checked },
    Case { name: "check_nan/no_switch",         vars: &[(CHECK, "yes")], run: no_switch },
    Case { name: "verify/agrees",               vars: VERIFIED, run: verified },
    Case { name: "verify/fused_ops",            vars: VERIFIED, run: fused_ops },
    Case { name: "verify/quantized",            vars: VERIFIED, run: quantized },
    Case { name: "verify/grouped_conv",         vars: VERIFIED, run: grouped_conv },
    Case { name: "verify/matmul_by_broadcast",  vars: VERIFIED, run: matmul_by_broadcast },
    Case { name: "verify/conv1d_gradient",      vars: VERIFIED, run: conv1d_gradient },
    Case { name: "verify/conv_transpose1d",     vars: VERIFIED, run: conv_transpose1d },
    Case { name: "verify/f8e4m3_to_f64",        vars: VERIFIED, run: f8e4m3_to_f64 },
    Case { name: "verify/long_sum",             vars: VERIFIED, run: long_sum },
    Case { name: "verify/f16_matmul",           vars: VERIFIED, run: f16_matmul },
    Case { name: "verify/names_a_cpu_defect",   vars: VERIFIED, run: names_a_cpu_defect },
    Case { name: "verify/finds_a_difference",   vars: VERIFIED, run: finds_a_difference },
    Case { name: "verify/of_a_custom_op",       vars: VERIFIED, run: of_a_custom_op },
    Case { name: "fallback/no_switch",          vars: &[(FALLBACK, "yes")], run: fallback_no_switch },
    Case { name: "deny/no_such_kernel",         vars: &[(DENY, "unary,gemv")], run: no_such_kernel },
    Case { name: "deny/no_replacement",         vars: &[(DENY, "unary")], run: no_replacement },
    Case { name: "deny/matmuls",                vars: &[(DENY, MATMULS)], run: matmuls },
    Case { name: "deny/rules",                  vars: &[(DENY, "fused_elementwise, flash_decode,flash_decode_sub,concat")], run: rules },
];

fn names_the_op() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::new(&[1f32, 0., -1.], d)?;
    // The error names the first op, not the sum and the product that follow.
    let y = ((x.log()? + 1.)? * 2.)?;
    let said = refused(d.synchronize(), &["made NaN and infinities", "ulog"])?;
    ensure!(!said.contains("CANDLE"), "{said}");
    // It is reported once.
    let y = y.to_vec1::<f32>()?;
    ensure!(
        y[0] == 2. && y[1] == f32::NEG_INFINITY && y[2].is_nan(),
        "{y:?}"
    );
    works(d)?;
    // A readback reports it, too.
    let z = x.broadcast_div(&Tensor::new(&[0f32], d)?)?;
    refused(z.to_vec1::<f32>(), &["made NaN and infinities", "bdiv"])?;
    works(d)
}

fn dtypes() -> Result<()> {
    let d = &gpu()?;
    for dtype in [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::F8E4M3,
    ] {
        for (value, what) in [(0f32, "an infinity"), (-1., "NaN")] {
            if (dtype, what) == (DType::F8E4M3, "an infinity") {
                // The dtype has no infinity.
                continue;
            }
            // The bad element is the last one in a word that it shares with others.
            let mut values = vec![1f32; 4099];
            values[4098] = value;
            let x = Tensor::from_vec(values, 4099, d)?.to_dtype(dtype)?;
            works(d)?;
            let y = x.log()?;
            refused(d.synchronize(), &[what, "ulog", dtype.as_str()])?;
            drop(y);
        }
    }
    let x = Tensor::new(&[7e4f32], d)?.to_dtype(DType::F16)?;
    refused(x.to_vec1::<half::f16>(), &["an infinity", "cast"])?;
    works(d)
}

/// Recycled memory, infinities that the program uploads, and results that are only partly written are no errors.
fn no_false_alarm() -> Result<()> {
    let d = &gpu()?;
    let infinite = Tensor::full(f32::INFINITY, 10_000, d)?;
    drop((&infinite + 1.)?);
    drop(Tensor::new(&[f32::NAN; 4096], d)?);
    d.synchronize()?;
    for n in [1000, 4096, 10_000] {
        let x = Tensor::rand(0f32, 1., n, d)?;
        let y = Tensor::cat(&[&x, &x.exp()?, &x], 0)?;
        let z = (y.sqrt()? + 1.)?.recip()?;
        ensure!(z.to_vec1::<f32>()?.iter().all(|v| v.is_finite()));
        let ids = Tensor::new(&[0u32, 3], d)?;
        let sum = x.index_add(&ids, &Tensor::ones(2, DType::F32, d)?, 0)?;
        drop(sum.to_vec1::<f32>()?);
    }
    let mask = Tensor::new(&[[0f32, f32::NEG_INFINITY], [0., 0.]], d)?;
    let scores = Tensor::rand(0f32, 1., (2, 2), d)?;
    let p = candle_nn::ops::softmax(&(scores + mask)?, D::Minus1)?;
    ensure!(p.to_vec2::<f32>()?[0] == [1., 0.]);
    let (q, k) = (
        Tensor::rand(-1f32, 1., (1, 2, 1, 64), d)?,
        Tensor::rand(-1f32, 1., (1, 2, 700, 64), d)?,
    );
    let y = candle_nn::ops::sdpa(&q, &k, &k, None, false, 0.125, 1.)?;
    drop(y.flatten_all()?.to_vec1::<f32>()?);
    let bits = Tensor::full(f32::NAN, (40, 40), d)?.t()?.contiguous()?;
    ensure!(bits
        .flatten_all()?
        .to_vec1::<f32>()?
        .iter()
        .all(|v| v.is_nan()));
    works(d)
}

fn split() -> Result<()> {
    let d = &gpu()?;
    let mut values = vec![1f32; 100_000];
    let x = Tensor::from_slice(&values, values.len(), d)?;
    drop((x.log()? + 1.)?.to_vec1::<f32>()?);
    works(d)?;
    values[99_999] = -1.;
    let x = Tensor::from_slice(&values, values.len(), d)?;
    refused((x.sqrt()? + 1.)?.to_vec1::<f32>(), &["NaN", "usqrt"])?;
    works(d)
}

/// More dispatches than fit into one submit.
fn many_ops() -> Result<()> {
    let d = &gpu()?;
    let mut x = Tensor::new(&[1f32, 2., 3.], d)?;
    for _ in 0..500 {
        x = ((&x * 0.5)?.broadcast_add(&x)? / 1.5)?;
    }
    let x = x.to_vec1::<f32>()?;
    ensure!((x[2] - 3.).abs() < 1e-3, "{x:?}");
    works(d)
}

fn not_checked() -> Result<()> {
    let d = &gpu()?;
    let y = Tensor::new(&[-1f32], d)?.log()?;
    d.synchronize()?;
    ensure!(y.to_vec1::<f32>()?[0].is_nan());
    works(d)
}

fn no_switch() -> Result<()> {
    refused(Device::new_webgpu(0), &[CHECK, "yes", "0 or 1"]).map(|_| ())
}

fn fallback_no_switch() -> Result<()> {
    refused(Device::new_webgpu(0), &[FALLBACK, "yes", "0 or 1"]).map(|_| ())
}

/// Calls most methods of `BackendStorage`.
fn verified() -> Result<()> {
    let d = &gpu()?;
    let readbacks = || Ok::<_, candle_core::Error>(d.as_webgpu_device()?.stats().readbacks);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let before = readbacks()?;
        let x = Tensor::rand(-1f32, 1., (2, 3, 12, 10), d)?.to_dtype(dtype)?;
        let y = ((x.affine(2., 0.5)?.t()?.exp()? + 1.)?
            .sqrt()?
            .powf(1.5)?
            .elu(0.5)?
            * 2.)?;
        let m = y
            .matmul(&x)?
            .broadcast_add(&x.narrow(2, 3, 1)?.mean_keepdim(3)?)?;
        let ids = Tensor::new(&[1u32, 0, 2], d)?;
        let picked = m.index_select(&ids, 1)?;
        let all = Tensor::cat(&[&picked, &m], 2)?.contiguous()?;
        let low = all.lt(&all.zeros_like()?)?;
        let chosen = low.where_cond(&all, &all.neg()?)?;
        chosen.slice_set(&m.max_keepdim(2)?, 2, 1)?;
        chosen
            .narrow(3, 2, 1)?
            .contiguous()?
            .const_set(candle_core::scalar::Scalar::one(dtype))?;
        let sum = chosen.sum((1, 3))?;
        ensure!(sum.argmax(1)?.dims() == [2]);
        let flat = sum.flatten_all()?;
        let ids = Tensor::new(&[0u32, 3, 0], d)?;
        let added = flat.index_add(&ids, &flat.narrow(0, 0, 3)?, 0)?;
        let added = added.scatter_add(&ids, &flat.narrow(0, 1, 3)?, 0)?;
        drop(
            added
                .scatter(&ids, &flat.narrow(0, 1, 3)?, 0)?
                .gather(&ids, 0)?,
        );
        let image = x.narrow(1, 0, 2)?.contiguous()?;
        if dtype == DType::F32 {
            let k = Tensor::rand(-1f32, 1., (4, 2, 3, 3), d)?;
            let z = image.conv2d(&k, 1, 2, 1, 1)?;
            drop(z.conv_transpose2d(&k, 0, 0, 1, 1)?);
            drop(
                image
                    .flatten_from(2)?
                    .conv1d(&k.flatten_from(2)?, 1, 1, 1, 1)?,
            );
            drop(z.avg_pool2d(2)?.upsample_bilinear2d(9, 7, false)?);
        }
        drop(image.max_pool2d(2)?.upsample_nearest2d(9, 7)?);
        let read = readbacks()? - before;
        ensure!(read > 50, "only {read} readbacks: ops are not verified");
    }
    works(d)
}

/// Runs an op and checks that it was verified.
fn compared<T>(d: &Device, what: &str, op: impl FnOnce() -> candle_core::Result<T>) -> Result<T> {
    let verified = || Ok::<_, candle_core::Error>(d.as_webgpu_device()?.stats().verified);
    let before = verified()?;
    let done = op().with_context(|| what.to_string())?;
    ensure!(verified()? > before, "{what} is not verified");
    Ok(done)
}

/// The fused ops of candle-nn, and sorting.
fn fused_ops() -> Result<()> {
    let d = &gpu()?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let rand = |dims: &[usize]| Tensor::rand(-1f32, 1., dims, d)?.to_dtype(dtype);
        let (x, weight) = (rand(&[1, 4, 6, 32])?, rand(&[32])?);
        compared(d, "softmax", || candle_nn::ops::softmax_last_dim(&x))?;
        compared(d, "sigmoid", || candle_nn::ops::sigmoid(&x))?;
        compared(d, "rms_norm", || {
            candle_nn::ops::rms_norm(&x, &weight, 1e-5)
        })?;
        compared(d, "layer_norm", || {
            candle_nn::ops::layer_norm(&x, &weight, &weight, 1e-5)
        })?;
        let (cos, sin) = (rand(&[6, 16])?, rand(&[6, 16])?);
        compared(d, "rope", || candle_nn::rotary_emb::rope(&x, &cos, &sin))?;
        compared(d, "rope_i", || {
            candle_nn::rotary_emb::rope_i(&x, &cos, &sin)
        })?;
        let y = x.transpose(1, 2)?.contiguous()?;
        compared(d, "rope_thd", || {
            candle_nn::rotary_emb::rope_thd(&y, &cos, &sin)
        })?;
        compared(d, "argsort", || x.arg_sort_last_dim(false))?;
        let (k, v) = (rand(&[1, 2, 9, 32])?, rand(&[1, 2, 9, 64])?);
        let mask = rand(&[6, 9])?;
        for (mask, causal, cap) in [
            (None, false, 1.),
            (None, true, 1.),
            (Some(&mask), false, 5.),
        ] {
            compared(d, "sdpa", || {
                candle_nn::ops::sdpa(&x, &k, &v, mask, causal, 0.2, cap)
            })?;
        }
    }
    works(d)
}

fn quantized() -> Result<()> {
    let d = &gpu()?;
    let ids = &Tensor::new(&[[2u32, 0], [1, 2], [0, 1]], d)?;
    for dtype in [
        GgmlDType::Q4_0,
        GgmlDType::Q6K,
        GgmlDType::Q8_0,
        GgmlDType::BF16,
    ] {
        let on_device = |dims: &[usize]| -> candle_core::Result<Arc<QTensor>> {
            let w = Tensor::rand(-1f32, 1., dims, &Device::Cpu)?;
            Ok(Arc::new(QTensor::quantize_onto(&w, dtype, d)?))
        };
        let matrix = on_device(&[8, 256])?;
        compared(d, "dequantize", || matrix.dequantize(d))?;
        compared(d, "embedding", || matrix.embedding(ids))?;
        let product = QMatMul::from_arc(matrix)?;
        for rows in [1, 3, 80] {
            let x = Tensor::rand(-1f32, 1., (1, rows, 256), d)?;
            compared(d, "qmatmul", || product.forward(&x))?;
        }
        if dtype != GgmlDType::BF16 {
            let experts = on_device(&[3, 8, 256])?;
            let x = Tensor::rand(-1f32, 1., (3, 1, 256), d)?;
            compared(d, "experts", || experts.indexed_moe_forward(&x, ids))?;
        }
    }
    works(d)
}

fn grouped_conv() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::rand(-1f32, 1., (2, 8, 9), d)?;
    let k = Tensor::rand(-1f32, 1., (8, 1, 3), d)?;
    compared(d, "conv1d", || x.conv1d(&k, 1, 1, 1, 8))?;
    let x = Tensor::rand(-1f32, 1., (2, 8, 9, 7), d)?;
    let k = Tensor::rand(-1f32, 1., (8, 1, 3, 3), d)?;
    compared(d, "conv2d", || x.conv2d(&k, 1, 1, 1, 8))?;
    works(d)
}

/// Candle's CPU ignores the row stride of the left side if the right side is broadcast.
fn matmul_by_broadcast() -> Result<()> {
    let d = &gpu()?;
    let a = Tensor::rand(-1f32, 1., (3, 4, 5), d)?.t()?;
    let b = Tensor::rand(-1f32, 1., (4, 6), d)?.broadcast_as((3, 4, 6))?;
    compared(d, "matmul", || a.matmul(&b))?;
    works(d)
}

/// The gradient by the kernel is a convolution by a transposed view, which Candle's CPU reads as if it were contiguous.
fn conv1d_gradient() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::rand(-1f32, 1., (2, 3, 9), d)?;
    let k = Var::rand(-1f32, 1., (4, 3, 3), d)?;
    for padding in [1, 0] {
        let y = x.conv1d(&k, padding, 1, 1, 1)?.sqr()?.sum_all()?;
        let grads = compared(d, "conv1d's gradient", || y.backward())?;
        ensure!(grads.get(&k).is_some_and(|grad| grad.dims() == [4, 3, 3]));
    }
    works(d)
}

/// Candle's CPU computes a transposed convolution by the matmul of [`matmul_by_broadcast`].
fn conv_transpose1d() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::rand(-1f32, 1., (2, 3, 5), d)?;
    let k = Tensor::rand(-1f32, 1., (3, 2, 3), d)?;
    for dilation in [1, 2] {
        compared(d, "conv_transpose1d", || {
            x.conv_transpose1d(&k, 0, 0, 1, dilation, 1)
        })?;
    }
    works(d)
}

/// Candle's CPU never returns from this cast, which it also uses to interpolate.
fn f8e4m3_to_f64() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::rand(-1f32, 1., (1, 2, 4, 3), d)?.to_dtype(DType::F8E4M3)?;
    compared(d, "the cast", || x.to_dtype(DType::F64))?;
    compared(d, "upsample_bilinear2d", || {
        x.upsample_bilinear2d(7, 5, false)
    })?;
    works(d)
}

/// Candle's CPU rounds each partial sum, so that a sum of ones in bf16 stops at 256.
fn long_sum() -> Result<()> {
    let d = &gpu()?;
    for dtype in [DType::BF16, DType::F16, DType::F8E4M3] {
        let x = Tensor::ones((440, 3), dtype, d)?;
        compared(d, "sum", || x.sum(0))?;
        compared(d, "sum", || x.t()?.sum(1))?;
    }
    works(d)
}

/// Candle's CPU rounds each partial sum, so that ones do not change 2048 in f16.
fn f16_matmul() -> Result<()> {
    let d = &gpu()?;
    let mut row = [1f32; 128];
    (row[0], row[127]) = (2048., -2048.);
    let x = Tensor::new(&row, d)?.to_dtype(DType::F16)?;
    let x = x.reshape((1, 1, 1, 128))?;
    let (k, row) = (x.ones_like()?, x.squeeze(0)?);
    compared(d, "matmul", || x.matmul(&k.t()?))?;
    compared(d, "conv2d", || x.conv2d(&k, 0, 1, 1, 1))?;
    compared(d, "conv1d", || row.conv1d(&k.squeeze(0)?, 0, 1, 1, 1))?;
    works(d)
}

/// Candle's CPU computes the variance of layer_norm in one pass, which cancels for a large mean. The error says so.
fn names_a_cpu_defect() -> Result<()> {
    let d = &gpu()?;
    let x = (Tensor::rand(-1f32, 1., (4, 64), d)? + 10_000.)?;
    let (one, zero) = (
        Tensor::ones(64, DType::F32, d)?,
        Tensor::zeros(64, DType::F32, d)?,
    );
    let said = refused(
        candle_nn::ops::layer_norm(&x, &one, &zero, 1e-5),
        &["VERIFY: layer-norm(self: F32", "known defect", "one pass"],
    )?;
    kept(&said)?;
    works(d)
}

/// Loads the operands from the file that an error of `VERIFY` names, and removes it.
fn kept(said: &str) -> Result<HashMap<String, Tensor>> {
    let mut words = said.split_whitespace();
    let path = words.find(|word| word.contains(".safetensors"));
    let path = path.context("no file is named")?.trim_end_matches('.');
    let operands = candle_core::safetensors::load(path, &Device::Cpu)?;
    std::fs::remove_file(path)?;
    Ok(operands)
}

/// A custom op that is wrong on the device.
struct Wrong;

impl CustomOp1 for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((s.affine(l, 2., 0.)?, l.shape().clone()))
    }

    fn webgpu_fwd(
        &self,
        s: &WebGpuStorage,
        l: &Layout,
    ) -> candle_core::Result<(WebGpuStorage, Shape)> {
        Ok((BackendStorage::affine(s, l, 3., 0.)?, l.shape().clone()))
    }
}

fn of_a_custom_op() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::new(&[0f32, 1., 2.], d)?;
    let says = [
        "VERIFY: wrong(self: F32 Layout",
        "element 1 is 3.0, on the CPU 2.0",
    ];
    let said = refused(x.apply_op1_no_bwd(&Wrong), &says)?;
    ensure!(kept(&said)?["self"].to_vec1::<f32>()? == [0., 1., 2.]);
    works(d)
}

/// A sum that depends on the order: the CPU adds row by row and loses every 1; the device adds in parallel.
fn finds_a_difference() -> Result<()> {
    let d = &gpu()?;
    let mut column = vec![1f32; 4096];
    (column[0], column[4095]) = (1e9, -1e9);
    let x = Tensor::from_slice(&column, (4096, 1), d)?.broadcast_as((4096, 2))?;
    let said = refused(
        x.sum(0),
        &[
            "VERIFY: sum(self: F32 Layout",
            "[4096, 2]",
            "dims: [0]",
            "on the CPU 0.0",
        ],
    )?;
    ensure!(!said.contains("known defect"), "{said}");
    ensure!(kept(&said)?["self"].to_vec1::<f32>()? == column);
    works(d)
}

fn no_such_kernel() -> Result<()> {
    let said = refused(
        Device::new_webgpu(0),
        &[DENY, "unary,gemv", "gemv_k", "fill"],
    )?;
    ensure!(!said.contains('\n'));
    Ok(())
}

fn no_replacement() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::new(&[1f32, 4.], d)?;
    refused(x.sqrt(), &["unary is denied", DENY])?;
    ensure!((&x + &x)?.to_vec1::<f32>()? == [2., 8.]);
    Ok(())
}

/// The kernels that `work` runs, or none if the adapter has no timestamps.
fn kernels(d: &Device, work: impl FnOnce() -> candle_core::Result<()>) -> Result<Vec<String>> {
    let Ok(profile) = d.as_webgpu_device()?.runtime().profile() else {
        work()?;
        return Ok(Vec::new());
    };
    work()?;
    let timings = profile.finish()?;
    Ok(timings.into_iter().map(|t| t.kernel).collect())
}

fn matmuls() -> Result<()> {
    let d = &gpu()?;
    let cpu = &Device::Cpu;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (m, n, k) in [(1, 300, 2048), (4, 5000, 1024), (200, 300, 512)] {
            let a = Tensor::rand(-1f32, 1., (m, k), cpu)?.to_dtype(dtype)?;
            let b = Tensor::rand(-1f32, 1., (n, k), cpu)?.to_dtype(dtype)?;
            let (da, db) = (a.to_device(d)?, b.to_device(d)?);
            let mut got = None;
            let names = kernels(d, || {
                got = Some(da.matmul(&db.t()?)?.to_dtype(DType::F32)?);
                Ok(())
            })?;
            for name in names {
                let kernel = name.split('.').next().unwrap_or_default();
                ensure!(MATMULS.split(',').all(|denied| denied != kernel), "{name}");
            }
            let f32s = |t: &Tensor| t.to_dtype(DType::F32);
            let expected = f32s(&a)?
                .matmul(&f32s(&b)?.t()?)?
                .flatten_all()?
                .to_vec1::<f32>()?;
            let got = got.ok_or_else(|| anyhow::anyhow!("no product"))?;
            let got = got.flatten_all()?.to_vec1::<f32>()?;
            let step = if dtype == DType::BF16 {
                1. / 128.
            } else {
                1. / 1024.
            };
            for (g, e) in got.iter().zip(&expected) {
                ensure!(
                    (g - e).abs() <= step * e.abs() + 2e-2,
                    "{dtype:?} {m} {g} {e}"
                );
            }
        }
    }
    works(d)
}

/// A rule is off without one of its kernels; an op that calls a denied kernel directly is an error.
fn rules() -> Result<()> {
    let d = &gpu()?;
    let x = Tensor::rand(-1f32, 1., (1, 2, 1, 64), d)?;
    let names = kernels(d, || {
        let y = ((x.exp()? + 1.)?.sqrt()? * 2.)?;
        let y = Tensor::cat(&[&y, &y], 2)?;
        y.flatten_all()?.to_vec1::<f32>().map(|_| ())
    })?;
    for denied in ["fused_elementwise", "concat"] {
        ensure!(
            !names.iter().any(|name| name.starts_with(denied)),
            "{names:?}"
        );
    }
    let k = Tensor::rand(-1f32, 1., (1, 2, 300, 64), d)?;
    let sdpa = candle_nn::ops::sdpa(&x, &k, &k, None, false, 0.125, 1.);
    refused(sdpa, &["flash_decode is denied"])?;
    let scores = (x.matmul(&k.t()?)? * 0.125)?;
    let y = candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&k)?;
    ensure!(y.dims() == [1, 2, 1, 64] && y.sum_all()?.to_scalar::<f32>()?.is_finite());
    works(d)
}
