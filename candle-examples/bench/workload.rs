//! What is measured: rows of a table, each an op with its dtypes and its sizes at two scales.

use crate::ops;
use candle_core::{DType, Device, Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How large the tensors are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Milliseconds of work per op on two cores
    Small,
    /// What a language model on a GPU works with
    Full,
}

/// Up to three sizes, in the order that the table of the op states; a last 1 is not shown.
pub type Dims = [usize; 3];

/// A row of the table.
pub struct Workload {
    pub op: &'static str,
    pub dtypes: &'static [DType],
    pub full: Dims,
    pub small: Dims,
    pub make: Make,
}

/// How an op gets its inputs.
pub enum Make {
    /// One matrix.
    Unary(fn(&Tensor) -> Result<Tensor>),
    /// Two matrices of one shape.
    Binary(fn(&Tensor, &Tensor) -> Result<Tensor>),
    /// Whatever the function makes.
    Other(fn(&At) -> Result<Case>),
}

impl Workload {
    pub fn dims(&self, scale: Scale) -> Dims {
        match scale {
            Scale::Small => self.small,
            Scale::Full => self.full,
        }
    }

    /// Names the op with its sizes and a dtype, the same in every run.
    pub fn name(&self, scale: Scale, dtype: DType) -> String {
        let size = size(self.dims(scale));
        format!("{} {size} {}", self.op, dtype.as_str())
    }

    /// Makes the inputs.
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

/// Sizes in words: 512x2048.
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

/// Where and how large the inputs of a case are.
pub struct At<'a> {
    pub dims: Dims,
    pub dtype: DType,
    pub device: &'a Device,
}

impl At<'_> {
    /// Uniform in -1 to 1: zeros and repeats would spare a GPU power, and so raise its clocks.
    pub fn random(&self, shape: impl Into<candle_core::Shape>) -> Result<Tensor> {
        Tensor::rand(-1f32, 1., shape, self.device)?.to_dtype(self.dtype)
    }
}

type Op = Box<dyn Fn() -> Result<Tensor>>;

/// An op and its inputs.
pub struct Case {
    op: Op,
    /// Of the inputs.
    bytes: usize,
    work: Option<Work>,
}

impl Case {
    /// By default the work is to read each byte of `inputs` once and to write the result's.
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

    /// For an op that reads a part of its inputs.
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.work = Some(Work::new(bytes, Unit::Bytes));
        self
    }

    pub fn run(&self) -> Result<Tensor> {
        (self.op)()
    }

    /// The work of one run, whose result is `result`.
    pub fn work(&self, result: &Tensor) -> Work {
        let touched = Work::new(self.bytes + bytes(result), Unit::Bytes);
        self.work.unwrap_or(touched)
    }
}

/// What the elements of a tensor take.
pub fn bytes(x: &Tensor) -> usize {
    x.elem_count() * x.dtype().size_in_bytes()
}

/// What one run of an op has to do at least.
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

    /// The rate of doing it in that time, in the unit's words.
    pub fn rate(&self, seconds: f64) -> f64 {
        let scale = match self.unit {
            Unit::Bytes => 1e9,
            Unit::Flops => 1e12,
        };
        self.amount / seconds / scale
    }
}

/// What bounds an op, in the words for its rate.
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
