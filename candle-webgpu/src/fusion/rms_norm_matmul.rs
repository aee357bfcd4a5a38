//! Fuses the rms_norm of one row into the matmuls that read it: each workgroup of a matmul reads the whole row, and the norm's
//! factor can scale the accumulators. Runs after `fused_projections` and `matmul_epilogue`, whose kernels also have variants
//! with a norm.
//!
//! Not bit for bit: x * alpha is not rounded to the dtype before the matmul, and the norm's factor is applied last.

use smallvec::SmallVec;

use crate::fusion::graph::{Graph, Places, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::rms_norm_gemv::{params, spec};
use crate::kernel::norm::{NormParams, RMS_NORM};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "rms_norm_matmul",
    about: "rms_norm of one row and the matmuls that read it: matmuls that normalize their row",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("rms_norm"),
    needs: &[],
    at: &[&RMS_NORM],
    apply: Apply::Batch(Scan::Due, find),
};

/// Fuses the norm at a position into the matmuls that read it, if all of them can take it.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let norm = graph.op(at)?;
    let (y, _) = norm.operands.get(2)?;
    if graph.producer(y) != Some(at) {
        return None;
    }
    let mut members = Places::from_slice(&[at]);
    members.extend_from_slice(graph.readers(y));
    members.sort_unstable();
    members.dedup();
    // Each matmul computes the norm at its own position.
    let matmuls = members.iter().filter(|member| **member != at);
    let fused = matmuls.map(|&matmul| {
        let fits = graph.due().contains(&matmul) && graph.can_move_one(at, matmul, &members);
        let op = fits.then(|| normed(device, graph, at, matmul))??;
        Some((matmul, op))
    });
    let ops = fused.collect::<Option<SmallVec<_>>>()?;
    (!ops.is_empty()).then(|| Rewrite::to_places(&members, ops))
}

/// The matmul at one position with the norm at another fused in front.
fn normed(device: &Gpu, graph: &Graph, at: usize, matmul: usize) -> Option<Box<Op>> {
    let (norm, op) = (graph.op(at)?, graph.op(matmul)?);
    let [x, alpha, (y, start)] = &norm.operands[..] else {
        return None;
    };
    let ((a, a_start), others) = op.operands.split_first()?;
    let (row, of): (NormParams, MatmulParams) = (norm.params(), op.params());
    let dtype = norm.spec.dtype(0);
    let fused = spec(&op.spec)?;
    // The alignment of 16-byte loads, or of quads.
    let step = match fused.dtype(0).size() {
        2 if fused.operands[0].1 == Access::Raw => 8,
        _ => 4,
    };
    let fits = device.has_room(&fused)
        && (row.rows, row.n) == (of.m, of.k)
        && (of.m, of.batch, of.a_offset) == (1, 1, 0)
        && (a.same(y) && a_start == start && *start == 0)
        && op.spec.dtype(0) == dtype
        && [row.x_offset, row.alpha_offset]
            .iter()
            .all(|offset| offset.is_multiple_of(step))
        && !others.iter().any(|(other, _)| other.same(y));
    if !fits {
        return None;
    }
    let mut operands = op.operands.clone();
    operands[0] = x.clone();
    operands.push(alpha.clone());
    let mut op_with_norm = Op::new(fused, operands, &op.slot(), op.grid);
    op_with_norm.set_first(&params(of, &row));
    Some(op_with_norm)
}
