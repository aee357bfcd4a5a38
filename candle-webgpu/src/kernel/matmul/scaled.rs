//! Converts bf16 and quantized operands for cooperative matrices of f16, or finds the scales with which gemm_coop does so. Each
//! line along k is divided by a power of two, its scale, so that it fits the range of f16; bf16 values stay exact. The results are
//! multiplied by both scales when they are stored.

use bytemuck::bytes_of;

use crate::dtype::quant::{Quant, QUANTS};
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::problem::{Problem, Side, BATCH_DIMS, OP};
use crate::kernel::matmul::store::FLOATS;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::{Value, When};
use crate::recorder::op::{Grid, Op};
use crate::recorder::Recorder;
use crate::shader::{params, read, write, Access, Kernel, Specialization, Text};

/// With 256 threads, which is more than a line of a K-quant has pieces, prefill in q4_k took 13.8 ms instead of 13.3 (TinyLlama-1.1B, NVIDIA
/// H100).
const WORKGROUP: u32 = 128;

/// Added bindings: `line_scales`, which the kernel writes or is given, and `y`, the scaled lines.
pub static SCALE_LINES: Kernel = Kernel {
    workgroup: WORKGROUP,
    shared: |_| WORKGROUP * 16,
    slots,
    ..kernel!("matmul", "scale_lines", Params::LAYOUT; read x)
};

/// The `op` of the specialization: the direction of the lines in memory, or lines along k whose scales are known.
const ALONG: &str = "along";
const ACROSS: &str = "across";
const KNOWN: &str = "known";

/// Lines of a workgroup if they run across memory: four groups of four, which are 32 bytes of a 16-bit row.
const LINES_ACROSS: u32 = 16;

/// The fewest rows for which converting the operands for cooperative matrices pays off.
const MANY_ROWS: u32 = 17;
/// The most rows for which gemm_coop converts a quantized or f32 matrix, once for each row tile; for more, it is converted once. bf16, which
/// is half as long as f32 and takes two instructions, is faster without another kernel for any number of rows.
const DIRECT_ROWS: u32 = 256;
/// Elements from which on a quantized matrix is converted directly for more rows: no cache holds its f16 lines.
const LARGE: u64 = 1 << 24;
/// The most rows for large matrices; and for [`Quant::Q4_0`], which is unpacked fastest, for other matrices and for large ones.
const DIRECT_LARGE_ROWS: u32 = 384;
const DIRECT_Q4_0_ROWS: [u32; 2] = [384, 512];

/// The shortest lines for which f32 may be rounded. Short ones gain little, and models compute angles of rotary embeddings, which need all
/// bits, as products of positions and frequencies with k of 1.
const ROUNDED_K: u32 = 64;

params! {
    struct Params {
        lines: u32,
        k: u32,
        x_offset: u32,
        x_line: u32,
        x_k: u32,
        y_line: u32,
        y_k: u32,
    }
}

/// Whether an op stores the scaled lines of a value of `lines` rows of `k` elements, without gaps, and finds their scales.
pub(crate) fn are_packed(op: &Op, lines: u32, k: u32) -> bool {
    let packed = Params {
        lines,
        k,
        x_offset: 0,
        x_line: k,
        x_k: 1,
        y_line: k,
        y_k: 1,
    };
    let params: Params = op.params();
    op.is_of(&SCALE_LINES)
        && (op.spec.op == ALONG && op.spec.binds("y"))
        && bytes_of(&params) == bytes_of(&packed)
}

/// The lines of an operand, of `k` elements each, and whether k is contiguous.
pub(crate) struct Lines {
    pub x: (DType, Access),
    pub along_k: bool,
    pub k: u32,
    pub side: Side,
}

/// The specialization that finds the scales, unless they are known, and stores the scaled lines if it `stores`.
fn spec(op: &'static str, x: (DType, Access), stores: bool) -> Specialization {
    let scales = if op == KNOWN { read } else { write }("line_scales");
    let spec = Specialization::new(&SCALE_LINES, op, &[x]).bind(scales, DType::F32, Access::Raw);
    if stores {
        spec.bind(write("y"), DType::F16, Access::Put)
    } else {
        spec
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let (thread_groups, wide) = match spec.op {
        ACROSS => (LINES_ACROSS / 4, 4),
        _ => (1, 1),
    };
    let known = spec.op == KNOWN;
    text.constants(&[
        ("TEAMS", thread_groups),
        ("WIDE", wide),
        ("KNOWN", known.into()),
    ]);
    text.binding_of(spec, "line_scales", "f32");
    text.line(match known {
        true => "fn put_scale(line: u32, scale: f32) {}",
        false => "fn put_scale(line: u32, scale: f32) { line_scales[line] = scale; }",
    });
    if spec.binds("y") {
        text.bindings(spec, 2);
        text.part(wgsl!("kernel/matmul/scale_lines_store.wgsl"));
    } else {
        text.line("fn store(line: u32, source: u32, own: u32, by: vec4<f32>) {}");
    }
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
    let across = dense.clone().map(|x| spec(ACROSS, x, true));
    let along = dense.map(|x| spec(ALONG, x, true));
    let direct = [DType::Bf16, DType::F32].map(|dtype| (dtype, Access::Quads));
    let scales = blocks.clone().chain(direct).map(|x| spec(ALONG, x, false));
    let lines = blocks.map(|x| spec(KNOWN, x, true));
    across.chain(along).chain(scales).chain(lines).collect()
}

/// The operands of a matmul of scaled lines, and the scales of their lines.
pub(crate) struct Scaled {
    pub a: Value,
    /// `None` if the matmul converts b.
    pub b: Option<Value>,
    pub scales: [Value; 2],
}

/// The most rows for which gemm_coop converts a quantized matrix of n lines of k elements.
fn direct_rows(quant: Quant, n: u32, k: u32) -> u32 {
    let large = u64::from(n) * u64::from(k) >= LARGE;
    match quant {
        Quant::Q4_0 => DIRECT_Q4_0_ROWS[usize::from(large)],
        // Their fifth bits lie apart.
        Quant::Q5_0 | Quant::Q5_1 => DIRECT_ROWS,
        _ if large => DIRECT_LARGE_ROWS,
        _ => DIRECT_ROWS,
    }
}

impl Problem {
    /// The same matmul with its operands converted to scaled f16 lines, and the lines to convert, if only that lets cooperative
    /// matrices compute it: for bf16, f32 that may be rounded, or a quantized matrix. The matmul converts aligned lines of b along k itself if
    /// that is faster.
    fn scaled(&self, device: &Recorder) -> Option<(Problem, [Lines; 2])> {
        let other = match self.dtype {
            _ if self.quant.is_some() => true,
            DType::F32 => self.k >= ROUNDED_K && device.gemm_reduced_precision_f32(),
            dtype => dtype == DType::Bf16,
        };
        let able = device.coop_tiles().is_some() && !device.denies(&SCALE_LINES);
        if !(able && other && self.batch == 1 && self.m >= MANY_ROWS) {
            return None;
        }
        let lines = |x, along_k, side| Lines {
            x,
            along_k,
            k: self.k,
            side,
        };
        let dense = |side: Side| {
            let reading = side.reading(self.k);
            let x = (self.dtype, reading.access);
            (reading.access == Access::Quads).then(|| lines(x, reading.along_k, side))
        };
        let a = dense(self.a)?;
        let b = match self.quant {
            // Its lines are read by whole spans.
            Some(quant) if !self.k.is_multiple_of(32 * quant.info().span) => return None,
            Some(quant) => lines((DType::U32, Access::Quant(quant)), true, self.b),
            None => dense(self.b)?,
        };
        let octets = self.b.aligned(8, true, self.k);
        let direct = match (self.quant, self.dtype) {
            (None, DType::Bf16) => octets,
            (None, _) => octets && self.m <= DIRECT_ROWS,
            (Some(quant), _) => self.m <= direct_rows(quant, self.n, self.k),
        };
        let most = device.binding_limit();
        if a.bytes() > most || !direct && b.bytes() > most {
            return None;
        }
        let problem = Problem {
            dtype: DType::F16,
            quant: self.quant.filter(|_| direct),
            scaled: true,
            b_dtype: if direct { self.dtype } else { DType::F16 },
            a: a.packed(),
            b: if direct { self.b } else { b.packed() },
            ..*self
        };
        problem.plan_coop(device)?;
        Some((problem, [a, b]))
    }
}

impl Recorder {
    /// Converts the operands of `problem` to f16, and updates `problem`, if that lets cooperative matrices compute it. The scales of a b that
    /// is quantized, or that the matmul converts, are kept with its value.
    pub(crate) fn scale(
        &self,
        problem: &mut Problem,
        [a, b]: [BindingRange<'_>; 2],
    ) -> Result<Option<Scaled>> {
        let Some((scaled, [a_lines, b_lines])) = problem.scaled(self) else {
            return Ok(None);
        };
        let new_a = self.f16_lines(&a_lines)?;
        let a_scales = self.scales(&a_lines)?;
        self.scale_lines(a, &a_lines, (&a_scales, false), Some(&new_a))?;
        let direct = scaled.quant.is_some() || scaled.b_dtype != scaled.dtype;
        let new_b = match direct {
            true => None,
            false => Some(self.f16_lines(&b_lines)?),
        };
        let keeps = direct || problem.quant.is_some();
        let key = b_lines.key(b);
        let known = keeps.then(|| b.value.derived(&key)).flatten();
        let b_scales = match known {
            Some(scales) => scales,
            None => {
                let scales = self.scales(&b_lines)?;
                let y = new_b.as_ref().filter(|_| !keeps);
                self.scale_lines(b, &b_lines, (&scales, false), y)?;
                if keeps {
                    b.value.keep_derived(&key, scales.clone(), When::Recording);
                }
                scales
            }
        };
        // In a dispatch of its own also when the scales were just found, so that later prompts need no other pipeline.
        if let Some(y) = new_b.as_ref().filter(|_| keeps) {
            self.scale_lines(b, &b_lines, (&b_scales, true), Some(y))?;
        }
        *problem = scaled;
        Ok(Some(Scaled {
            a: new_a,
            b: new_b,
            scales: [a_scales, b_scales],
        }))
    }

    /// Room for the scales of lines.
    fn scales(&self, lines: &Lines) -> Result<Value> {
        self.output(OP, lines.side.size as usize, DType::F32)
    }

    /// Room for scaled lines.
    fn f16_lines(&self, lines: &Lines) -> Result<Value> {
        let [count, k] = lines.size().map(|size| size as usize);
        self.output(OP, count * k, DType::F16)
    }

    /// Finds the scales of `lines`, unless they are known, and stores the scaled lines to `y`.
    fn scale_lines(
        &self,
        x: BindingRange<'_>,
        lines: &Lines,
        (scales, known): (&Value, bool),
        y: Option<&Value>,
    ) -> Result<()> {
        let (from, to) = (&lines.side, lines.packed());
        let params = Params {
            lines: from.size,
            k: lines.k,
            x_offset: from.offset,
            x_line: from.other,
            x_k: from.k,
            y_line: to.other,
            y_k: to.k,
        };
        let (op, lines_each) = match lines.along_k {
            _ if known => (KNOWN, 1),
            true => (ALONG, 1),
            false => (ACROSS, LINES_ACROSS),
        };
        let grid = Grid::Linear(u64::from(from.size.div_ceil(lines_each)));
        let mut ranges = vec![x, scales.into()];
        ranges.extend(y.map(BindingRange::from));
        let spec = spec(op, lines.x, y.is_some());
        self.record(spec, &ranges, &params, grid)
    }
}

impl Lines {
    /// Which elements of the value at `range` they are.
    fn key(&self, range: BindingRange<'_>) -> [u8; 48] {
        let Side {
            offset,
            k,
            other,
            size,
            ..
        } = self.side;
        let [offset, k, other, size, each] = [offset, k, other, size, self.k].map(u64::from);
        bytemuck::cast([range.start, offset, k, other, size, each])
    }

    /// Their number, and the elements of each.
    fn size(&self) -> [u32; 2] {
        [self.side.size, self.k]
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_matrices_are_converted_directly_for_more_rows() {
        assert_eq!(direct_rows(Quant::Q4_0, 2048, 5632), 384);
        assert_eq!(direct_rows(Quant::Q8_0, 2048, 5632), 256);
        assert_eq!(direct_rows(Quant::Q4_0, 4096, 4096), 512);
        assert_eq!(direct_rows(Quant::Q5_1, 4096, 4096), 256);
        assert_eq!(direct_rows(Quant::Q8_0, 4096, 4096), 384);
        assert_eq!(direct_rows(Quant::Q4K, 4096, 4096), 384);
    }
}
