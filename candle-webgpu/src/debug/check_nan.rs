//! `CANDLE_WEBGPU_CHECK_NAN`: checks the operands of each op that writes floats before and after it. The next readback or synchronize
//! reports the first op that produced a NaN or an infinity from finite operands.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use crate::dtype::DType;
use crate::error::Error;
use crate::kernel::copy::zeros;
use crate::kernel::reduce::nonfinite;
use crate::kernel::reduce::nonfinite::Params;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Ops};
use crate::shader::{Access, Specialization};
use crate::util::lock;

/// Number of ops whose names are stored.
const MAX_NAMES: usize = 1 << 16;

/// The names of the ops checked last.
#[derive(Default)]
pub(crate) struct NanCheck(Mutex<Named>);

#[derive(Default)]
struct Named {
    /// The number of the first stored op.
    first: u32,
    specs: VecDeque<Specialization>,
}

impl NanCheck {
    /// Numbers an op and stores its name.
    fn number(&self, spec: &Specialization) -> u32 {
        let mut named = lock(&self.0);
        named.specs.push_back(spec.clone());
        if named.specs.len() > MAX_NAMES {
            named.specs.pop_front();
            named.first = (named.first + 1) % nonfinite::NUMBERS;
        }
        named.first + named.specs.len() as u32 - 1
    }

    /// The error that word 5 of the fault record encodes.
    pub fn error(&self, word: u32) -> Option<Error> {
        let (number, what) = nonfinite::found(word)?;
        let named = lock(&self.0);
        let at = number.checked_sub(named.first);
        let spec = at.and_then(|at| named.specs.get(at as usize));
        Some(Error::NotFinite {
            kernel: spec.map_or("an op".into(), Specialization::name),
            number,
            what,
        })
    }
}

/// The dtype of operand `i` if it contains floats to check. Excludes partial results, which kernels write as `Raw` and which may be
/// infinite.
fn floats(spec: &Specialization, i: usize) -> Option<DType> {
    let (dtype, access) = *spec.operands.get(i)?;
    let hidden = matches!(access, Access::Quant(_)) || access == Access::Raw && spec.writes(i);
    (dtype.is_float() && !hidden).then_some(dtype)
}

impl NanCheck {
    /// Adds check ops before and after each op that writes floats. Clears freshly allocated outputs first, since recycled memory may
    /// contain NaN.
    pub(crate) fn around(&self, gpu: &Gpu, ops: Ops) -> Ops {
        let seen = Value::internal(&gpu.pool, 4 * ops.len().max(1) as u64);
        let mut out = Ops::new();
        let mut known = HashSet::new();
        clear(gpu, &mut out, &seen);
        for (slot, op) in ops.into_iter().enumerate() {
            let made: Vec<usize> = (0..op.operands.len())
                .filter(|i| op.spec.writes(*i) && floats(&op.spec, *i).is_some())
                .collect();
            if made.is_empty() {
                known.extend(op.operands.iter().map(|(value, _)| value.key()));
                out.push(op);
                continue;
            }
            let number = self.number(&op.spec);
            for i in 0..op.operands.len() {
                let value = &op.operands[i].0;
                let new = known.insert(value.key()) && !value.has_contents();
                if new && made.contains(&i) {
                    clear(gpu, &mut out, value);
                } else if floats(&op.spec, i).is_some() {
                    check_operand(gpu, &mut out, &op, i, (&seen, slot, number, false));
                }
            }
            let mut after = Ops::new();
            for i in made {
                check_operand(gpu, &mut after, &op, i, (&seen, slot, number, true));
            }
            out.push(op);
            out.append(&mut after);
        }
        out
    }
}

/// Adds an op that checks the bytes bound as operand `i`.
fn check_operand(
    gpu: &Gpu,
    out: &mut Ops,
    op: &Op,
    i: usize,
    (seen, slot, number, after): (&Value, usize, u32, bool),
) {
    let (value, start) = &op.operands[i];
    let bytes = (value.bytes() - start).min(gpu.pool.binding);
    let Some(dtype) = floats(&op.spec, i).filter(|_| bytes > 0) else {
        return;
    };
    let mut params = Params::new(dtype, bytes);
    (params.slot, params.behind, params.number) = (slot as u32, after.into(), number);
    let operands = [
        (value.clone(), *start),
        (seen.clone(), 0),
        (gpu.fault.bound(), 0),
    ];
    let grid = Grid::Linear(params.groups());
    // Never fails: a binding is smaller than the largest grid.
    let op = gpu.op(nonfinite::spec(), operands, &params, grid);
    out.extend(op);
}

fn clear(gpu: &Gpu, out: &mut Ops, value: &Value) {
    let mut start = 0;
    while start < value.bytes() {
        let bytes = (value.bytes() - start).min(gpu.pool.binding);
        let (spec, params, grid) = zeros(bytes);
        let op = gpu.op(spec, [(value.clone(), start)], &params, grid);
        out.extend(op);
        start += bytes;
    }
}
