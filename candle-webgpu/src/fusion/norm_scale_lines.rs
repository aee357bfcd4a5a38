//! `add_norm` writes scaled f16 lines for cooperative matrices if nothing else reads its norm. Runs after `add_norm` and
//! `shared_scale_lines`. Bit for bit: the norm is rounded before it is scaled.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::{add_norm, shared_scale_lines};
use crate::kernel::matmul::scaled::are_packed;
use crate::kernel::norm::{with_line_scales, AddNormParams, ADD_NORM};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "norm_scale_lines",
    about:
        "a kernel of `add_norm` and the conversion of its rows for cooperative matrices: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[&shared_scale_lines::RULE, &add_norm::RULE],
    at: &[&ADD_NORM],
    apply: Apply::Batch(Scan::Due, find),
};

/// The norm's index among the operands of [`ADD_NORM`].
const Y: usize = 3;

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let lines_at = graph.sole_reader(at, Y)?;
    let (norm, lines) = (graph.op(at)?, graph.op(lines_at)?);
    let params: AddNormParams = norm.params();
    let spec = with_line_scales(&norm.spec);
    if !are_packed(lines, params.rows, params.n) || !device.has_room(&spec) {
        return None;
    }
    let [_, scales, y] = &lines.operands[..] else {
        return None;
    };
    let members = [at, lines_at];
    let to = graph.place_for(&members, members)?;
    let mut operands = norm.operands.clone();
    operands[Y] = y.clone();
    operands.push(scales.clone());
    let op = Op::new(spec, operands, &params, norm.grid);
    Some(Rewrite::new(&members, to, [op]))
}
