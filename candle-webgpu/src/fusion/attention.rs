//! `softmax(mask(softcap(scale q k^T))) v` becomes the kernels of `sdpa`, which never store the matrix of scores. Copies that repeat KV
//! heads and casts around it disappear, too. Not bit for bit: sums have another order, and scores are not rounded to their dtype.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::fusion::attention_mask::{mask_of, mask_view};
use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::heads::Heads;
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::trace::{common_dims, may_be_due, stride, Axis, CopyMap, OperandView};
use crate::kernel::attention::plan::{plan, Mask, Params, MAX_HEAD_DIM};
use crate::kernel::elementwise::unary::{CAST_OP, UNARY};
use crate::kernel::matmul::plan::is_matmul;
use crate::kernel::matmul::problem::Params as Matmul;
use crate::kernel::matmul::store::FLOATS;
use crate::kernel::softmax::{SoftmaxParams, SOFTMAX};
use crate::kernel::Strided;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Op, Operands};
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "attention",
    about: "matmul, scale, soft cap, mask, softmax, matmul: the kernels of sdpa",
    enabled: Enabled::Always,
    exact: Exact::Before("softmax_last_dim"),
    needs: &[],
    at: &[&SOFTMAX],
    apply: Apply::Batch(Scan::All, find),
};

/// What happens to scores before the softmax.
struct Scores {
    scale: f32,
    softcap: f32,
    /// The place of the op that masks, and how.
    mask: Option<(usize, Mask)>,
}

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let size: SoftmaxParams = graph.op(at)?.params();
    let mut members = Places::from_slice(&[at]);
    let (first, scores) = before(graph, at, &mut members)?;
    let second = after(graph, at, &mut members)?;
    let [qk, pv]: [Matmul; 2] = [graph.op(first)?.params(), graph.op(second)?.params()];
    let fits = size.x_offset == 0
        && (qk.batch, qk.m, qk.n) == (pv.batch, pv.m, pv.k)
        && (size.rows, size.n) == (qk.batch * qk.m, qk.n)
        && pv.a_offset == 0
        && is_dense(&pv);
    if !fits {
        return None;
    }
    let matmuls = [(first, &qk), (second, &pv)];
    fused(device, graph, members, matmuls, scores)
}

/// Whether the first operand of a matmul is contiguous, as the softmax leaves it.
fn is_dense(matmul: &Matmul) -> bool {
    let mut step = matmul.m * matmul.k;
    let mut batch = matmul.dims.iter().zip(matmul.a_batch);
    let dense = batch.all(|(size, stride)| {
        let dense = *size == 1 || stride == step;
        step *= size;
        dense
    });
    dense && (matmul.k == 1 || matmul.a_k == 1) && (matmul.m == 1 || matmul.a_m == matmul.k)
}

/// Goes back from the softmax to q k^T.
fn before(graph: &Graph, at: usize, members: &mut Places) -> Option<(usize, Scores)> {
    let mut scores = Scores {
        scale: 1.0,
        softcap: 1.0,
        mask: None,
    };
    let (mut reader, mut operand) = (at, 0);
    let mut capped = None;
    loop {
        let read = graph.op(reader)?;
        let dtype = read.spec.dtype(operand);
        let producer = graph.sole_producer(read.operands.get(operand), reader)?;
        let op = graph.op(producer)?;
        members.push(producer);
        (reader, operand) = (producer, 0);
        let flat = op.spec.operands[0].1 == Access::Flat;
        if is_matmul(&op.spec) {
            // To the kernels a softcap of 1 means none.
            if capped == Some(1.0) {
                return None;
            }
            scores.softcap = capped.unwrap_or(1.0);
            return Some((producer, scores));
        }
        if op.is_of(&UNARY) && flat {
            let params: Strided<1> = op.params();
            let [a, b] = [params.offsets[2], params.pad[0]].map(f32::from_bits);
            match op.spec.op {
                _ if params.offsets[0] != 0 => return None,
                "affine" if b == 0.0 => scores.scale *= a,
                // The scale found so far multiplies the result of tanh: it is the softcap.
                "utanh" if capped.is_none() => {
                    capped = Some(std::mem::replace(&mut scores.scale, 1.0));
                }
                CAST_OP if op.spec.dtype(1) == DType::F32 && FLOATS.contains(&op.spec.dtype(0)) => {
                }
                _ => return None,
            }
            continue;
        }
        // Only the last op before the softmax may be a mask.
        if scores.mask.is_some() || capped.is_some() || scores.scale != 1.0 {
            return None;
        }
        let (mask, next) = mask_of(op, dtype)?;
        scores.mask = Some((producer, mask));
        operand = next;
    }
}

/// The only op that reads the result of the op at a place, if it does so as its first operand.
fn next(graph: &Graph, at: usize) -> Option<usize> {
    let (y, start) = graph.op(at)?.operands.last()?;
    let next = *graph.readers(y).first()?;
    let first = graph.op(next)?.operands.first()?;
    let same = first.0.same(y) && *start == 0;
    (same && graph.sole_producer(Some(first), next) == Some(at)).then_some(next)
}

/// Goes on from the softmax to the matmul with v.
fn after(graph: &Graph, at: usize, members: &mut Places) -> Option<usize> {
    let mut place = at;
    loop {
        place = next(graph, place)?;
        members.push(place);
        let op = graph.op(place)?;
        if is_matmul(&op.spec) {
            return Some(place);
        }
        if !is_cast(op) {
            return None;
        }
    }
}

/// Whether an op casts all of a value from a float dtype to another.
fn is_cast(op: &Op) -> bool {
    op.is_of(&UNARY)
        && op.spec.op == CAST_OP
        && op.spec.operands[0].1 == Access::Flat
        && op.params::<Strided<1>>().offsets[0] == 0
        && [0, 1].iter().all(|i| FLOATS.contains(&op.spec.dtype(*i)))
}

/// Where the result goes.
struct Output {
    y: (Value, u64),
    /// The copy that puts it there.
    copy: Option<usize>,
    /// Along (batch, queries, last dim).
    view: OperandView<3>,
}

impl Output {
    /// The result of the op at a place, which is dense: `dims` are (batch, queries, last dim).
    fn of(graph: &Graph, place: usize, [batch, i, c]: [usize; 3]) -> Option<Output> {
        let op = graph.op(place)?;
        let last = op.operands.len() - 1;
        let axis = |size, stride| Axis::from_slice(&[(size, stride)]);
        let view = OperandView {
            reader: place,
            operand: last,
            dtype: op.spec.dtype(last),
            offset: 0,
            axes: [axis(batch, i * c), axis(i, c), axis(c, 1)],
        };
        Some(Output {
            y: op.operands[last].clone(),
            copy: None,
            view,
        })
    }

    /// The same behind a copy in another order that is its only reader, as from heads to tokens.
    fn copied(&self, graph: &Graph, count: usize) -> Option<Output> {
        let copy = next(graph, self.view.reader)?;
        let op = graph.op(copy)?;
        let map = CopyMap::inverse(op, self.view.dtype, count)?;
        Some(Output {
            y: op.operands.last()?.clone(),
            copy: Some(copy),
            view: self.view.through(&map, copy, 0)?,
        })
    }
}

/// The batch dims of a matmul.
fn batch(matmul: &Matmul, strides: [u32; 4]) -> Axis {
    let dims = matmul.dims.iter().zip(strides).rev();
    dims.map(|(size, stride)| (*size as usize, stride as usize))
        .collect()
}

/// The ops of `sdpa`, from the places and parameters of q k^T and of weights times v.
fn fused(
    device: &Gpu,
    graph: &Graph,
    mut members: Places,
    [(first, qk), (second, pv)]: [(usize, &Matmul); 2],
    mut scores: Scores,
) -> Option<Rewrite> {
    // Tracing takes long, and a later batch tries again.
    let ends = [(first, 0), (first, 1), (second, 1)];
    if !ends.iter().any(|(at, i)| may_be_due(graph, *at, *i)) {
        return None;
    }
    let axis = |size: u32, stride: u32| Axis::from_slice(&[(size as usize, stride as usize)]);
    let view = |(reader, operand), offset: u32, axes| {
        let dtype = graph.op(reader)?.spec.dtype(operand);
        Some(OperandView {
            reader,
            operand,
            dtype,
            offset: offset as usize,
            axes,
        })
    };
    let (i, j, d, c) = (qk.m, qk.n, qk.k, pv.n);
    let q_axes = [batch(qk, qk.a_batch), axis(i, qk.a_m), axis(d, qk.a_k)];
    let k_axes = [batch(qk, qk.b_batch), axis(j, qk.b_n), axis(d, qk.b_k)];
    let v_axes = [batch(pv, pv.b_batch), axis(j, pv.b_k), axis(c, pv.b_n)];
    let scale = &mut scores.scale;
    let q = view((first, 0), qk.a_offset, q_axes)?.trace(graph, &mut members, Some(scale));
    let k = view((first, 1), qk.b_offset, k_axes)?.trace(graph, &mut members, Some(scale));
    let v = view((second, 1), pv.b_offset, v_axes)?.trace(graph, &mut members, None);
    let dtype = q.dtype;
    let fits = |n: u32| n > 0 && n.is_multiple_of(4) && n as usize <= MAX_HEAD_DIM;
    let same = [k.dtype, v.dtype] == [dtype; 2];
    // Those found later come later.
    let is_due = members.iter().any(|at| graph.due().contains(at));
    if !is_due || !FLOATS.contains(&dtype) || !same || !fits(d) || !fits(c) {
        return None;
    }
    // Without a mask, q is bound in its place.
    let (mask, how, fill) = match scores.mask {
        None => (q.clone(), Mask::None, None),
        Some((at, how)) => mask_view(graph, (at, how), [qk.batch, i, j])?,
    };
    let cast = next(graph, second).filter(|next| graph.op(*next).is_some_and(is_cast));
    members.extend(cast);
    let sizes = [qk.batch, i, c].map(|n| n as usize);
    let dense = Output::of(graph, cast.unwrap_or(second), sizes)?;
    let with = |out: Output| {
        let [batch, row, last] = &out.view.axes;
        let axes = [&q.axes[0], &k.axes[0], &v.axes[0], &mask.axes[0], batch];
        let heads = Heads::of(&common_dims(axes)?)?;
        let (row, last) = (stride(row)?, stride(last)?);
        let [b, g, group] = heads.strides[4];
        let whole = last == 1 && [b, g, group, row].iter().all(|n| n.is_multiple_of(4));
        whole.then_some((heads, row, out))
    };
    // A kernel cannot write to what it reads.
    let bound = [&q, &k, &v, &mask].map(|view| view.value(graph));
    let is_read = |y: &Value| {
        let fill = fill.as_ref().map(|(bound, _)| bound);
        bound
            .iter()
            .flatten()
            .copied()
            .chain(fill)
            .any(|(x, _)| x.same(y))
    };
    let copied = dense.copied(graph, sizes.iter().product());
    let copied = copied.filter(|out| !is_read(&out.y.0));
    let (heads, yi, out) = copied.and_then(with).or_else(|| with(dense))?;
    if out.view.dtype != dtype {
        return None;
    }
    members.extend(out.copy);
    let all = [&q, &k, &v, &mask];
    let [Some(qi), Some(kj), Some(vj), Some(mi)] = all.map(|s| stride(&s.axes[1])) else {
        return None;
    };
    let [Some(qd), Some(kd), Some(vc), Some(mj)] = all.map(|s| stride(&s.axes[2])) else {
        return None;
    };
    let offset = |at: usize| u32::try_from(at).ok();
    let [q0, k0, v0, m0] = all.map(|s| offset(s.offset));
    let strides = |n: usize, last: u32| {
        let [b, g, group] = heads.strides[n];
        [b, g, group, last]
    };
    let params = Params {
        head_dim: d,
        v_dim: c,
        queries: i,
        keys: j,
        rows: heads.sizes[2].checked_mul(i)?,
        kv_heads: heads.sizes[1],
        matrices: heads.sizes[0] * heads.sizes[1],
        scale: scores.scale,
        softcap: scores.softcap,
        offsets: [q0?, k0?, v0?, m0?],
        inner_strides: [qd, kd, vc, mj],
        q_strides: strides(0, qi),
        k_strides: strides(1, kj),
        v_strides: strides(2, vj),
        mask_strides: strides(3, mi),
        y_strides: strides(4, yi).map(|n| n / 4),
        fill_offset: fill.as_ref().map_or(0, |(_, offset)| *offset),
        ..Params::new()
    };
    let last = members.iter().max()?;
    if !graph.can_move(&members, *last) {
        return None;
    }
    let plan = plan(device, (dtype, how), params);
    let reads = all.iter().map(|view| view.value(graph).cloned());
    let mut operands = reads.collect::<Option<Operands>>()?;
    let (mut y, mut second) = (out.y, None);
    if let Some(merge) = plan.merge {
        let bytes = merge.floats as u64 * 4;
        if bytes > device.binding_limit() {
            return None;
        }
        let partials = (Value::internal(&device.pool, bytes), 0);
        let operands = [partials.clone(), y];
        let op = device.op(merge.spec, operands, &merge.params, merge.grid);
        second = Some(op.ok()?);
        y = partials;
    }
    operands.push(y);
    operands.extend(fill.map(|(bound, _)| bound));
    let mut ops = SmallVec::new();
    if let Some(made) = plan.block_mask {
        let blocks = (Value::internal(&device.pool, made.words as u64 * 4), 0);
        let bound = [operands[3].clone(), blocks.clone()];
        operands.push(blocks);
        let op = device.op(made.spec, bound, &made.params, made.grid);
        // Here the mask has the contents that masked the scores.
        ops.push((scores.mask?.0, op.ok()?));
    }
    let op = device
        .op(plan.spec, operands, &plan.params, plan.grid)
        .ok()?;
    // A place of its own, where the rule rope_attention finds it.
    let to = match second {
        Some(_) => graph.place_for(&members, [members[0], *last])?,
        None => *last,
    };
    ops.push((to, op));
    ops.extend(second.map(|op| (*last, op)));
    Some(Rewrite::to_places(&members, ops))
}
