//! The GPU: its limits and features, its memory, and the fault record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::memory::view::View;
use crate::recorder::op::{Grid, Op};
use crate::shader::{Kernel, Specialization};
use crate::util::{is_wide, lock};

/// [`Gpu::workgroups`] of an NVIDIA H200, and of adapters that were not tuned.
pub(crate) const WORKGROUPS: u64 = 256;

/// Limits, features, memory and fault record of a GPU. Kernel selection depends on nothing else.
pub struct Gpu {
    /// The adapter's name, for errors.
    pub(crate) name: String,
    pub(crate) limits: wgpu::Limits,
    pub(crate) features: wgpu::Features,
    /// Smallest and largest subgroup size; `None` if subgroup operations are not available.
    pub(crate) subgroup: Option<(u32, u32)>,
    pub(crate) dot4: bool,
    /// Whether this is a software adapter. Software adapters run the threads of a workgroup one after the other, so a barrier costs more
    /// than the work between two barriers.
    pub(crate) software: bool,
    /// How many workgroups fill the GPU, of which no adapter reports how many it runs at once.
    pub(crate) workgroups: u64,
    pub(crate) reduced_f32: AtomicBool,
    /// Kernels and kernel variants named in `CANDLE_WEBGPU_DENY`.
    pub(crate) denied: Vec<String>,
    /// The cooperative matrix configuration that passed its self-test: an index into `gemm_coop::TILES`.
    pub(crate) cooperative: OnceLock<usize>,
    pub(crate) pool: Arc<Pool>,
    /// The fault record, to which kernels write out-of-range indices. Bind it as a `Raw` operand.
    pub(crate) fault: Value,
    /// Ops that may report a fault. The fault record contains an index into this list.
    pub(crate) fault_ops: Mutex<Vec<&'static str>>,
}

impl Gpu {
    pub fn limits(&self) -> &wgpu::Limits {
        &self.limits
    }

    /// The optional features that the device was created with.
    pub fn features(&self) -> wgpu::Features {
        self.features
    }

    /// Whether `dot4I8Packed` is fast on this adapter and not disabled.
    pub fn dot4(&self) -> bool {
        self.dot4
    }

    /// Whether matmuls and attention of f32 may round operands, as `set_gemm_reduced_precision_f32` sets.
    pub fn gemm_reduced_precision_f32(&self) -> bool {
        self.reduced_f32.load(Ordering::Relaxed)
    }

    /// Whether every subgroup is [wide](is_wide). A SIMD then has few registers for each thread, and large tiles leave it only one or two
    /// subgroups to hide latency with (docs/compilers.md).
    pub(crate) fn wide_subgroups(&self) -> bool {
        is_wide(self.subgroup)
    }

    /// A number of workgroups or tiles that was measured on a GPU that [`WORKGROUPS`] fill, for this one.
    pub(crate) fn scaled(&self, measured: u64) -> u64 {
        measured * self.workgroups / WORKGROUPS
    }

    /// Maximum bytes of one binding. Ops on larger tensors are split.
    pub fn binding_limit(&self) -> u64 {
        self.pool.binding
    }

    /// Whether `CANDLE_WEBGPU_DENY` forbids all variants of a kernel.
    pub(crate) fn denies(&self, kernel: &Kernel) -> bool {
        self.denied.iter().any(|name| name == kernel.name)
    }

    /// Whether `CANDLE_WEBGPU_DENY` forbids a kernel or this variant of it.
    pub(crate) fn denies_variant(&self, spec: &Specialization) -> bool {
        self.denied.iter().any(|name| spec.is_named(name))
    }

    /// Whether the workgroup memory and the bindings of a specialization fit.
    pub(crate) fn has_room(&self, spec: &Specialization) -> bool {
        let bindings = self.limits.max_storage_buffers_per_shader_stage as usize;
        (spec.kernel.shared)(spec) <= self.limits.max_compute_workgroup_storage_size
            && spec.operands.len() <= bindings
    }

    /// Whether a view fits in one binding, wherever it starts.
    pub(crate) fn fits(&self, v: View<'_>) -> bool {
        self.pool.fits(v)
    }

    /// The range to bind for a view, and the view relative to it.
    pub(crate) fn binding_range<'a>(
        &self,
        op: &'static str,
        v: View<'a>,
    ) -> Result<(BindingRange<'a>, View<'a>)> {
        self.pool.binding_range(op, v)
    }

    /// A fresh value of `count` elements, whose contents are undefined until an op writes them. [`Error::TooLarge`] if it exceeds the
    /// largest buffer.
    pub fn output(&self, op: &'static str, count: usize, dtype: DType) -> Result<Value> {
        let bytes = (count as u64).saturating_mul(dtype.size() as u64);
        self.pool.check(op, bytes)?;
        Ok(Value::logical(&self.pool, bytes))
    }

    /// The code of `op` in the fault record.
    pub fn note_fault(&self, op: &'static str) -> u32 {
        let mut ops = lock(&self.fault_ops);
        if let Some(i) = ops.iter().position(|o| *o == op) {
            return i as u32;
        }
        ops.push(op);
        ops.len() as u32 - 1
    }

    /// The workgroups of a grid along x, y and z, each within the adapter's limit.
    pub(crate) fn split(&self, spec: &Specialization, grid: Grid) -> Result<[u32; 3]> {
        let most = u64::from(self.limits.max_compute_workgroups_per_dimension);
        let (needed, limit) = match grid {
            Grid::Xyz(xyz) => (u64::from(xyz.into_iter().fold(0, u32::max)), most),
            Grid::Linear(n) => (n, most * most),
        };
        if needed > limit {
            return Err(self.over_limit(spec, "workgroups", needed, limit));
        }
        Ok(match grid {
            Grid::Xyz(xyz) => xyz,
            Grid::Linear(0) => [0, 1, 1],
            Grid::Linear(n) => {
                let y = n.div_ceil(most);
                [n.div_ceil(y) as u32, y as u32, 1]
            }
        })
    }

    /// An op on a grid, or the error of [`split`](Self::split).
    pub(crate) fn op(
        &self,
        spec: Specialization,
        operands: impl IntoIterator<Item = (Value, u64)>,
        params: &impl bytemuck::NoUninit,
        grid: Grid,
    ) -> Result<Box<Op>> {
        let grid = self.split(&spec, grid)?;
        Ok(Op::new(spec, operands.into_iter().collect(), params, grid))
    }

    pub(crate) fn over_limit(
        &self,
        spec: &Specialization,
        what: &'static str,
        needed: u64,
        limit: u64,
    ) -> Error {
        Error::OverLimit {
            kernel: spec.name(),
            what,
            needed,
            limit,
            adapter: self.name.clone(),
        }
    }
}
