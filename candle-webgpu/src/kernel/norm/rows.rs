//! Rows of the last dim: what rms_norm, layer_norm and softmax share.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::store::{put, FLOATS};
use crate::kernel::{reads, thread_group, writes, ROUNDS};
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::Loops;
use crate::memory::view::View;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op};
use crate::recorder::Recorder;
use crate::shader::{function, renamed, Access, Kernel, Specialization, Text};

pub(crate) const WORKGROUP: u32 = 256;

/// `thread_group_sum`, for kernels that declare `partial`.
pub(crate) const THREAD_GROUP_SUM: &str = wgsl!("kernel/norm/thread_group_sum.wgsl");

/// The row of a kernel over rows, which has `shared` bytes of shared memory.
pub(crate) const fn row_kernel(kernel: Kernel, shared: fn(&Specialization) -> u32) -> Kernel {
    Kernel {
        workgroup: WORKGROUP,
        shared,
        slots,
        ..kernel
    }
}

/// Reads and writes by quads. With `Access::Quads` every row consists of whole quads; with `Access::Words` rows start and end
/// anywhere, and a quad may belong to two rows.
pub(crate) fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    const PARTIAL: &str = wgsl!("kernel/norm/partial_quads.wgsl");
    let whole = spec.operands[0].1 == Access::Quads;
    text.line(format!("const WHOLE = {whole};"));
    if spec.kernel.name.starts_with("softmax") {
        text.file(wgsl!("kernel/softmax/online_softmax.wgsl"));
    }
    if spec.kernel.name == "layer_norm" {
        text.file(THREAD_GROUP_SUM);
    }
    let last = spec.kernel.bindings.len() - 1;
    for (binding, (_, access)) in spec.kernel.bindings[..last].iter().zip(&spec.operands) {
        if *access == Access::Raw {
            continue;
        }
        let n = binding.name;
        let [one, four, get, offset] = ["one", "four", "get", "offset"].map(|f| format!("{n}_{f}"));
        // x has all rows; the other operands are one row.
        let is_x = n == "x";
        if whole {
            let start = if is_x { "0u" } else { "first" };
            text.line(format!(
                "fn {four}(q: u32, first: u32, end: u32) -> vec4<f32> {{ return {get}4(p.{offset} / 4u + q - {start} / 4u); }}"
            ));
        } else {
            let names = [
                ("alpha_one", &*one),
                ("alpha_get", &*get),
                ("alpha_offset", &*offset),
            ];
            let file_one = if is_x { "x_one" } else { "alpha_one" };
            text.line(renamed(function(PARTIAL, file_one), &names));
            let names = [("x_four", &*four), ("x_one", &*one)];
            text.line(renamed(function(PARTIAL, "x_four"), &names));
        }
    }
    if spec.operands[last].1 == Access::Raw {
        return Ok(());
    }
    put(spec, last, text)?;
    text.line(if whole {
        "fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y_put(q * 4u, 4u, v); }"
    } else {
        function(PARTIAL, "y_four")
    });
    Ok(())
}

/// `rows`: of a workgroup, for kernels that do not split rows.
pub(crate) fn spec(
    kernel: &'static Kernel,
    dtype: DType,
    whole: bool,
    rows: Option<u32>,
) -> Specialization {
    let operands = kernel.bindings.iter().map(|b| match (b.name, b.write) {
        ("stats", _) => (DType::F32, Access::Raw),
        (_, true) => (dtype, writes(whole)),
        (_, false) => (dtype, reads(whole)),
    });
    let mut spec = Specialization::new(kernel, "", &[]);
    spec.operands.extend(operands);
    spec.overrides.extend(rows.map(|rows| ("ROWS", rows)));
    spec
}

/// A kernel's specializations for all float dtypes.
pub(crate) fn specs(kernel: &'static Kernel, rows: Option<u32>) -> Vec<Specialization> {
    let each = |dtype| [true, false].map(|whole| spec(kernel, dtype, whole, rows));
    FLOATS.into_iter().flat_map(each).collect()
}

/// A contiguous view of an operand, copied if the operand was not contiguous.
pub(crate) struct Flat {
    value: Value,
    offset: usize,
}

impl Flat {
    pub fn view<'a>(&'a self, dtype: DType, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
        View {
            value: &self.value,
            dtype,
            dims,
            strides,
            offset: self.offset,
        }
    }
}

pub(crate) fn flat(device: &Recorder, v: View<'_>) -> Result<Flat> {
    if v.is_contiguous() {
        return Ok(Flat {
            value: v.value.clone(),
            offset: v.offset,
        });
    }
    let value = device.contiguous(v)?;
    Ok(Flat { value, offset: 0 })
}

/// An operand x as `rows` rows of `n` elements, those of its last dim.
pub(crate) struct Rows {
    pub op: &'static str,
    pub dtype: DType,
    pub rows: usize,
    pub n: usize,
}

impl Rows {
    pub fn new(op: &'static str, x: View<'_>) -> Result<Self> {
        x.dtype.one_of(&FLOATS, op)?;
        let n = x.dims.last().copied().unwrap_or(1);
        Ok(Rows {
            op,
            dtype: x.dtype,
            rows: x.count().checked_div(n).unwrap_or(0),
            n,
        })
    }

    /// An error unless `v` is a parameter with one element a column.
    pub fn check(&self, v: View<'_>) -> Result<()> {
        if v.dtype != self.dtype || v.dims != [self.n] {
            let message = format!(
                "expected a parameter of {} {}, got {:?} {}",
                self.n, self.dtype, v.dims, v.dtype
            );
            let op = self.op;
            return Err(Error::Invalid { op, message });
        }
        Ok(())
    }

    /// Whether a binding range holds a row wherever the row starts.
    pub fn fit(&self, device: &Gpu) -> bool {
        (self.n * self.dtype.size()) as u64 <= device.binding_limit() / 2
    }

    /// Whether, moreover, one workgroup can process a whole row.
    pub fn are_short(&self, device: &Gpu) -> bool {
        self.fit(device) && self.n <= ROUNDS * WORKGROUP as usize
    }

    /// Threads that share a row: enough for a few quads each, fewer where the rows alone fill the adapter.
    fn thread_group(&self, device: &Gpu) -> u32 {
        let each = if self.rows >= 4096 { 4 } else { 1 };
        thread_group(device, self.rows, self.n.div_ceil(4), each, WORKGROUP)
    }

    /// The kernel and the grid for `count` of the rows, with operands at these offsets.
    pub fn spec(
        &self,
        gpu: &Gpu,
        kernel: &'static Kernel,
        count: u32,
        offsets: &[u32],
    ) -> (Specialization, Grid) {
        let rows = WORKGROUP / self.thread_group(gpu);
        let whole = self.n.is_multiple_of(4) && offsets.iter().all(|o| o.is_multiple_of(4));
        let grid = Grid::Linear(count.div_ceil(rows).into());
        (spec(kernel, self.dtype, whole, Some(rows)), grid)
    }

    /// The op of a kernel over all rows, with x and parameters of one row at these offsets. None if a workgroup cannot process a row.
    pub fn op(
        &self,
        gpu: &Gpu,
        kernel: &'static Kernel,
        operands: impl IntoIterator<Item = (Value, u64)>,
        offsets: &[u32],
        params: &impl bytemuck::NoUninit,
    ) -> Option<Box<Op>> {
        if !FLOATS.contains(&self.dtype) || !self.are_short(gpu) {
            return None;
        }
        let (spec, grid) = self.spec(gpu, kernel, self.rows as u32, offsets);
        gpu.op(spec, operands, params, grid).ok()
    }

    /// Records a kernel over x and parameters of one row. `params` makes the parameters from a number of rows and the offset of
    /// each operand.
    pub fn record<const N: usize, P: bytemuck::NoUninit>(
        &self,
        device: &Recorder,
        kernel: &'static Kernel,
        operands: [&Flat; N],
        params: impl Fn(u32, [u32; N]) -> P,
    ) -> Result<Value> {
        let dims = [self.rows, self.n];
        let (along, same) = ([self.n, 1], [0, 1]);
        let reads: [View<'_>; N] = std::array::from_fn(|i| {
            operands[i].view(self.dtype, &dims, if i == 0 { &along } else { &same })
        });
        let y = (self.dtype, &dims[..]);
        device.in_bound_parts(self.op, reads, y, Loops::First(1), |reads, ranges| {
            let offsets = reads.map(|v| v.offset as u32);
            let count = to_u32(self.op, reads[0].dims[0])?;
            let (spec, grid) = self.spec(device, kernel, count, &offsets);
            device.record(spec, ranges, &params(count, offsets), grid)
        })
    }
}
