//! Consecutive copies at equal distances become one: the recorder joins them ([`crate::recorder::copy_run`]), and this module selects
//! the kernel.

use crate::error::Result;
use crate::fusion::rule::{Apply, Enabled, Exact, Rule};
use crate::kernel::copy;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "coalesce_copies",
    about: "consecutive copies at equal distances: one copy",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    apply: Apply::Recording,
};

/// Selects the kernel of a copy to which others were joined. Returns how many were.
pub(crate) fn dispatch(gpu: &Gpu, op: &mut Op) -> Result<u64> {
    let Some(run) = op.run.as_ref().filter(|run| run.is_joined()) else {
        return Ok(0);
    };
    let joined = run.dims[0] as u64 - 1;
    let (spec, params, grid) = copy::dispatch(run)?;
    op.grid = gpu.split(&spec, grid)?;
    op.spec = spec;
    op.set_params(bytemuck::bytes_of(&params));
    Ok(joined)
}
