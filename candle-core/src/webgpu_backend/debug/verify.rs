//! Compares the results of ops with the CPU's.

use std::collections::HashMap;
use std::fmt::{self, Debug, Display};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::reference::{contiguous, known_defect, OnCpu, ROUNDED};
use crate::backend::BackendStorage;
use crate::op::BackpropOp;
use crate::webgpu_backend::WebGpuStorage;
use crate::{CpuStorage, DType, Layout, Result, Storage, Tensor};

/// A storage that an op reads or writes: its name in messages, the storage, its layout.
pub(crate) type Operand<'a> = (&'static str, &'a WebGpuStorage, &'a Layout);

/// An op call, as shown in messages.
pub(crate) struct Call<'a> {
    op: &'static str,
    /// In-place ops write to the first operand.
    operands: &'a [Operand<'a>],
    arguments: &'a [(&'static str, &'a dyn Debug)],
    tolerance: Option<f64>,
    in_f32: bool,
}

/// The content of `storage` before an op writes to it; `None` if verification is off.
pub(crate) fn before(storage: &WebGpuStorage) -> Result<Option<CpuStorage>> {
    let verifies = storage.device().runtime().verifies();
    verifies.then(|| storage.to_cpu_storage()).transpose()
}

impl<'a> Call<'a> {
    pub fn new(op: &'static str, operands: &'a [Operand<'a>]) -> Self {
        Self {
            op,
            operands,
            arguments: &[],
            tolerance: None,
            in_f32: false,
        }
    }

    /// Sets the arguments that are not storages.
    pub fn with(self, arguments: &'a [(&'static str, &'a dyn Debug)]) -> Self {
        Self { arguments, ..self }
    }

    /// Overrides the dtype's tolerance.
    pub fn within(self, tolerance: f64) -> Self {
        let tolerance = Some(tolerance);
        Self { tolerance, ..self }
    }

    /// Computes f16 in f32 on the CPU, which rounds each partial sum of a matmul to f16; its convolutions are matmuls.
    pub fn in_f32(self) -> Self {
        Self {
            in_f32: true,
            ..self
        }
    }

    /// Compares the result with what `cpu` computes from contiguous copies of the operands.
    pub fn check(
        self,
        result: &WebGpuStorage,
        cpu: impl FnOnce(&[OnCpu]) -> Result<CpuStorage>,
    ) -> Result<()> {
        if !result.device().runtime().verifies() {
            return Ok(());
        }
        let contents = read(self.operands)?;
        let copies = || contiguous_copies(self.operands, &contents);
        let cpu = || match self.in_f32 {
            true => f16_in_f32(copies()?, cpu),
            false => cpu(&copies()?),
        };
        match on_cpu(cpu) {
            Some(expected) => self.compare(result, &expected, contents),
            None => Ok(()),
        }
    }

    /// Compares the first operand with the CPU's result. `cpu` gets the operand's content `before` the op, and contiguous copies of
    /// the other operands.
    pub fn check_in_place(
        self,
        before: Option<CpuStorage>,
        cpu: impl FnOnce(&mut CpuStorage, &[OnCpu]) -> Result<()>,
    ) -> Result<()> {
        let (Some(before), Some(((_, dst, _), others))) = (before, self.operands.split_first())
        else {
            return Ok(());
        };
        let mut contents = read(others)?;
        let mut expected = before.clone();
        let copies = || contiguous_copies(others, &contents);
        if on_cpu(|| cpu(&mut expected, &copies()?)).is_some() {
            contents.insert(0, before);
            self.compare(dst, &expected, contents)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        device: &WebGpuStorage,
        expected: &CpuStorage,
        contents: Vec<CpuStorage>,
    ) -> Result<()> {
        let runtime = device.device().runtime();
        runtime.note_verified();
        let tolerance = match self.tolerance {
            Some(tolerance) => tolerance,
            None if ["matmul", "sdpa"].contains(&self.op)
                && runtime.gemm_reduced_precision_f32() =>
            {
                ROUNDED
            }
            None => tolerance(device.dtype()),
        };
        let Some(difference) = difference(expected, &device.to_cpu_storage()?, tolerance) else {
            return Ok(());
        };
        let known = known_defect(self.op).map_or_else(String::new, |defect| {
            format!(" Candle's CPU backend has a known defect here, so the device may be right: {defect}.")
        });
        let kept = self.keep(contents);
        crate::bail!("CANDLE_WEBGPU_VERIFY: {self}: {difference}.{known} {kept}")
    }

    /// Saves the operands, so that the op can be repeated. Returns a message with the path.
    fn keep(&self, contents: Vec<CpuStorage>) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = format!("webgpu-verify-{}-{n}.safetensors", std::process::id());
        let path = std::env::temp_dir().join(file);
        let flat = |((name, storage, _), content): (&Operand<'_>, CpuStorage)| {
            let (content, none) = (Storage::Cpu(content), BackpropOp::none());
            let flat = crate::tensor::from_storage(content, storage.count(), none, false);
            (*name, flat)
        };
        let tensors: HashMap<&str, Tensor> = self.operands.iter().zip(contents).map(flat).collect();
        match crate::safetensors::save(&tensors, &path) {
            Ok(()) => format!("Its operands are in {}", path.display()),
            Err(error) => format!("Its operands could not be saved: {error}"),
        }
    }
}

impl Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand =
            |(name, storage, l): &Operand<'_>| format!("{name}: {:?} {l:?}", storage.dtype());
        let argument = |(name, value): &(&str, &dyn Debug)| format!("{name}: {value:?}");
        let operands = self.operands.iter().map(operand);
        let all: Vec<_> = operands
            .chain(self.arguments.iter().map(argument))
            .collect();
        write!(f, "{}({})", self.op, all.join(", "))
    }
}

/// Reads back the whole storage of each operand.
fn read(operands: &[Operand<'_>]) -> Result<Vec<CpuStorage>> {
    let storages = operands.iter().map(|(_, storage, _)| storage);
    storages.map(|storage| storage.to_cpu_storage()).collect()
}

/// Candle's CPU backend is wrong for some layouts, so it only gets contiguous copies.
fn contiguous_copies(operands: &[Operand<'_>], contents: &[CpuStorage]) -> Result<Vec<OnCpu>> {
    let layouts = operands.iter().map(|(_, _, l)| l);
    let all = contents.iter().zip(layouts);
    all.map(|(content, l)| contiguous(content, l)).collect()
}

/// The result of `cpu` for f16 operands, computed in f32; of others as they are.
fn f16_in_f32(
    operands: Vec<OnCpu>,
    cpu: impl FnOnce(&[OnCpu]) -> Result<CpuStorage>,
) -> Result<CpuStorage> {
    if operands.iter().any(|(x, _)| x.dtype() != DType::F16) {
        return cpu(&operands);
    }
    let wide = operands.into_iter();
    let wide = wide.map(|(x, l)| Ok((x.to_dtype(&l, DType::F32)?, l)));
    let y = cpu(&wide.collect::<Result<Vec<_>>>()?)?;
    let count = y.as_slice::<f32>()?.len();
    y.to_dtype(&Layout::contiguous(count), DType::F16)
}

/// The CPU's result, or `None` if the CPU returns an error or panics (integer overflow, division by zero).
fn on_cpu<T>(work: impl FnOnce() -> Result<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?.ok()
}

/// The tolerance relative to an element. A tenth of it, relative to the largest element, is added, since sums are computed in
/// another order.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 2e-4,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        DType::F8E4M3 => 0.13,
        _ => 0.,
    }
}

/// Describes the first element that differs.
fn difference(cpu: &CpuStorage, device: &CpuStorage, tolerance: f64) -> Option<String> {
    macro_rules! each {
        ($($variant:ident => $to_f64:expr),*) => {
            match (cpu, device) {
                $((CpuStorage::$variant(a), CpuStorage::$variant(b)) => {
                    first(a, b, tolerance, $to_f64)
                })*
                // Dtypes without arithmetic.
                _ => None,
            }
        };
    }
    // i64 to f64 loses bits, but integers are compared exactly.
    each!(
        U8 => f64::from,
        U32 => f64::from,
        I16 => f64::from,
        I32 => f64::from,
        I64 => |v| v as f64,
        BF16 => half::bf16::to_f64,
        F16 => half::f16::to_f64,
        F32 => f64::from,
        F64 => std::convert::identity,
        F8E4M3 => |v| v.to_f64()
    )
}

fn first<T: Copy + PartialEq + Debug>(
    cpu: &[T],
    device: &[T],
    tolerance: f64,
    to_f64: impl Fn(T) -> f64,
) -> Option<String> {
    if cpu.len() != device.len() {
        let (here, there) = (device.len(), cpu.len());
        return Some(format!("{here} elements, on the CPU {there}"));
    }
    let sizes = cpu.iter().map(|v| to_f64(*v).abs());
    let largest = sizes.filter(|v| v.is_finite()).fold(0., f64::max);
    let same = |a: T, b: T| {
        let (x, y) = (to_f64(a), to_f64(b));
        let near = (x - y).abs() <= tolerance * (x.abs() + 0.1 * largest);
        a == b || x.is_nan() && y.is_nan() || tolerance > 0. && near
    };
    let differs = |i: &usize| !same(cpu[*i], device[*i]);
    let i = (0..cpu.len()).find(differs)?;
    let count = (0..cpu.len()).filter(differs).count();
    Some(format!(
        "element {i} is {:?}, on the CPU {:?}; {count} of {} differ",
        device[i],
        cpu[i],
        cpu.len()
    ))
}
