//! Converts bf16 and quantized operands for cooperative matrices of f16. Each line along k is divided by a power of two, its scale,
//! so that it fits the range of f16; bf16 values stay exact. The results are multiplied by both scales when they are stored.

use crate::dtype::quant::QUANTS;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::problem::{Problem, Side, BATCH_DIMS, OP};
use crate::kernel::matmul::store::FLOATS;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

/// With 256 threads, which is more than a line of a K-quant has pieces, prefill in q4_k took 13.8 ms instead of 13.3 (TinyLlama-1.1B, NVIDIA
/// H100).
const WORKGROUP: u32 = 128;

pub static SCALE_LINES: Kernel = Kernel {
    workgroup: WORKGROUP,
    shared: |_| WORKGROUP * 16,
    slots,
    ..kernel!("matmul", "scale_lines", Params::LAYOUT; read x, write y, write line_scales)
};

/// The direction of the lines in memory: the `op` of the specialization.
const ALONG: &str = "along";
const ACROSS: &str = "across";

/// Lines of a workgroup if they run across memory: four groups of four, which are 32 bytes of a 16-bit row.
const LINES_ACROSS: u32 = 16;

params! {
    struct Params {
        lines: u32,
        k: u32,
        x_offset: u32,
        x_line: u32,
        x_k: u32,
        y_line: u32,
        y_k: u32,
        first: u32,
    }
}

/// The lines of an operand, of `k` elements each, and whether k is contiguous.
pub(crate) struct Lines {
    pub x: (DType, Access),
    pub along_k: bool,
    pub k: u32,
    pub side: Side,
}

fn spec(along: bool, x: (DType, Access)) -> Specialization {
    let op = if along { ALONG } else { ACROSS };
    let operands = [x, (DType::F16, Access::Put), (DType::F32, Access::Raw)];
    Specialization::new(&SCALE_LINES, op, &operands)
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let (thread_groups, wide) = if spec.op == ALONG {
        (1, 1)
    } else {
        (LINES_ACROSS / 4, 4)
    };
    text.constants(&[("TEAMS", thread_groups), ("WIDE", wide)]);
    if let Access::Quant(_) = spec.operands[0].1 {
        text.part(wgsl!("kernel/matmul/scale_lines_units.wgsl"));
    } else {
        text.constants(&[("EACH", 4 / wide), ("QUADS", 1)]);
        text.line("fn piece_at(j: u32) -> u32 { return EACH * j; }");
        text.line("fn quad_at(q: u32) -> u32 { return 0u; }");
        text.line("fn x_piece(at: u32) -> array<vec4<f32>, QUADS> { return array<vec4<f32>, QUADS>(x_get4(at / 4u)); }");
    }
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let dense = FLOATS.into_iter().map(|dtype| (dtype, Access::Quads));
    let blocks = QUANTS
        .iter()
        .map(|row| (DType::U32, Access::Quant(row.quant)));
    let across = dense.clone().map(|x| spec(false, x));
    across
        .chain(dense.chain(blocks).map(|x| spec(true, x)))
        .collect()
}

impl Recorder {
    /// Converts the operands of `problem` to f16, and updates `problem`, if that lets cooperative matrices compute it. Returns both
    /// operands, and the scales of their lines, those of `a` first.
    pub(crate) fn scale(
        &self,
        problem: &mut Problem,
        [a, b]: [BindingRange<'_>; 2],
    ) -> Result<Option<[Value; 3]>> {
        let Some((scaled, [a_lines, b_lines])) = problem.scaled(self) else {
            return Ok(None);
        };
        let lines = a_lines.side.size + b_lines.side.size;
        let scale = self.output(OP, lines as usize, DType::F32)?;
        let a = self.scale_lines(a, &a_lines, (&scale, 0))?;
        let b = self.scale_lines(b, &b_lines, (&scale, a_lines.side.size))?;
        *problem = scaled;
        Ok(Some([a, b, scale]))
    }

    fn scale_lines(
        &self,
        x: BindingRange<'_>,
        lines: &Lines,
        scale: (&Value, u32),
    ) -> Result<Value> {
        let (from, to) = (&lines.side, lines.packed());
        let y = self.output(OP, from.size as usize * lines.k as usize, DType::F16)?;
        let params = Params {
            lines: from.size,
            k: lines.k,
            x_offset: from.offset,
            x_line: from.other,
            x_k: from.k,
            y_line: to.other,
            y_k: to.k,
            first: scale.1,
        };
        let lines_each = if lines.along_k { 1 } else { LINES_ACROSS };
        let grid = Grid::Linear(u64::from(from.size.div_ceil(lines_each)));
        let ranges = [x, (&y).into(), scale.0.into()];
        self.record(spec(lines.along_k, lines.x), &ranges, &params, grid)?;
        Ok(y)
    }
}

impl Lines {
    /// The lines without gaps.
    pub fn packed(&self) -> Side {
        let size = self.side.size;
        let (k, other) = if self.along_k { (1, self.k) } else { (size, 1) };
        Side {
            offset: 0,
            k,
            other,
            size,
            batch: [0; BATCH_DIMS],
        }
    }

    /// Bytes of the elements in f16.
    pub fn bytes(&self) -> u64 {
        2 * u64::from(self.side.size) * u64::from(self.k)
    }
}
