//! Keys that were turned with their queries go into their cache at once, and values beside them into theirs. Behind `cats` and
//! `ropes`, whose kernels become one. Bit for bit.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::{concat, rope_qk, Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::copy::concat::{destinations, Params as Copies, Part as Copy};
use crate::kernel::rope::kv_cache::{spec, Params, Part, PARTS};
use crate::kernel::rope::{PairParams, ROPE_QK};
use crate::kernel::threads;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Op, Operands};

pub(crate) const RULE: Rule = Rule {
    name: "rope_kv_cache",
    about: "a kernel of `rope_qk` and the copies into the KV cache behind it: one kernel",
    enabled: Enabled::OnGpu,
    exact: Exact::Always,
    needs: &[&concat::RULE, &rope_qk::RULE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The copies of keys that are turned at a place, where both can be done, and by what.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let pair = graph.op(at).filter(|op| op.is_of(&ROPE_QK))?;
    let keys = pair.operands.get(KEYS)?;
    let copies = *graph.readers(&keys.0).first()?;
    if graph.sole_producer(Some(keys), copies) != Some(at) {
        return None;
    }
    let to = [at, copies]
        .into_iter()
        .find(|to| graph.can_move(&[at, copies], *to))?;
    let op = joined(device, pair, graph.op(copies)?)?;
    Some(Rewrite::new(&[at, copies], to, [op]))
}

/// Which operands of [`ROPE_QK`] the turned queries and keys are.
const QUERIES: usize = 3;
const KEYS: usize = 5;

/// Both as one, if all that is copied are rows of whole quads.
fn joined(device: &Gpu, pair: &Op, copies: &Op) -> Option<Op> {
    let to = destinations(copies.spec.kernel)?;
    let (reads, writes) = copies.operands.split_at(to.len());
    let keys = &pair.operands[KEYS];
    let mut from_keys = (0..to.len()).filter(|part| reads[*part].0.same(&keys.0));
    let turned = from_keys.next()?;
    // Beside them the values, and what is copied in front of either.
    let mut beside = (0..to.len()).filter(|part| to[*part] != to[turned]);
    let mut before = (0..to.len()).filter(|part| *part != turned && to[*part] == to[turned]);
    let values = beside.next()?;
    let order = [Some(turned), Some(values), before.next(), beside.next()];
    let order: SmallVec<[usize; PARTS]> = order.into_iter().flatten().collect();
    let made = |i: usize| &writes[to[order[i]]];
    let queries = &pair.operands[QUERIES].0;
    let read = (0..to.len()).any(|part| reads[part].0.same(queries));
    let written = |(old, _): &(Value, u64)| writes.iter().any(|(new, _)| new.same(old));
    if order.len() != to.len()
        || from_keys.next().is_some()
        || read
        || pair.operands.iter().any(written)
    {
        return None;
    }
    let spec = spec(&pair.spec, order.len())?;
    let most = device.limits.max_storage_buffers_per_shader_stage as usize;
    if spec.bindings().count() > most {
        return None;
    }
    let scale = copies.spec.dtype(0).size() / pair.spec.dtype(0).size();
    let recorded: Copies = copies.params();
    let turns: PairParams = pair.params();
    let mut params = Params {
        pair: turns,
        parts: [Part::default(); PARTS],
    };
    for (part, slot) in order.iter().zip(&mut params.parts) {
        *slot = rows(&recorded.parts[*part], scale as u32)?;
    }
    let [turned_rows, ..] = params.parts;
    let dense = turned_rows.source == 0
        && (turned_rows.n == turned_rows.run || turned_rows.source_stride == turned_rows.run);
    if !dense || reads[turned].1 != 0 || turns.sides[1].n != turned_rows.n * 4 {
        return None;
    }
    let [queries, ..] = turns.sides;
    let quads = params
        .parts
        .iter()
        .map(|part| part.n as usize)
        .sum::<usize>();
    let grid = device.split(&spec, threads(quads + queries.n.div_ceil(4) as usize));
    let mut operands: Operands = pair.operands[..KEYS].iter().cloned().collect();
    operands.extend([made(0).clone(), reads[values].clone(), made(1).clone()]);
    operands.extend(order[2..].iter().map(|part| reads[*part].clone()));
    Some(Op::new(spec, operands, &params, grid.ok()?))
}

/// A part as rows of quads, if that is what it is; its elements are `scale` of the others each.
fn rows(part: &Copy, scale: u32) -> Option<Part> {
    let [_, _, _, inner] = part.dims;
    let dense = inner == 1 || part.strides.iter().all(|strides| strides[3] == 1);
    let (mut run, mut count, mut steps) = (inner, 1, [0; 2]);
    for d in (0..3).rev() {
        let (size, here) = (part.dims[d], part.strides.map(|strides| strides[d]));
        if size == 1 {
            continue;
        }
        if count == 1 && here == [run; 2] {
            run = run.checked_mul(size)?;
        } else if count == 1 {
            (count, steps) = (size, here);
        } else if here == steps.map(|step| step.wrapping_mul(count)) {
            count = count.checked_mul(size)?;
        } else {
            return None;
        }
    }
    let quads = |n: u32| {
        let elements = n.checked_mul(scale)?;
        elements.is_multiple_of(4).then_some(elements / 4)
    };
    if !dense || part.n != run.checked_mul(count)? {
        return None;
    }
    Some(Part {
        n: quads(part.n)?,
        run: quads(run)?,
        source: quads(part.offsets[0])?,
        place: quads(part.offsets[1])?,
        source_stride: quads(steps[0])?,
        place_stride: quads(steps[1])?,
        pad: [0; 2],
    })
}

#[cfg(test)]
mod tests {
    use crate::device::Device;
    use crate::dtype::DType;
    use crate::fusion::testing::{same_bits, Bench, T};

    /// Queries, and keys and values of `heads` heads, `t` of them behind `old` others.
    fn pass(b: &Bench, dtype: DType, [heads, old, t, d]: [usize; 4]) -> [T; 7] {
        [
            b.of(dtype, &[1, 4, t, d]),
            b.of(dtype, &[1, heads, t, d]),
            b.of(dtype, &[heads, t, d]),
            b.of(dtype, &[heads, old, d]),
            b.of(dtype, &[heads, old, d]),
            b.of(dtype, &[t, d / 2]),
            b.of(dtype, &[t, d / 2]),
        ]
    }

    fn heads(k: &T) -> T {
        T::new(k.value.clone(), k.dtype, &k.dims[1..])
    }

    #[test]
    fn caches_that_grow() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for dims in [[2, 9, 1, 64], [1, 3, 1, 16], [3, 8, 5, 32]] {
                let counts = same_bits(|b| {
                    let [q, k, v, old_k, old_v, cos, sin] = pass(b, dtype, dims);
                    let angles = [cos, sin];
                    let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
                    let keys = b.cat(&[&old_k, &heads(&k)]);
                    vec![q, keys, b.cat(&[&old_v, &v])]
                });
                assert_eq!(counts.1 - counts.0, 5, "{dtype} {dims:?}");
            }
        }
    }

    #[test]
    fn caches_with_room() {
        for dtype in [DType::F32, DType::F16] {
            let counts = same_bits(|b| {
                let [q, k, v, old_k, old_v, cos, sin] = pass(b, dtype, [2, 9, 1, 64]);
                let angles = [cos, sin];
                let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
                for (new, old) in [(&k, &old_k), (&v, &old_v)] {
                    let new = new.shown(&[2, 64], &[64, 1], 0);
                    let to = old.shown(&[2, 64], &[9 * 64, 1], 4 * 64);
                    b.device.copy_into(new.v(), to.v()).expect("copy");
                }
                vec![q, old_k, old_v]
            });
            assert_eq!(counts.1 - counts.0, 3, "{dtype}");
        }
    }

    /// Wherever batches end.
    #[test]
    fn many_layers() {
        let b = Bench::new("");
        let [q, k, v, old_k, old_v, cos, sin] = pass(&b, DType::F32, [2, 9, 1, 64]);
        let angles = [cos, sin];
        for shift in 0..8 {
            let count = |device: &Device| device.stats().dispatches;
            b.device.read(&q.value, 0, 4).expect("bytes");
            let before = count(&b.device);
            for _ in 0..shift {
                b.softmax(&q);
            }
            for _ in 0..40 {
                let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
                let _keys = b.cat(&[&old_k, &heads(&k)]);
                drop(k);
                b.cat(&[&old_v, &v]);
                b.softmax(&b.softmax(&q));
            }
            b.device.synchronize().expect("no error");
            assert_eq!(count(&b.device) - before, 3 * 40 + shift, "{shift}");
        }
    }

    #[test]
    fn keys_that_are_read_again() {
        let counts = same_bits(|b| {
            let [q, k, v, old_k, old_v, cos, sin] = pass(b, DType::F32, [2, 9, 1, 64]);
            let angles = [cos, sin];
            let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
            let keys = b.cat(&[&old_k, &heads(&k)]);
            vec![q, keys, b.cat(&[&old_v, &v]), k]
        });
        assert_eq!(
            counts.1 - counts.0,
            4,
            "the copies and the ropes stay apart"
        );
    }

    #[test]
    fn rows_that_are_no_quads() {
        let counts = same_bits(|b| {
            let [q, k, v, old_k, old_v, cos, sin] = pass(b, DType::F32, [2, 9, 1, 10]);
            let angles = [cos, sin];
            let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
            let keys = b.cat(&[&old_k, &heads(&k)]);
            vec![q, keys, b.cat(&[&old_v, &v])]
        });
        assert_eq!(counts.1 - counts.0, 1, "the ropes are one");
    }
}
