//! RoPE of queries and of keys by the same angles becomes one kernel, which also reads what would be copied for it: models transpose
//! projections to heads first. Runs before `concat`, which would join these copies. Bit for bit.

use bytemuck::{bytes_of, Zeroable};
use smallvec::smallvec;

use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::trace::{stride, OperandView};
use crate::kernel::rope::qk::{self, QkParams, Side};
use crate::kernel::rope::{Params, ROPE};
use crate::kernel::threads;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

/// The most ops between the two, plus one.
const NEAR: usize = 8;

pub(crate) const RULE: Rule = Rule {
    name: "rope_qk",
    about: "RoPE of queries and of keys by the same angles, and copies for it alone: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&ROPE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The RoPE at a place and one near behind it, if both rotate by the same angles.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let near = graph.all().skip(at + 1).take(NEAR);
    let mut others = near.filter(|next| graph.kernel(*next) == Some(&ROPE));
    others.find_map(|next| {
        let pair = |copies| pair(device, graph, [at, next], copies);
        pair(true).or_else(|| pair(false))
    })
}

/// `copies`: whether to take copies of what is rotated, too.
fn pair(device: &Gpu, graph: &Graph, members: [usize; 2], copies: bool) -> Option<Rewrite> {
    let [a, b] = [graph.op(members[0])?, graph.op(members[1])?];
    let same = |i: usize| {
        let (x, y) = (&a.operands[i], &b.operands[i]);
        x.0.same(&y.0) && x.1 == y.1
    };
    if a.spec != b.spec || !same(1) || !same(2) {
        return None;
    }
    let [first, second]: [Params; 2] = [a.params(), b.params()];
    // Queries and keys may be parts of one value. Benchmarks rotate the same part again: keep those apart.
    if same(0) && first.x_offset == second.x_offset {
        return None;
    }
    // What the two must have in common.
    let [angles, others] = [&first, &second].map(|p| QkParams {
        head_dim: p.head_dim,
        c_offset: p.c_offset,
        s_offset: p.s_offset,
        x_inner_stride: p.x_inner_stride,
        c_strides: p.c_strides,
        s_strides: p.s_strides,
        ..QkParams::zeroed()
    });
    let mut all = Places::from_slice(&members);
    let mut source = |at: usize, op: &Op, params: Params| {
        let side = Side {
            n: params.n,
            offset: params.x_offset,
            dims: params.dims,
            strides: params.x_strides,
        };
        let original = copies.then(|| original(graph, at, op, side, &mut all));
        let copy = || (op.operands[0].clone(), side);
        original.flatten().unwrap_or_else(copy)
    };
    let (x, x_side) = source(members[0], a, first);
    let (u, u_side) = source(members[1], b, second);
    let [y, w] = [&a.operands[3], &b.operands[3]];
    if bytes_of(&angles) != bytes_of(&others) {
        return None;
    }
    let to = graph.place_for(&all, members)?;
    let params = QkParams {
        sides: [x_side, u_side],
        ..angles
    };
    let spec = qk::spec(&a.spec)?;
    let quads = first.n.div_ceil(4) as usize + second.n.div_ceil(4) as usize;
    let operands = [&x, &a.operands[1], &a.operands[2], y, &u, w];
    let op = device.op(spec, operands.into_iter().cloned(), &params, threads(quads));
    Some(Rewrite::new(&all, to, [op.ok()?]))
}

/// What the RoPE at a place rotates, if that is a copy that nothing else reads: its original, if the kernel can read that. Adds the copies
/// to `members`.
fn original(
    graph: &Graph,
    at: usize,
    op: &Op,
    copy: Side,
    members: &mut Places,
) -> Option<((Value, u64), Side)> {
    let Params {
        head_dim: d,
        x_inner_stride,
        ..
    } = op.params();
    let (dtype, access) = op.spec.operands[0];
    let ([i, j], [s0, s1, s2, _]) = (copy.dims, copy.strides);
    let outer = copy.n.checked_div(i * j * d)?;
    let axes = [(outer, s0), (i, s1), (j, s2), (d, x_inner_stride)];
    let mut copies = Places::new();
    let view = OperandView {
        reader: at,
        operand: 0,
        dtype,
        offset: copy.offset as usize,
        axes: axes.map(|(size, stride)| smallvec![(size as usize, stride as usize)]),
    };
    let view = view.trace(graph, &mut copies, None);
    let [s0, s1, s2, inner] = view.axes.each_ref().map(stride);
    let side = Side {
        offset: u32::try_from(view.offset).ok()?,
        strides: [s0?, s1?, s2?, 0],
        ..copy
    };
    let whole = |n: &u32| n.is_multiple_of(4) || access != Access::Quads;
    let fits = !copies.is_empty()
        && view.dtype == dtype
        && inner == Some(x_inner_stride)
        && side.strides.iter().chain([&side.offset]).all(whole);
    let value = view.value(graph).filter(|_| fits)?.clone();
    members.extend(copies);
    Some((value, side))
}
