//! Operands in GGUF blocks: dequantization, embedding lookup, matmul and mixture of experts. Kernels dequantize elements where they
//! use them. Matmuls accumulate in f32; gemv_dot first rounds activations to integers, and gemm_coop both operands to f16.

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::problem::{Problem, OP};
use crate::kernel::matmul::store::FLOATS;
use crate::kernel::{threads, RAW};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::pool::GRAIN;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization};

pub static DEQUANTIZE: Kernel = kernel!("matmul", "dequantize", Params::LAYOUT; read x, write y);

pub static DEQUANTIZE_ROWS: Kernel = kernel!("matmul", "dequantize_rows", RowsParams::LAYOUT; read x, read ids, write y, write fault);

params! {
    struct Params {
        /// Of y.
        units: u32,
    }
}

params! {
    struct RowsParams {
        units: u32,
        row: u32,
        ids_offset: u32,
        ids_step: u32,
        size: u32,
        op: u32,
        first: u32,
        run: u32,
    }
}

/// Elements that are dequantized at a time.
const UNIT: usize = 32;

fn dequantize_spec(quant: Quant, to: DType) -> Specialization {
    let x = (DType::U32, Access::Quant(quant));
    Specialization::new(&DEQUANTIZE, "", &[x, (to, Access::Put)])
}

fn rows_spec(quant: Quant, to: DType) -> Specialization {
    let x = (DType::U32, Access::Quant(quant));
    Specialization::new(&DEQUANTIZE_ROWS, "", &[x, RAW, (to, Access::Put), RAW])
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = Vec::new();
    for row in QUANTS {
        for to in FLOATS {
            all.push(dequantize_spec(row.quant, to));
            all.push(rows_spec(row.quant, to));
        }
    }
    all
}

/// A quantized matrix, or a stack of them: contiguous, in blocks along the last dim.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    pub value: &'a Value,
    pub quant: Quant,
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

impl Blocks<'_> {
    /// The transpose of a matrix (n, k), shared by a batch.
    fn transposed(&self, dtype: DType, size: [usize; 2], batch: &[usize]) -> Part<'_> {
        let one = Part::all(self.value, dtype, &size).transpose();
        batch.iter().rev().fold(one, |b, d| b.repeat(0, *d))
    }

    /// The binding range of `count` elements from element `from`, the first of a group, on.
    fn range(&self, from: usize, count: usize) -> BindingRange<'_> {
        let row = self.quant.info();
        let group = row.group * row.block_len;
        let start = from / group * row.group * row.bytes;
        BindingRange {
            value: self.value,
            start: start as u64,
            bytes: (count.div_ceil(group) * row.group * row.bytes) as u64,
        }
    }

    /// Splits `rows` rows of `row` elements into `(first, size)` runs that fit one binding each, as do `out` bytes per row of a run.
    /// Every run starts at a valid binding offset.
    fn runs(
        &self,
        device: &Recorder,
        rows: usize,
        row: usize,
        out: usize,
    ) -> impl ExactSizeIterator<Item = (usize, usize)> {
        let format = self.quant.info();
        let limit = device.binding_limit() as usize;
        // The fewest elements that are whole groups and a multiple of the alignment of binding ranges.
        let group = format.group * format.bytes;
        let aligned = GRAIN as usize / gcd(GRAIN as usize, group) * format.group * format.block_len;
        let step = aligned / gcd(aligned, row);
        let bytes = (row * format.bytes)
            .div_ceil(format.block_len)
            .max(out)
            .max(1);
        let most = if rows * bytes <= limit {
            rows
        } else {
            (limit / bytes / step * step).max(step)
        };
        (0..rows)
            .step_by(most.max(1))
            .map(move |first| (first, most.min(rows - first)))
    }

    /// Fails if the value has fewer blocks than `count` elements take, or if rows are not whole blocks.
    fn check(&self, op: &'static str, count: usize, row: usize) -> Result<()> {
        let format = self.quant.info();
        let blocks = count / format.block_len;
        if row.is_multiple_of(format.block_len)
            && self.value.bytes() >= format.device_bytes(blocks) as u64
        {
            return Ok(());
        }
        let message = format!(
            "{count} elements in rows of {row} do not fit {} bytes of {}",
            self.value.bytes(),
            format.name
        );
        Err(Error::Invalid { op, message })
    }
}

impl Recorder {
    /// Dequantizes the first `count` elements to f32, f16 or bf16.
    pub fn dequantize(&self, x: Blocks<'_>, count: usize, to: DType) -> Result<Value> {
        const OP: &str = "dequantize";
        to.one_of(&FLOATS, OP)?;
        x.check(OP, count, count)?;
        let y = self.output(OP, count, to)?;
        for (from, size) in x.runs(self, count, 1, to.size()) {
            let units = to_u32(OP, size / UNIT)?;
            let part = BindingRange {
                value: &y,
                start: (from * to.size()) as u64,
                bytes: (size * to.size()) as u64,
            };
            let spec = dequantize_spec(x.quant, to);
            let operands = [x.range(from, size), part];
            self.record(spec, &operands, &Params { units }, threads(size / UNIT))?;
        }
        Ok(y)
    }

    /// `y[i, :] = x[ids[i], :]` for a matrix x of `rows` rows of `row` elements and a vector of u32 ids, dequantized to f32, f16 or
    /// bf16. An id out of range is an [`Error::IndexOutOfRange`] at the next readback or synchronize.
    pub fn dequantize_rows(
        &self,
        x: Blocks<'_>,
        (rows, row): (usize, usize),
        ids: View<'_>,
        to: DType,
    ) -> Result<Value> {
        const OP: &str = "embedding";
        to.one_of(&FLOATS, OP)?;
        x.check(OP, rows * row, row)?;
        if ids.dtype != DType::U32 || ids.dims.len() != 1 {
            let message = format!("ids {:?} {} are not a vector of u32", ids.dims, ids.dtype);
            return Err(Error::Invalid { op: OP, message });
        }
        let count = ids.dims[0].saturating_mul(row);
        let y = self.output(OP, count, to)?;
        if count == 0 {
            return Ok(y);
        }
        if rows == 0 {
            let message = "ids of a matrix without rows".into();
            return Err(Error::Invalid { op: OP, message });
        }
        let (ids_range, ids) = self.binding_range(OP, ids)?;
        let op = self.note_fault(OP);
        // Each run of rows of x fills the rows of y whose ids are in it.
        for (first, run) in x.runs(self, rows, row, 0) {
            let params = RowsParams {
                units: to_u32(OP, count / UNIT)?,
                row: to_u32(OP, row / UNIT)?,
                ids_offset: to_u32(OP, ids.offset)?,
                ids_step: to_u32(OP, ids.step(0))?,
                size: to_u32(OP, rows)?,
                op,
                first: to_u32(OP, first)?,
                run: to_u32(OP, run)?,
            };
            let operands = [
                x.range(first * row, run * row),
                ids_range,
                (&y).into(),
                (&self.fault).into(),
            ];
            let spec = rows_spec(x.quant, to);
            self.record(spec, &operands, &params, threads(count / UNIT))?;
        }
        Ok(y)
    }

    /// `y[.., m, n] = sum over k of a[.., m, k] w[n, k]`, contiguous, in the dtype of `a` (f32, f16 or bf16), accumulated in f32.
    /// `a` has shape (.., m, k), `w` shape (n, k).
    pub fn matmul_blocks(
        &self,
        a: View<'_>,
        w: Blocks<'_>,
        (n, k): (usize, usize),
    ) -> Result<Value> {
        a.dtype.one_of(&FLOATS, OP)?;
        w.check(OP, n * k, k)?;
        if a.dims.len() < 2 || !a.dims.ends_with(&[k]) {
            let message = format!("{:?} times the transpose of ({n}, {k})", a.dims);
            return Err(Error::Invalid { op: OP, message });
        }
        let outer = a.dims.len() - 2;
        let (batch, m) = (a.dims[..outer].iter().product::<usize>(), a.dims[outer]);
        if batch * m * n == 0 || k == 0 {
            return self.fill(batch * m * n, a.dtype, 0);
        }
        if !self.fits(a) {
            return self.rows_in_halves(a, w, (n, k));
        }
        let (a_range, a) = self.binding_range(OP, a)?;
        let mut runs = w.runs(self, n, k, batch * m * a.dtype.size());
        let matmul = |first: usize, run: usize| {
            let b = w.transposed(a.dtype, [run, k], &a.dims[..outer]);
            let size = [batch, m, run, k];
            let problem = Problem::new(a, b.view(), size, a.dtype)?.quantized(w.quant);
            let ranges = [a_range, w.range(first * k, run * k)];
            self.multiply(problem, ranges, batch * m * run)
        };
        if runs.len() == 1 {
            return matmul(0, n);
        }
        let y = self.output(OP, batch * m * n, a.dtype)?;
        runs.try_for_each(|(first, run)| {
            let part = matmul(first, run)?;
            let whole = Part::all(&y, a.dtype, &[batch * m, n]);
            self.paste(&part, whole.narrow(1, first, run).view())
        })?;
        Ok(y)
    }

    /// A matmul whose rows exceed one binding.
    fn rows_in_halves(&self, a: View<'_>, w: Blocks<'_>, size: (usize, usize)) -> Result<Value> {
        let loops = a.dims.len() - 1;
        let mut dims = a.dims.to_vec();
        dims[loops] = size.0;
        let y = self.output(OP, dims.iter().product(), a.dtype)?;
        let parts = [Part::from(a), Part::all(&y, a.dtype, &dims)];
        for half in self.pool.halve(OP, &parts, loops)?.parts {
            let part = self.matmul_blocks(half[0].view(), w, size)?;
            self.paste(&part, half[1].view())?;
        }
        Ok(y)
    }

    /// Mixture of experts: `y[t, e, n] = sum over k of a[t, e, k] w[ids[t, e], n, k]`, contiguous, in the dtype of `a` (f32, f16 or
    /// bf16). Shapes: `a` (tokens, picked or 1, k), `w` (experts, n, k), `ids` (tokens, picked) of u32. An id out of range is an
    /// [`Error::IndexOutOfRange`] at the next readback or synchronize.
    pub fn matmul_experts(
        &self,
        a: View<'_>,
        w: Blocks<'_>,
        [experts, n, k]: [usize; 3],
        ids: View<'_>,
    ) -> Result<Value> {
        const OP: &str = "indexed_moe_forward";
        a.dtype.one_of(&FLOATS, OP)?;
        w.check(OP, experts * n * k, k)?;
        let fits = match (a.dims, ids.dims) {
            (&[tokens, rows, size], &[id_tokens, picked]) => {
                tokens == id_tokens && (rows == picked || rows == 1) && size == k
            }
            _ => false,
        };
        if !fits || ids.dtype != DType::U32 {
            let message = format!(
                "{:?} by ids {:?} {} of ({experts}, {n}, {k})",
                a.dims, ids.dims, ids.dtype
            );
            return Err(Error::Invalid { op: OP, message });
        }
        let (tokens, picked) = (ids.dims[0], ids.dims[1]);
        let matmuls = tokens * picked;
        if matmuls * n == 0 || k == 0 {
            return self.fill(matmuls * n, a.dtype, 0);
        }
        let ids = self.contiguous(ids)?;
        let (a_range, a) = self.binding_range(OP, a)?;
        let a_rows = View {
            dims: &[tokens, picked, 1, k],
            strides: &[a.strides[0], a.step(1), 0, a.strides[2]],
            ..a
        };
        let b = w.transposed(a.dtype, [n, k], &[tokens, picked]);
        to_u32(OP, experts * n * k)?;
        let size = [matmuls, 1, n, k];
        let problem = Problem::batched(a_rows, b.view(), size, a.dtype)?.quantized(w.quant);
        let mut plan = problem.plan_expert(self, w.quant);
        plan.rows = to_u32(OP, experts)?;
        let y = self.output(OP, matmuls * n, a.dtype)?;
        let params = problem.params(&plan, self.note_fault(OP));
        let grid = problem.grid(&plan);
        self.record(
            plan.spec,
            &[
                a_range,
                w.value.into(),
                (&y).into(),
                (&ids).into(),
                (&self.fault).into(),
            ],
            &params,
            grid,
        )?;
        Ok(y)
    }
}
