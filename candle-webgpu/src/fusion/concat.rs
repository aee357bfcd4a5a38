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

type Copies = SmallVec<[usize; PARTS]>;

pub(crate) const RULE: Rule = Rule {
    name: "concat",
    about: "copies that do not overlap, as of a concatenation: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    apply: Apply::Batch(Scan::Due, find),
};

/// A copy and the later ones to merge with it, the place of the merged op, and the op.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let copy = |at: usize| {
        graph
            .op(at)
            .filter(|op| op.is_of(&COPY_QUADS) && part(op).is_some())
    };
    let first = copy(at)?;
    let mut members = Copies::from_slice(&[at]);
    let mut best = None;
    for next in graph.all().skip(at + 1).take(NEAR) {
        if copy(next).is_none_or(|op| op.spec != first.spec) {
            continue;
        }
        let with: Copies = members.iter().copied().chain([next]).collect();
        if with.len() > PARTS || !are_apart(graph, &with) {
            break;
        }
        members = with;
        let op = joined(device, graph, &members);
        if let Some((place, op)) = graph.place_for(&members, [at, next]).zip(op) {
            best = Some(Rewrite::new(&members, place, [op]));
        }
    }
    best
}

/// Whether no copy reads or writes what another writes.
fn are_apart(graph: &Graph, members: &[usize]) -> bool {
    let ops = || members.iter().filter_map(|at| graph.op(*at));
    ops().enumerate().all(|(i, a)| {
        ops().enumerate().all(|(j, b)| {
            let reads = a.operands[0].0.same(&b.operands[1].0);
            let (x, y) = (&a.operands[1], &b.operands[1]);
            !reads && (i == j || !x.0.same(&y.0) || x.1 == y.1 && do_not_meet(a, b))
        })
    })
}

/// Whether two copies into one value write disjoint elements: their rows lie side by side, or one lies after all of the other. May be
/// false for disjoint ones.
fn do_not_meet(a: &Op, b: &Op) -> bool {
    let (Some(a), Some(b)) = (part(a), part(b)) else {
        return false;
    };
    let span = |p: &Part| {
        let steps = p.dims.iter().zip(p.strides[1]);
        let far: u64 = steps.map(|(d, s)| u64::from(d - 1) * u64::from(s)).sum();
        (u64::from(p.offsets[1]), u64::from(p.offsets[1]) + far + 1)
    };
    let ((a0, a1), (b0, b1)) = (span(&a), span(&b));
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
    match (rows(&a), rows(&b)) {
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
fn joined(device: &Gpu, graph: &Graph, members: &[usize]) -> Option<Op> {
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
    for (&member, slot) in members.iter().zip(&mut params.parts) {
        let op = graph.op(member)?;
        let [x, y] = &op.operands[..] else {
            return None;
        };
        let same = |old: &(Value, u64)| old.0.same(&y.0);
        let known = writes.iter().position(same);
        to.push(known.unwrap_or(writes.len()));
        if known.is_none() {
            writes.push(y.clone());
        }
        reads.push(x.clone());
        *slot = part(op)?;
        slot.first = groups;
        groups = groups.checked_add(slot.n.div_ceil(4 * WORKGROUP))?;
    }
    let spec = spec(&to, graph.op(*members.first()?)?.spec.dtype(0))?;
    let operands = reads.into_iter().chain(writes);
    let grid = Grid::Linear(groups.into());
    device.op(spec, operands, &params, grid).ok()
}
