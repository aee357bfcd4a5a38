//! `rope_qk` writes the rotated keys straight into the KV cache and copies the values into theirs. Runs after `rope_qk` and `concat`,
//! whose kernels become one. Bit for bit.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::{concat, rope_qk};
use crate::kernel::copy::concat::{destinations, Params as Copies, Part as Copy};
use crate::kernel::rope::kv_cache::{spec, PARTS};
use crate::kernel::rope::qk::{Part, QkParams, ROPE_QK};
use crate::kernel::threads;
use crate::memory::merge::merge;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "rope_kv_cache",
    about: "a kernel of `rope_qk` and the copies into the KV cache behind it: one kernel",
    enabled: Enabled::OnGpu,
    exact: Exact::Always,
    needs: &[&rope_qk::RULE, &concat::RULE],
    at: &[&ROPE_QK],
    apply: Apply::Batch(Scan::Due, find),
};

/// The `rope_qk` at a place and the copies that read its keys.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let qk = graph.op(at)?;
    let copies = graph.sole_reader(at, KEYS)?;
    let to = graph.place_for(&[at, copies], [at, copies])?;
    let op = fuse(device, qk, graph.op(copies)?)?;
    Some(Rewrite::new(&[at, copies], to, [op]))
}

/// The operands of [`ROPE_QK`] that are the rotated queries and keys.
const QUERIES: usize = 3;
const KEYS: usize = 5;

/// One op for both, if all copies are of rows of whole quads.
fn fuse(device: &Gpu, qk: &Op, copies: &Op) -> Option<Box<Op>> {
    let to = destinations(&copies.spec)?;
    let (reads, writes) = copies.operands.split_at(to.len());
    let keys = &qk.operands[KEYS];
    let mut from_keys = (0..to.len()).filter(|part| reads[*part].0.same(&keys.0));
    let rotated = from_keys.next()?;
    // The other copies: the new values, and the old keys and values in front of either.
    let mut beside = (0..to.len()).filter(|part| to[*part] != to[rotated]);
    let mut before = (0..to.len()).filter(|part| *part != rotated && to[*part] == to[rotated]);
    let values = beside.next()?;
    let order = [Some(rotated), Some(values), before.next(), beside.next()];
    let order: SmallVec<[usize; PARTS]> = order.into_iter().flatten().collect();
    let made = |i: usize| &writes[to[order[i]]];
    let queries = &qk.operands[QUERIES].0;
    let read = (0..to.len()).any(|part| reads[part].0.same(queries));
    if order.len() != to.len() || from_keys.next().is_some() || read {
        return None;
    }
    let spec = spec(&qk.spec, order.len())?;
    if !device.has_room(&spec) {
        return None;
    }
    let scale = copies.spec.dtype(0).size() / qk.spec.dtype(0).size();
    let recorded: Copies = copies.params();
    let mut params: QkParams = qk.params();
    for (part, slot) in order.iter().zip(&mut params.parts) {
        *slot = rows(&recorded.parts[*part], scale as u32)?;
    }
    let [key_rows, ..] = params.parts;
    let dense = key_rows.source == 0
        && (key_rows.n == key_rows.run || key_rows.source_stride == key_rows.run);
    if !dense || reads[rotated].1 != 0 || params.sides[1].n != key_rows.n * 4 {
        return None;
    }
    let [queries, ..] = params.sides;
    let quads: usize = params.parts.iter().map(|part| part.n as usize).sum();
    let grid = threads(quads + queries.n.div_ceil(4) as usize);
    let inputs = qk.operands[..KEYS].iter();
    let caches = [made(0), &reads[values], made(1)];
    let before = order[2..].iter().map(|part| &reads[*part]);
    let operands = inputs.chain(caches).chain(before).cloned();
    device.op(spec, operands, &params, grid).ok()
}

/// A copy as rows of whole quads, if it is that; each of its elements counts as `scale` elements.
fn rows(part: &Copy, scale: u32) -> Option<Part> {
    let wide = |sizes: [u32; 4]| sizes.map(|n| n as usize);
    let [x, y] = part.strides.map(wide);
    let merged = merge(RULE.name, &wide(part.dims), [&x, &y]).ok()?;
    let inner = merged.rank - 1;
    if inner > 1 || merged.strides.iter().any(|strides| strides[inner] != 1) {
        return None;
    }
    let steps = match inner {
        0 => [0; 2],
        _ => merged.strides.map(|strides| strides[0]),
    };
    let quads = |n: u32| {
        let elements = n.checked_mul(scale)?;
        elements.is_multiple_of(4).then_some(elements / 4)
    };
    Some(Part {
        n: quads(part.n)?,
        run: quads(merged.dims[inner])?,
        source: quads(part.offsets[0])?,
        place: quads(part.offsets[1])?,
        source_stride: quads(steps[0])?,
        place_stride: quads(steps[1])?,
        pad: [0; 2],
    })
}
