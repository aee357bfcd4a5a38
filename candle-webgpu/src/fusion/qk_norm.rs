//! RoPE of queries and keys also normalizes them, as Qwen 3 does (QK norm): a row of a head is so short that a thread adds up its squares on
//! the way. Runs after the rules that make kernels with RoPE. Not bit for bit: the squares are added up in another order.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rope_qk;
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::attention::plan::Params;
use crate::kernel::attention::rope_flash_decode::ROPE_FLASH_DECODE_IN_PLACE;
use crate::kernel::norm::{NormParams, RMS_NORM};
use crate::kernel::rope::kv_cache::ROPE_KV_CACHE;
use crate::kernel::rope::qk::{with_norms, QkParams, ROPE_QK};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "qk_norm",
    about: "rms_norm of queries and of keys, and the kernel that rotates them: one kernel",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("rms_norm"),
    needs: &[&rope_qk::RULE],
    at: &[&ROPE_QK, &ROPE_KV_CACHE, &ROPE_FLASH_DECODE_IN_PLACE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The op at a place, if both of its sides are norms.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let sides = [0, op.spec.place("u")?];
    let norms = [
        Norm::of(graph, at, sides[0])?,
        Norm::of(graph, at, sides[1])?,
    ];
    let spec = with_norms(&op.spec).filter(|spec| device.has_room(spec))?;
    let [eps, other] = norms.each_ref().map(|norm| norm.params.eps);
    let mut operands = op.operands.clone();
    for (i, norm) in sides.into_iter().zip(&norms) {
        operands[i] = norm.op.operands[X].clone();
    }
    operands.extend(norms.each_ref().map(|norm| norm.op.operands[ALPHA].clone()));
    let op = if [&ROPE_QK, &ROPE_KV_CACHE].iter().any(|of| op.is_of(of)) {
        let mut params: QkParams = op.params();
        for (norm, side) in norms.iter().zip(&mut params.sides) {
            side.offset = norm.start(params.head_dim, &side.strides, side.offset)?;
        }
        params.eps = eps;
        Op::new(spec, operands, &params, op.grid)
    } else {
        let mut params: Params = op.params();
        let [q, u] = [params.q_strides, params.u_strides];
        params.offsets[0] = norms[0].start(params.head_dim, &q, params.offsets[0])?;
        params.u_strides[2] = norms[1].start(params.head_dim, &u[..2], u[2])?;
        params.u_strides[3] = eps.to_bits();
        Op::new(spec, operands, &params, op.grid)
    };
    let members = [at, norms[0].at, norms[1].at];
    let moves = eps == other && graph.can_move(&members, at);
    moves.then(|| Rewrite::new(&members, at, [op]))
}

/// The operands of [`RMS_NORM`] that it reads.
const X: usize = 0;
const ALPHA: usize = 1;

/// An rms_norm whose result only one op reads.
struct Norm<'a> {
    at: usize,
    op: &'a Op,
    params: NormParams,
}

impl<'a> Norm<'a> {
    /// The producer of operand `i` of the op at a place.
    fn of(graph: &'a Graph, reader: usize, i: usize) -> Option<Self> {
        let to = graph.op(reader)?;
        let at = graph.sole_producer(to.operands.get(i), reader)?;
        let op = graph.op(at).filter(|op| op.is_of(&RMS_NORM))?;
        let params: NormParams = op.params();
        let same = op.spec.operands[X] == to.spec.operands[i];
        (same && params.alpha_offset == 0).then_some(Norm { at, op, params })
    }

    /// Where rows of `len` elements begin in x that are read from y at these strides from an offset on; `None` unless they are rows of the norm.
    fn start(&self, len: u32, strides: &[u32], offset: u32) -> Option<u32> {
        let mut starts = strides.iter().chain([&offset]);
        let whole = len == self.params.n && starts.all(|start| start.is_multiple_of(len));
        offset.checked_add(self.params.x_offset).filter(|_| whole)
    }
}
