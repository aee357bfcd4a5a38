//! RoPE of queries and of keys by the same angles becomes one kernel. Bit for bit.

use bytemuck::{bytes_of, Zeroable};

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::rope::qk::{self, QkParams, Side};
use crate::kernel::rope::{Params, ROPE};
use crate::kernel::threads;
use crate::recorder::gpu::Gpu;

/// The most ops between the two, plus one.
const NEAR: usize = 8;

pub(crate) const RULE: Rule = Rule {
    name: "rope_qk",
    about: "RoPE of queries and of keys by the same angles: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&ROPE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The RoPE at a place and one near behind it, if both rotate by the same angles.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let mut others = graph.all().skip(at + 1).take(NEAR);
    others.find_map(|next| pair(device, graph, [at, next]))
}

fn pair(device: &Gpu, graph: &Graph, members: [usize; 2]) -> Option<Rewrite> {
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
    // Neither reads what the other writes, and they write different values.
    let apart = ![0, 3]
        .iter()
        .any(|i| b.operands[*i].0.same(&a.operands[3].0))
        && !a.operands[0].0.same(&b.operands[3].0);
    if bytes_of(&angles) != bytes_of(&others) || !apart {
        return None;
    }
    let to = graph.place_for(&members, members)?;
    let sides = [&first, &second].map(|p| Side {
        n: p.n,
        offset: p.x_offset,
        dims: p.dims,
        strides: p.x_strides,
    });
    let params = QkParams { sides, ..angles };
    let spec = qk::spec(&a.spec)?;
    let quads = first.n.div_ceil(4) as usize + second.n.div_ceil(4) as usize;
    let operands = a.operands.iter().chain([&b.operands[0], &b.operands[3]]);
    let op = device.op(spec, operands.cloned(), &params, threads(quads));
    Some(Rewrite::new(&members, to, [op.ok()?]))
}
