//! A specialization: a kernel with a fixed op, dtypes, accesses and constants, from which the linker builds one shader.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::quant::Quant;
use crate::dtype::{DType, DTypeInfo};
use crate::error::Result;
use crate::shader::{steps, ParamsLayout, Step, Text};

/// How a kernel reads or writes an operand. `wgsl/README.md` lists the functions that each access provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    Flat,
    Rows,
    Strided,
    Words,
    Quads,
    Put,
    PutWord,
    Set,
    /// Blocks of a quantized format; the operand's `DType` is ignored.
    Quant(Quant),
    Raw,
}

impl Access {
    /// As pipeline labels say it.
    fn name(self) -> String {
        match self {
            Access::Quant(quant) => quant.info().name.into(),
            _ => format!("{self:?}").to_lowercase(),
        }
    }
}

/// A storage buffer of a kernel. Bindings are numbered from 1 in order of declaration; binding 0 is the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    pub name: &'static str,
    /// Bound as `read_write`.
    pub write: bool,
    /// Bound as `read_write`, but only read; see [`read_bound_rw`].
    pub read_only: bool,
}

impl Binding {
    /// Whether the kernel writes to it.
    pub(crate) fn writes(&self) -> bool {
        self.write && !self.read_only
    }
}

pub const fn read(name: &'static str) -> Binding {
    Binding {
        write: false,
        ..write(name)
    }
}

pub const fn write(name: &'static str) -> Binding {
    Binding {
        name,
        write: true,
        read_only: false,
    }
}

/// A buffer that is only read, but bound as `read_write` to keep its loads in place: for read-only memory, NVIDIA's compiler (driver 580)
/// moves loads across barriers to where the values are used.
pub const fn read_bound_rw(name: &'static str) -> Binding {
    Binding {
        read_only: true,
        ..write(name)
    }
}

/// A kernel file of `wgsl/kernel/`, and the defaults of its specializations.
pub struct Kernel {
    /// The file's name, and the first part of the pipeline's label.
    pub name: &'static str,
    pub source: &'static str,
    /// Memory layout of the file's `Params`.
    pub params: ParamsLayout,
    /// The bindings that every specialization has; [`Specialization::bind`] appends more.
    pub bindings: &'static [Binding],
    /// Invocations of a workgroup, unless [`Specialization::workgroup`] overrides them.
    pub workgroup: u32,
    /// Bytes of workgroup memory of a specialization.
    pub shared: fn(&Specialization) -> u32,
    /// Features that the shader needs, unless [`Specialization::features`] overrides them.
    pub features: wgpu::Features,
    /// Fills the slots beyond those of the operands, and selects the files to link.
    pub slots: fn(&Specialization, &mut Text) -> Result<()>,
}

impl PartialEq for Kernel {
    /// Kernels are statics.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Kernel {}

/// A kernel with a fixed op, dtypes, accesses and constants: the key of the pipeline cache, and the input of the linker.
#[derive(Clone, PartialEq, Eq)]
pub struct Specialization {
    pub kernel: &'static Kernel,
    /// Distinguishes variants of the same kernel, such as `sub32`; empty for the default.
    pub variant: &'static str,
    /// A row of OPS, or another name that the kernel's `slots` accepts.
    pub op: &'static str,
    /// Bindings beyond the kernel's own.
    pub(crate) added: SmallVec<[Binding; 3]>,
    /// One per binding.
    pub operands: SmallVec<[(DType, Access); 7]>,
    /// Values of `override` constants other than WORKGROUP.
    pub overrides: SmallVec<[(&'static str, u32); 3]>,
    /// The ops of a fused expression.
    pub steps: Option<Arc<[Step]>>,
    /// Invocations of a workgroup; the value of `override WORKGROUP`.
    pub workgroup: u32,
    /// Features that the shader needs.
    pub features: wgpu::Features,
}

impl Hash for Specialization {
    fn hash<H: Hasher>(&self, h: &mut H) {
        // Every pipeline lookup hashes its key. Skip fields that rarely differ alone.
        std::ptr::hash(self.kernel, h);
        self.variant.hash(h);
        self.op.hash(h);
        self.operands.hash(h);
        self.overrides.hash(h);
        self.steps.hash(h);
    }
}

impl std::fmt::Debug for Specialization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Specialization {
    /// A specialization with the kernel's own bindings, whose dtypes and accesses are `operands`.
    pub fn new(kernel: &'static Kernel, op: &'static str, operands: &[(DType, Access)]) -> Self {
        Specialization {
            kernel,
            variant: "",
            op,
            added: SmallVec::new(),
            operands: SmallVec::from_slice(operands),
            overrides: SmallVec::new(),
            steps: None,
            workgroup: kernel.workgroup,
            features: kernel.features,
        }
    }

    /// Sets an `override` constant.
    pub fn with(mut self, name: &'static str, value: u32) -> Self {
        self.overrides.push((name, value));
        self
    }

    /// Appends a binding.
    pub fn bind(mut self, binding: Binding, dtype: DType, access: Access) -> Self {
        self.added.push(binding);
        self.operands.push((dtype, access));
        self
    }

    /// Drops the bindings beyond the kernel's own.
    pub fn without_added(mut self) -> Self {
        self.added.clear();
        self.operands.truncate(self.kernel.bindings.len());
        self
    }

    pub fn workgroup(mut self, invocations: u32) -> Self {
        self.workgroup = invocations;
        self
    }

    pub fn features(mut self, features: wgpu::Features) -> Self {
        self.features = features;
        self
    }

    pub fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    pub fn is_of(&self, kernel: &Kernel) -> bool {
        self.kernel == kernel
    }

    /// All bindings, in the order of `operands`.
    pub fn bindings(&self) -> impl DoubleEndedIterator<Item = &Binding> + Clone {
        self.kernel.bindings.iter().chain(&self.added)
    }

    /// The binding of operand `i`.
    pub fn binding(&self, i: usize) -> Option<&Binding> {
        let own = self.kernel.bindings;
        own.get(i).or_else(|| self.added.get(i - own.len()))
    }

    /// Whether the kernel writes operand `i`.
    pub fn writes(&self, i: usize) -> bool {
        self.binding(i).is_none_or(Binding::writes)
    }

    /// The index of the operand of this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.bindings().position(|binding| binding.name == name)
    }

    /// Whether there is a binding of this name.
    pub fn binds(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Value of an `override` constant.
    pub fn value(&self, name: &str) -> Option<u32> {
        let found = self.overrides.iter().find(|(of, _)| *of == name);
        found.map(|(_, value)| *value)
    }

    /// Whether the shader only works natively: browsers have no cooperative matrices.
    pub fn is_native(&self) -> bool {
        let native = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        self.features.contains(native)
    }

    /// Whether `name` is the kernel's name, or `kernel.variant`.
    pub fn is_named(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.kernel.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.') == Some(self.variant))
    }

    /// The pipeline's label, for example `unary.uexp.f32:flat.f32:put` or `gemv_k.sub32.1x2.f16:raw.f16:raw.f16:set.SPAN=32`. Added
    /// bindings include their names: `e=f16:words`.
    pub fn name(&self) -> String {
        let mut name = self.kernel.name.to_string();
        for part in [self.variant, self.op] {
            if !part.is_empty() {
                let _ = write!(name, ".{part}");
            }
        }
        if let Some(steps) = &self.steps {
            let _ = write!(name, ".{}", steps::name(steps));
        }
        let own = self.kernel.bindings.len();
        for (i, (dtype, access)) in self.operands.iter().enumerate() {
            name.push('.');
            if let Some(added) = i.checked_sub(own).and_then(|i| self.added.get(i)) {
                let _ = write!(name, "{}=", added.name);
            }
            let _ = match access {
                Access::Quant(_) => write!(name, "{}", access.name()),
                _ => write!(name, "{dtype}:{}", access.name()),
            };
        }
        for (key, value) in &self.overrides {
            let _ = write!(name, ".{key}={value}");
        }
        name
    }

    /// The dtype of operand `i`.
    pub fn dtype(&self, i: usize) -> DType {
        self.operands[i].0
    }

    /// The row of DTYPES of operand `i`.
    pub fn info(&self, i: usize) -> &'static DTypeInfo {
        self.dtype(i).info()
    }
}
