//! The workloads: rows of a table, each an op with its dtypes and its sizes at two scales.

use crate::bench::ops;
use crate::device::is_software;
use candle_core::{DType, Device, Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How large the tensors are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Milliseconds per op on two cores
    Small,
    /// The sizes of a language model on a GPU
    Full,
}

impl Scale {
    /// The scale at which the device finishes within a minute or two.
    pub fn natural(device: &Device) -> Self {
        match device.is_cpu() || is_software(device) {
            true => Self::Small,
            false => Self::Full,
        }
    }
}

/// Up to three sizes, in the order that the op's table states; a final 1 is not shown.
pub type Dims = [usize; 3];

/// A row of the table.
pub struct Workload {
    pub op: &'static str,
    pub dtypes: &'static [DType],
    pub full: Dims,
    pub small: Dims,
    pub make: Make,
}

/// How to create the inputs of an op.
pub enum Make {
    /// One matrix.
    Unary(fn(&Tensor) -> Result<Tensor>),
    /// Two matrices of one shape.
    Binary(fn(&Tensor, &Tensor) -> Result<Tensor>),
    /// Any other inputs.
    Other(fn(&At) -> Result<Case>),
}

impl Workload {
    pub fn dims(&self, scale: Scale) -> Dims {
        match scale {
            Scale::Small => self.small,
            Scale::Full => self.full,
        }
    }

    /// The name of an op with sizes and dtype, stable across runs.
    pub fn name(&self, scale: Scale, dtype: DType) -> String {
        let size = size(self.dims(scale));
        format!("{} {size} {}", self.op, dtype.as_str())
    }

    /// Creates the inputs.
    pub fn case(&self, at: &At) -> Result<Case> {
        let [rows, cols, _] = at.dims;
        match self.make {
            Make::Unary(op) => {
                let x = at.random((rows, cols))?;
                Ok(Case::new(&[&x.clone()], move || op(&x)))
            }
            Make::Binary(op) => {
                let (a, b) = (at.random((rows, cols))?, at.random((rows, cols))?);
                Ok(Case::new(&[&a.clone(), &b.clone()], move || op(&a, &b)))
            }
            Make::Other(make) => make(at),
        }
    }
}

/// Sizes as text, for example 512x2048.
pub fn size(dims: Dims) -> String {
    let [a, b, c] = dims;
    match c {
        1 => format!("{a}x{b}"),
        _ => format!("{a}x{b}x{c}"),
    }
}

/// Every workload, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    ops::TABLES.iter().copied().flatten()
}

/// Device, dtype and sizes of a case's inputs.
pub struct At<'a> {
    pub dims: Dims,
    pub dtype: DType,
    pub device: &'a Device,
}

impl At<'_> {
    /// Uniform in -1 to 1. Zeros or repeated values would reduce a GPU's power and so raise its clocks.
    pub fn random(&self, shape: impl Into<candle_core::Shape>) -> Result<Tensor> {
        Tensor::rand(-1f32, 1., shape, self.device)?.to_dtype(self.dtype)
    }
}

type Op = Box<dyn Fn() -> Result<Tensor>>;

/// An op and its inputs.
pub struct Case {
    op: Op,
    /// Bytes of the inputs.
    bytes: usize,
    work: Option<Work>,
}

impl Case {
    /// By default, the work is reading each byte of `inputs` once and writing the result.
    pub fn new(inputs: &[&Tensor], op: impl Fn() -> Result<Tensor> + 'static) -> Self {
        Self {
            op: Box::new(op),
            bytes: inputs.iter().copied().map(bytes).sum(),
            work: None,
        }
    }

    pub fn flops(mut self, flops: usize) -> Self {
        self.work = Some(Work::new(flops, Unit::Flops));
        self
    }

    /// Overrides the bytes read, for an op that reads only part of its inputs.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.work = Some(Work::new(bytes, Unit::Bytes));
        self
    }

    pub fn run(&self) -> Result<Tensor> {
        (self.op)()
    }

    /// The work of one run that returned `result`.
    pub fn work(&self, result: &Tensor) -> Work {
        let touched = Work::new(self.bytes + bytes(result), Unit::Bytes);
        self.work.unwrap_or(touched)
    }
}

/// Bytes of a tensor's elements.
pub fn bytes(x: &Tensor) -> usize {
    x.elem_count() * x.dtype().size_in_bytes()
}

/// The minimum work of one run of an op.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    pub amount: f64,
    pub unit: Unit,
}

impl Work {
    pub fn new(amount: usize, unit: Unit) -> Self {
        Self {
            amount: amount as f64,
            unit,
        }
    }

    /// The rate in GB/s or TFLOP/s for a run of `seconds`.
    pub fn rate(&self, seconds: f64) -> f64 {
        let scale = match self.unit {
            Unit::Bytes => 1e9,
            Unit::Flops => 1e12,
        };
        self.amount / seconds / scale
    }
}

/// What bounds an op, which determines the unit of its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "GB/s")]
    Bytes,
    #[serde(rename = "TFLOP/s")]
    Flops,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Bytes => "GB/s",
            Self::Flops => "TFLOP/s",
        })
    }
}
