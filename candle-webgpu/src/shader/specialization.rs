//! What a shader is linked from: a kernel with all its slots decided.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::quant::Quant;
use crate::dtype::{DType, DTypeInfo};
use crate::error::Result;
use crate::shader::{steps, ParamsLayout, Step, Text};

/// How a kernel reaches an operand; the functions each kind gets are listed in `wgsl/README.md`.
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
    /// Blocks of a quantized dtype; the DType of the operand does not count.
    Quant(Quant),
    Raw,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Quant(quant) => quant.info().name,
            Access::Flat => "flat",
            Access::Rows => "rows",
            Access::Strided => "strided",
            Access::Words => "words",
            Access::Quads => "quads",
            Access::Put => "put",
            Access::PutWord => "putword",
            Access::Set => "set",
            Access::Raw => "raw",
        }
    }
}

/// A storage buffer of a kernel, in binding order from 1.
#[derive(Debug)]
pub struct Binding {
    pub name: &'static str,
    /// Bound for writing.
    pub write: bool,
    /// Only read, though bound for writing.
    pub held: bool,
}

pub const fn read(name: &'static str) -> Binding {
    Binding {
        name,
        write: false,
        held: false,
    }
}

pub const fn write(name: &'static str) -> Binding {
    Binding {
        name,
        write: true,
        held: false,
    }
}

/// Memory that is only read, bound as if it were written so that compilers leave its loads where they stand: NVIDIA's (driver
/// 580) moves loads of read-only memory past barriers to where their values are used.
pub const fn read_bound_rw(name: &'static str) -> Binding {
    Binding {
        name,
        write: true,
        held: true,
    }
}

/// A row that stands for one file of `wgsl/kernel/`.
pub struct Kernel {
    /// The file's name, the first part of the pipeline's label.
    pub name: &'static str,
    pub source: &'static str,
    /// How its `Params` lie in memory.
    pub params: ParamsLayout,
    pub bindings: &'static [Binding],
    /// Value of `override WORKGROUP` and the number of invocations in a workgroup.
    pub workgroup: u32,
    /// Bytes of workgroup memory that a specialisation takes.
    pub shared: fn(&Specialization) -> u32,
    /// Features that the text cannot do without.
    pub features: wgpu::Features,
    /// Writes the slots beyond those of the operands, and names the files to link.
    pub slots: fn(&Specialization, &mut Text) -> Result<()>,
}

impl Kernel {
    /// Whether only naga can read it: browsers have no cooperative matrices.
    pub fn is_native(&self) -> bool {
        let native = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        self.features.contains(native)
    }
}

/// A kernel with all its slots decided: the key of the pipeline cache and the recipe of its text.
#[derive(Clone)]
pub struct Specialization {
    pub kernel: &'static Kernel,
    /// A row of OPS, or what the kernel's `slots` understands.
    pub op: &'static str,
    pub operands: SmallVec<[(DType, Access); 7]>,
    /// Values of overrides other than WORKGROUP.
    pub overrides: SmallVec<[(&'static str, u32); 2]>,
    /// The ops of a fused elementwise kernel.
    pub steps: Option<Arc<[Step]>>,
}

impl PartialEq for Specialization {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.kernel.name, other.kernel.name)
            && self.op == other.op
            && self.operands == other.operands
            && self.overrides == other.overrides
            && self.steps == other.steps
    }
}
impl Eq for Specialization {}
impl Hash for Specialization {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.kernel.name.as_ptr().hash(h);
        self.op.as_ptr().hash(h);
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
    pub fn new(kernel: &'static Kernel, op: &'static str, operands: &[(DType, Access)]) -> Self {
        Specialization {
            kernel,
            op,
            operands: SmallVec::from_slice(operands),
            overrides: SmallVec::new(),
            steps: None,
        }
    }

    pub fn with(mut self, name: &'static str, value: u32) -> Self {
        self.overrides.push((name, value));
        self
    }

    /// For example `map.uexp.f32:flat.f32:put`.
    pub fn name(&self) -> String {
        let mut name = self.kernel.name.to_string();
        if !self.op.is_empty() {
            let _ = write!(name, ".{}", self.op);
        }
        if let Some(steps) = &self.steps {
            let _ = write!(name, ".{}", steps::name(steps));
        }
        for (dtype, access) in &self.operands {
            let _ = match access {
                Access::Quant(_) => write!(name, ".{}", access.name()),
                _ => write!(name, ".{dtype}:{}", access.name()),
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
    pub fn info(&self, i: usize) -> Result<&'static DTypeInfo> {
        self.dtype(i).info(if self.op.is_empty() {
            self.kernel.name
        } else {
            self.op
        })
    }
}
