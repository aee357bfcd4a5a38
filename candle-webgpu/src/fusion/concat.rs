//! Copies that do not meet become one kernel: the two parts of a concatenation, and those of keys and of values. Bit for bit.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::copy::concat::{spec, Params, Part, PARTS};
use crate::kernel::copy::COPY_QUADS;
use crate::kernel::{Strided, WORKGROUP};
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Operands};

/// The most ops between two copies, as between keys and values of a KV cache.
const NEAR: usize = 12;

pub(crate) const RULE: Rule = Rule {
    name: "concat",
    about: "copies that do not overlap, as of a concatenation: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&COPY_QUADS],
    apply: Apply::Batch(Scan::Due, find),
};

/// A recorded copy that can be a part.
struct Copy<'a> {
    at: usize,
    op: &'a Op,
    part: Part,
}

/// A copy and the later ones to merge with it: as many as possible.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let copy = |at: usize| {
        let op = graph.op(at).filter(|op| op.is_of(&COPY_QUADS))?;
        let part = part(op)?;
        Some(Copy { at, op, part })
    };
    let mut all = SmallVec::<[Copy; PARTS]>::from_iter([copy(at)?]);
    for next in graph.all().skip(at + 1).take(NEAR).filter_map(copy) {
        if next.op.spec.operands != all[0].op.spec.operands {
            continue;
        }
        if all.len() == PARTS || !all.iter().all(|before| are_apart(before, &next)) {
            break;
        }
        all.push(next);
    }
    (2..=all.len()).rev().find_map(|count| {
        let copies = &all[..count];
        let members: SmallVec<[usize; PARTS]> = copies.iter().map(|copy| copy.at).collect();
        let place = graph.place_for(&members, [at, members[count - 1]])?;
        Some(Rewrite::new(&members, place, [joined(device, copies)?]))
    })
}

/// Whether no copy reads or writes what the other writes.
fn are_apart(a: &Copy, b: &Copy) -> bool {
    let ([from_a, to_a], [from_b, to_b]) = (&a.op.operands[..], &b.op.operands[..]) else {
        return false;
    };
    let reads = from_a.0.same(&to_b.0) || from_b.0.same(&to_a.0);
    !reads && (!to_a.0.same(&to_b.0) || to_a.1 == to_b.1 && do_not_meet(&a.part, &b.part))
}

/// Whether two copies into one value write disjoint elements: their rows lie side by side, or one lies after all of the other. May be
/// false for disjoint ones.
fn do_not_meet(a: &Part, b: &Part) -> bool {
    let span = |p: &Part| {
        let steps = p.dims.iter().zip(p.strides[1]);
        let far: u64 = steps.map(|(d, s)| u64::from(d - 1) * u64::from(s)).sum();
        (u64::from(p.offsets[1]), u64::from(p.offsets[1]) + far + 1)
    };
    let ((a0, a1), (b0, b1)) = (span(a), span(b));
    if a1 <= b0 || b1 <= a0 {
        return true;
    }
    // Contiguous rows with one stride between them.
    let rows = |p: &Part| {
        let [d0, d1, d2, d3] = p.dims;
        let [_, _, step, one] = p.strides[1];
        let at = p.offsets[1].checked_rem(step)?;
        (d0 == 1 && d1 == 1 && d2 > 1 && one == 1 && at + d3 <= step).then_some((step, at, at + d3))
    };
    match (rows(a), rows(b)) {
        (Some((s, a0, a1)), Some((t, b0, b1))) => s == t && (a1 <= b0 || b1 <= a0),
        _ => false,
    }
}

/// A recorded copy as a part; None if it has too many dims.
fn part(op: &Op) -> Option<Part> {
    let params: Strided<2> = op.params();
    let (dims, strides) = params.padded()?;
    Some(Part {
        first: u32::MAX,
        n: params.n,
        offsets: [params.offsets[0], params.offsets[1]],
        dims,
        strides,
    })
}

/// The merged op; None if there is no kernel for this assignment of copies to destinations.
fn joined(device: &Gpu, copies: &[Copy]) -> Option<Box<Op>> {
    let mut reads = Operands::new();
    let mut writes = SmallVec::<[_; 2]>::new();
    let mut to = SmallVec::<[usize; PARTS]>::new();
    let mut params = Params {
        parts: [Part {
            first: u32::MAX,
            ..Part::default()
        }; PARTS],
    };
    let mut groups = 0u32;
    for (copy, slot) in copies.iter().zip(&mut params.parts) {
        let [x, y] = &copy.op.operands[..] else {
            return None;
        };
        let same = |old: &(Value, u64)| old.0.same(&y.0);
        let known = writes.iter().position(same);
        to.push(known.unwrap_or(writes.len()));
        if known.is_none() {
            writes.push(y.clone());
        }
        reads.push(x.clone());
        *slot = Part {
            first: groups,
            ..copy.part
        };
        groups = groups.checked_add(slot.n.div_ceil(4 * WORKGROUP))?;
    }
    let spec = spec(&to, copies.first()?.op.spec.dtype(0))?;
    let operands = reads.into_iter().chain(writes);
    let grid = Grid::Linear(groups.into());
    device.op(spec, operands, &params, grid).ok()
}
