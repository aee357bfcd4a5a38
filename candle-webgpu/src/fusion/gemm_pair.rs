//! Two matmuls of the same many rows with matrices of one size, such as those of keys and values: one kernel, of which a tile has columns
//! of both. Runs after `matmul_epilogue`, which pairs those that one elementwise op reads. Bit for bit.

use smallvec::SmallVec;

use crate::fusion::fused_projections::are_projections;
use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::matmul::epilogue::{self, Params};
use crate::kernel::matmul::gemm_coop::{self, GEMM_COOP};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Operands};

pub(crate) const RULE: Rule = Rule {
    name: "gemm_pair",
    about: "two matmuls of the same many rows with matrices of one size: one kernel",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    at: &[&GEMM_COOP],
    apply: Apply::Batch(Scan::Due, find),
};

fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let one = graph.op(at).filter(|op| gemm_coop::can_pair(&op.spec))?;
    let readers = graph.readers(&one.operands.first()?.0).iter();
    let mut later = readers.filter(|next| **next > at);
    later.find_map(|&next| {
        let other = graph.op(next)?;
        let Pair { params, second } = Pair::of(one, other)?;
        let spec = epilogue::pair_of(&one.spec);
        if !device.has_room(&spec) {
            return None;
        }
        let members = [at, next];
        let to = graph.place_for(&members, members)?;
        let z = other.operands.get(2)?;
        let operands: Operands = one
            .operands
            .iter()
            .chain(&second)
            .chain([z])
            .cloned()
            .collect();
        let grid = Grid::Linear(params.matmul.groups.into());
        let op = device.op(spec, operands, &params, grid).ok()?;
        Some(Rewrite::new(&members, to, [op]))
    })
}

/// What a pair has besides the first matmul.
pub(super) struct Pair {
    pub params: Params,
    /// The second matrix, and the scales of its lines if there are any.
    pub second: SmallVec<[(Value, u64); 2]>,
}

impl Pair {
    /// The pair of two matmuls, of which [`gemm_coop::can_pair`] takes the first.
    pub fn of(one: &Op, other: &Op) -> Option<Pair> {
        let (of, with): (MatmulParams, MatmulParams) = (one.params(), other.params());
        let same = (of.n, of.b_n) == (with.n, with.b_n);
        if !same || !are_projections((one, &of), other) {
            return None;
        }
        let mut params = Params::new(of);
        let own = gemm_coop::tile(&one.spec).own(true);
        params.matmul.groups = of.rows.checked_mul(of.n.div_ceil(own))?;
        params.epilogue.step = with.b_offset.wrapping_sub(of.b_offset);
        let second = [1, 4].into_iter().filter_map(|i| other.operands.get(i));
        let second = second.cloned().collect();
        Some(Pair { params, second })
    }
}
