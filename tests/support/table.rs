//! A table of ops by columns: tried on the WebGPU device and on the CPU, and taken from the sources of the others.

use std::panic::{catch_unwind, AssertUnwindSafe};

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device, Tensor};

/// Tries an op on a device in the dtype of a column.
type Try<C> = Box<dyn Fn(&Device, C) -> candle_core::Result<Tensor>>;

pub struct Row<C: 'static> {
    pub op: String,
    pub run: Try<C>,
    /// The columns that upstream's CUDA and Metal backends have, by their sources.
    pub cuda: &'static [C],
    pub metal: &'static [C],
}

pub struct Table<C: 'static> {
    pub title: &'static str,
    pub columns: &'static [C],
    pub name: fn(C) -> String,
    /// The column whose CPU result all others should give, except for rounding.
    pub reference: C,
    pub rows: Vec<Row<C>>,
}

/// The outcome of trying an op.
#[derive(PartialEq)]
enum Found {
    Works,
    /// A result, but not the reference's.
    Differs,
    Missing,
}

/// Allows for the rounding of f8e4m3 and of integers, but not for unrelated results.
fn alike(expected: &[f64], got: &[f64]) -> bool {
    let near = |(e, g): (&f64, &f64)| (g - e).abs() <= 0.6 + 0.25 * e.abs();
    expected.len() == got.len() && expected.iter().zip(got).all(near)
}

fn values(t: &Tensor) -> candle_core::Result<Vec<f64>> {
    // Via f32: the CPU's cast from f8e4m3 to f64 never returns (0.11.1).
    let t = t.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
    t.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}

impl<C: Copy + PartialEq> Row<C> {
    /// The values, or why there are none. Some of the CPU's gaps are panics.
    fn attempt(&self, device: &Device, column: C) -> Result<Vec<f64>, String> {
        let run = || (self.run)(device, column).and_then(|y| values(&y));
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(_) => Err("it panics".to_string()),
        }
    }

    fn try_on(&self, device: &Device, column: C, reference: C) -> (Found, String) {
        let got = match self.attempt(device, column) {
            Ok(got) => got,
            Err(e) => return (Found::Missing, e),
        };
        match self.attempt(&Device::Cpu, reference) {
            Ok(expected) if !alike(&expected, &got) => (Found::Differs, String::new()),
            _ => (Found::Works, String::new()),
        }
    }

    fn cell(&self, webgpu: &Device, column: C, reference: C) -> Result<String> {
        let (here, error) = self.try_on(webgpu, column, reference);
        ensure!(
            here != Found::Missing || TYPED.iter().any(|part| error.contains(part)),
            "{}: an error that does not say what is missing: {error}",
            self.op
        );
        let (cpu, _) = self.try_on(&Device::Cpu, column, reference);
        let read = |columns: &[C]| match columns.contains(&column) {
            true => Found::Works,
            false => Found::Missing,
        };
        let letters = [
            ('W', here),
            ('C', cpu),
            ('N', read(self.cuda)),
            ('M', read(self.metal)),
        ];
        let letter = |(letter, found): (char, Found)| match found {
            Found::Works => letter,
            Found::Differs => letter.to_ascii_lowercase(),
            Found::Missing => '-',
        };
        Ok(letters.map(letter).iter().collect())
    }
}

/// Parts of the WebGPU device's errors about unsupported dtypes, and of Candle's own errors for all devices.
const TYPED: [&str; 6] = [
    "is not implemented",
    "has no WebGPU implementation",
    "no importance matrix for",
    "the experts are not quantized but",
    "unsupported dtype",
    "unexpected dtype",
];

impl<C: Copy + PartialEq> Table<C> {
    /// Markdown. Neighbouring rows with the same cells become one.
    pub fn markdown(&self, webgpu: &Device) -> Result<String> {
        let mut merged: Vec<(String, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let cells = self.columns.iter();
            let cells = cells
                .map(|&c| row.cell(webgpu, c, self.reference))
                .collect::<Result<Vec<_>>>()
                .with_context(|| self.title)?;
            match merged.last_mut() {
                Some((ops, same)) if *same == cells => *ops += &format!(", {}", row.op),
                _ => merged.push((row.op.clone(), cells)),
            }
        }
        let names: Vec<String> = self.columns.iter().map(|&c| (self.name)(c)).collect();
        let mut text = format!("## {}\n\n| | {} |\n", self.title, names.join(" | "));
        text += &format!("|---|{}\n", "---|".repeat(names.len()));
        for (ops, cells) in merged {
            text += &format!("| {ops} | `{}` |\n", cells.join("` | `"));
        }
        Ok(text)
    }
}
