//! `CANDLE_WEBGPU_VERIFY=1`: each op of [`BackendStorage`] is done on the CPU, too, and a difference is an error of that op.
//!
//! `Storage` calls methods of the storage that it holds, and of two of the same name a type's own goes before that of a trait: the
//! methods made here are in front of those of `storage.rs`, which they call. What is no method of the trait is in `twin.rs`.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::WebGpuStorage;
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BackpropOp, BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Layout, Result, Storage, Tensor};

/// What was asked for, in words, and what it was asked of.
pub(super) struct Call {
    op: &'static str,
    arguments: String,
    pub operands: Vec<(&'static str, CpuStorage)>,
}

/// What the CPU gives. It cannot verify what it refuses, or panics at (integers that wrap, and quotients by 0).
pub(super) fn on_cpu<T>(work: impl FnOnce() -> Result<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?.ok()
}

/// One row for each method: its arguments in the trait's order, then those of them that are storages.
macro_rules! door {
    ($(fn $name:ident $(<$op:ident: $of:ident>)? ($($arg:ident: $ty:ty),*) of ($($other:ident),*);)*) => {
        impl WebGpuStorage {$(
            #[allow(clippy::too_many_arguments, reason = "as in the trait")]
            pub fn $name $(<$op: $of>)? (&self, $($arg: $ty),*) -> Result<Self> {
                let here = BackendStorage::$name $(::<$op>)? (self, $($arg),*)?;
                if !self.device().runtime().verifies() {
                    return Ok(here);
                }
                let mut call = Call::new(&[stringify!($name) $(, $op::KERNEL)?]);
                let others: &[&str] = &[$(stringify!($other)),*];
                $(call.argument(stringify!($arg), others, &$arg);)*
                let this = self.to_cpu_storage()?;
                $(let $other = &$other.to_cpu_storage()?;)*
                if let Some(there) = on_cpu(|| BackendStorage::$name $(::<$op>)? (&this, $($arg),*)) {
                    call.operands.push(("self", this));
                    $(call.operands.push((stringify!($other), $other.clone()));)*
                    let near = tolerance(here.dtype());
                    call.compare(there, &here, near)?;
                }
                Ok(here)
            }
        )*}
    };
}

door! {
    fn affine(l: &Layout, mul: f64, add: f64) of ();
    fn powf(l: &Layout, exponent: f64) of ();
    fn elu(l: &Layout, alpha: f64) of ();
    fn reduce_op(op: ReduceOp, l: &Layout, dims: &[usize]) of ();
    fn cmp(op: CmpOp, rhs: &Self, l: &Layout, rhs_l: &Layout) of (rhs);
    fn to_dtype(l: &Layout, dtype: DType) of ();
    fn unary_impl<B: UnaryOpT>(l: &Layout) of ();
    fn binary_impl<B: BinaryOpT>(rhs: &Self, l: &Layout, rhs_l: &Layout) of (rhs);
    fn where_cond(l: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) of (t, f);
    fn conv1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv1D) of (k);
    fn conv_transpose1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConvTranspose1D) of (k);
    fn conv2d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv2D) of (k);
    fn conv_transpose2d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConvTranspose2D) of (k);
    fn avg_pool2d(l: &Layout, k: (usize, usize), stride: (usize, usize)) of ();
    fn max_pool2d(l: &Layout, k: (usize, usize), stride: (usize, usize)) of ();
    fn upsample_nearest1d(l: &Layout, size: usize) of ();
    fn upsample_nearest2d(l: &Layout, h: usize, w: usize) of ();
    fn upsample_bilinear2d(l: &Layout, h: usize, w: usize, aligned: bool, scale_h: Option<f64>, scale_w: Option<f64>) of ();
    fn gather(l: &Layout, ids: &Self, ids_l: &Layout, dim: usize) of (ids);
    fn index_select(ids: &Self, l: &Layout, ids_l: &Layout, dim: usize) of (ids);
    fn index_add(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize) of (ids, src);
    fn matmul(rhs: &Self, bmnk: (usize, usize, usize, usize), l: &Layout, rhs_l: &Layout) of (rhs);
}

/// The same for what writes into `self`.
macro_rules! door_in_place {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) of ($($other:ident),*);)*) => {
        impl WebGpuStorage {$(
            #[allow(clippy::too_many_arguments, reason = "as in the trait")]
            pub fn $name(&mut self, $($arg: $ty),*) -> Result<()> {
                if !self.device().runtime().verifies() {
                    return BackendStorage::$name(self, $($arg),*);
                }
                let this = self.to_cpu_storage()?;
                BackendStorage::$name(self, $($arg),*)?;
                let mut call = Call::new(&[stringify!($name)]);
                let others: &[&str] = &[$(stringify!($other)),*];
                $(call.argument(stringify!($arg), others, &$arg);)*
                $(let $other = &$other.to_cpu_storage()?;)*
                let mut there = this.clone();
                if on_cpu(|| BackendStorage::$name(&mut there, $($arg),*)).is_some() {
                    call.operands.push(("self", this));
                    $(call.operands.push((stringify!($other), $other.clone()));)*
                    call.compare(there, self, tolerance(self.dtype()))?;
                }
                Ok(())
            }
        )*}
    };
}

door_in_place! {
    fn scatter_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize) of (ids, src);
    fn scatter_add_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize) of (ids, src);
    fn const_set(v: Scalar, l: &Layout) of ();
}

/// The same for what copies from `self` to another.
macro_rules! door_into {
    ($(fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        impl WebGpuStorage {$(
            #[allow(clippy::too_many_arguments, reason = "as in the trait")]
            pub fn $name(&self, dst: &mut Self, $($arg: $ty),*) -> Result<()> {
                if !self.device().runtime().verifies() {
                    return BackendStorage::$name(self, dst, $($arg),*);
                }
                let (this, before) = (self.to_cpu_storage()?, dst.to_cpu_storage()?);
                BackendStorage::$name(self, dst, $($arg),*)?;
                let mut call = Call::new(&[stringify!($name)]);
                $(call.argument(stringify!($arg), &[], &$arg);)*
                let mut there = before.clone();
                if on_cpu(|| BackendStorage::$name(&this, &mut there, $($arg),*)).is_some() {
                    call.operands.extend([("self", this), ("dst", before)]);
                    call.compare(there, dst, tolerance(dst.dtype()))?;
                }
                Ok(())
            }
        )*}
    };
}

door_into! {
    fn copy_strided_src(dst_offset: usize, l: &Layout);
    fn copy2d(d1: usize, d2: usize, src_stride: usize, dst_stride: usize, src_offset: usize, dst_offset: usize);
}

/// What is printed of an argument.
pub(super) trait Words {
    fn words(&self) -> String;
}

impl<T: std::fmt::Debug> Words for T {
    fn words(&self) -> String {
        format!("{self:?}")
    }
}

impl Words for CmpOp {
    fn words(&self) -> String {
        let name = match self {
            CmpOp::Eq => "eq",
            CmpOp::Ne => "ne",
            CmpOp::Le => "le",
            CmpOp::Ge => "ge",
            CmpOp::Lt => "lt",
            CmpOp::Gt => "gt",
        };
        name.into()
    }
}

impl Call {
    /// The last name is the most particular.
    pub fn new(names: &[&'static str]) -> Self {
        Self {
            op: names.last().copied().unwrap_or_default(),
            arguments: String::new(),
            operands: Vec::new(),
        }
    }

    /// Notes an argument, unless it is one of the `storages`.
    pub fn argument(&mut self, name: &str, storages: &[&str], value: &impl Words) {
        if storages.contains(&name) {
            return;
        }
        let comma = if self.arguments.is_empty() { "" } else { ", " };
        self.arguments += &format!("{comma}{name}: {}", value.words());
    }

    pub fn compare(self, cpu: CpuStorage, here: &WebGpuStorage, tolerance: f64) -> Result<()> {
        here.device().runtime().note_verified();
        let here = here.to_cpu_storage()?;
        let Some(difference) = difference(&cpu, &here, tolerance) else {
            return Ok(());
        };
        let dtypes: Vec<String> = self
            .operands
            .iter()
            .map(|(name, s)| format!("{name} {:?}", s.dtype()))
            .collect();
        let (dtypes, kept) = (dtypes.join(", "), self.keep());
        let (op, arguments) = (self.op, self.arguments);
        crate::bail!("CANDLE_WEBGPU_VERIFY: {op}({arguments}) of {dtypes}: {difference}. {kept}")
    }

    /// Keeps what the op was given, so that it can be tried again.
    fn keep(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("webgpu-verify-{}-{n}.safetensors", std::process::id());
        let path = std::env::temp_dir().join(name);
        let flat = |storage: &CpuStorage| {
            let count = match storage {
                CpuStorage::U8(v) => v.len(),
                CpuStorage::U32(v) => v.len(),
                CpuStorage::I16(v) => v.len(),
                CpuStorage::I32(v) => v.len(),
                CpuStorage::I64(v) => v.len(),
                CpuStorage::BF16(v) => v.len(),
                CpuStorage::F16(v) => v.len(),
                CpuStorage::F32(v) => v.len(),
                CpuStorage::F64(v) => v.len(),
                CpuStorage::F8E4M3(v) => v.len(),
                CpuStorage::F6E2M3(v)
                | CpuStorage::F6E3M2(v)
                | CpuStorage::F4(v)
                | CpuStorage::F8E8M0(v) => v.len(),
            };
            let storage = Storage::Cpu(storage.clone());
            crate::tensor::from_storage(storage, count, BackpropOp::none(), false)
        };
        let tensors: HashMap<&str, Tensor> =
            self.operands.iter().map(|(n, s)| (*n, flat(s))).collect();
        match crate::safetensors::save(&tensors, &path) {
            Ok(()) => format!("Its operands are in {}", path.display()),
            Err(error) => format!("Its operands could not be kept: {error}"),
        }
    }
}

/// Relative to the element, and a tenth of it relative to the greatest: sums have another order.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 2e-4,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        DType::F8E4M3 => 0.13,
        _ => 0.,
    }
}

/// The first element that differs, in words.
fn difference(cpu: &CpuStorage, here: &CpuStorage, tolerance: f64) -> Option<String> {
    macro_rules! each {
        ($($variant:ident => $convert:expr),*) => {
            match (cpu, here) {
                $((CpuStorage::$variant(a), CpuStorage::$variant(b)) => {
                    first(a, b, tolerance, $convert)
                })*
                // Bytes without arithmetic.
                _ => None,
            }
        };
    }
    // Whole numbers are the same or are not: what they are converted to does not count.
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

fn first<T: Copy + PartialEq + std::fmt::Debug>(
    cpu: &[T],
    here: &[T],
    tolerance: f64,
    convert: impl Fn(T) -> f64,
) -> Option<String> {
    if cpu.len() != here.len() {
        return Some(format!("{} elements, on the CPU {}", here.len(), cpu.len()));
    }
    let sizes = cpu.iter().map(|v| convert(*v).abs());
    let greatest = sizes.filter(|v| v.is_finite()).fold(0., f64::max);
    let same = |a: T, b: T| {
        let (x, y) = (convert(a), convert(b));
        let near = (x - y).abs() <= tolerance * (x.abs() + 0.1 * greatest);
        a == b || x.is_nan() && y.is_nan() || tolerance > 0. && near
    };
    let differ = |i: &usize| !same(cpu[*i], here[*i]);
    let i = (0..cpu.len()).find(differ)?;
    let count = (0..cpu.len()).filter(differ).count();
    Some(format!(
        "element {i} is {:?}, on the CPU {:?}; {count} of {} differ",
        here[i],
        cpu[i],
        cpu.len()
    ))
}
