//! `CANDLE_WEBGPU_CHECK_NAN`: around each op that makes numbers its operands are looked through, and the first op that makes a NaN or
//! an infinity where its operands had none comes back by name at the next readback or synchronize.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use smallvec::smallvec;

use crate::dtype::DType;
use crate::error::Error;
use crate::fusion::graph::writes;
use crate::kernel::copy::zeros;
use crate::kernel::reduce::nonfinite;
use crate::kernel::reduce::nonfinite::Params;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Ops};
use crate::shader::{Access, Specialization};
use crate::util::lock;

/// Ops whose names are kept.
const KEPT: usize = 1 << 16;

/// The ops that were looked at last, by their numbers.
#[derive(Default)]
pub(crate) struct Check(Mutex<Named>);

#[derive(Default)]
struct Named {
    /// Number of the first that is kept.
    first: u32,
    specs: VecDeque<Specialization>,
}

impl Check {
    fn number(&self, spec: &Specialization) -> u32 {
        let mut named = lock(&self.0);
        named.specs.push_back(spec.clone());
        if named.specs.len() > KEPT {
            named.specs.pop_front();
            named.first = (named.first + 1) % nonfinite::NUMBERS;
        }
        named.first + named.specs.len() as u32 - 1
    }

    /// The error that word 5 of the fault record stands for.
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

/// The dtype of operand `i` if it has floats that can be looked at. What a kernel writes for another of its own kind (partial
/// results, which may begin with infinities) is `Raw`.
fn floats(spec: &Specialization, i: usize) -> Option<DType> {
    let (dtype, access) = *spec.operands.get(i)?;
    let hidden = matches!(access, Access::Quant(_)) || access == Access::Raw && writes(spec, i);
    (dtype.is_float() && !hidden).then_some(dtype)
}

impl Check {
    /// The ops, and in front of and behind each that makes numbers those that look at its operands. Memory that is new holds
    /// what was there before, so it is cleared first.
    pub(crate) fn around(&self, gpu: &Gpu, ops: Ops) -> Ops {
        let seen = Value::of_ops(&gpu.pool, 4 * ops.len().max(1) as u64);
        let mut out = Ops::new();
        let mut known = HashSet::new();
        clear(gpu, &mut out, &seen);
        for (slot, op) in ops.into_iter().enumerate() {
            let made: Vec<usize> = (0..op.operands.len())
                .filter(|i| writes(&op.spec, *i) && floats(&op.spec, *i).is_some())
                .collect();
            if made.is_empty() {
                known.extend(op.operands.iter().map(|(value, _)| value.key()));
                out.push(op);
                continue;
            }
            let number = self.number(&op.spec);
            for i in 0..op.operands.len() {
                let value = &op.operands[i].0;
                let new = known.insert(value.key()) && !value.is_begun();
                if new && made.contains(&i) {
                    clear(gpu, &mut out, value);
                } else if floats(&op.spec, i).is_some() {
                    look(gpu, &mut out, &op, i, (&seen, slot, number, false));
                }
            }
            let mut behind = Ops::new();
            for i in made {
                look(gpu, &mut behind, &op, i, (&seen, slot, number, true));
            }
            out.push(op);
            out.append(&mut behind);
        }
        out
    }
}

/// Looks at what operand `i` is bound to.
fn look(
    gpu: &Gpu,
    out: &mut Ops,
    op: &Op,
    i: usize,
    (seen, slot, number, behind): (&Value, usize, u32, bool),
) {
    let (value, start) = &op.operands[i];
    let bytes = (value.bytes() - start).min(gpu.pool.binding);
    let Some(dtype) = floats(&op.spec, i).filter(|_| bytes > 0) else {
        return;
    };
    let mut params = Params::new(dtype, bytes);
    (params.slot, params.behind, params.number) = (slot as u32, behind.into(), number);
    let operands = smallvec![
        (value.clone(), *start),
        (seen.clone(), 0),
        (gpu.fault.bound(), 0)
    ];
    let spec = nonfinite::spec();
    // A binding holds fewer words than all workgroups can look at.
    if let Ok(grid) = gpu.split(&spec, Grid::Linear(params.groups())) {
        out.push(Box::new(Op::new(spec, operands, &params, grid)));
    }
}

fn clear(gpu: &Gpu, out: &mut Ops, value: &Value) {
    let mut start = 0;
    while start < value.bytes() {
        let bytes = (value.bytes() - start).min(gpu.pool.binding);
        let (spec, params, grid) = zeros(bytes);
        if let Ok(grid) = gpu.split(&spec, grid) {
            let operands = smallvec![(value.clone(), start)];
            out.push(Box::new(Op::new(spec, operands, &params, grid)));
        }
        start += bytes;
    }
}
