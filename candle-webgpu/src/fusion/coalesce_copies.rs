//! Copies that follow each other in equal steps become one. The recorder joins them ([`crate::recorder::copy_run`]); here the kernel is
//! chosen that does all of them.

use crate::error::Result;
use crate::kernel::copy;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

/// Chooses the kernel of an op that others were joined to.
pub(crate) fn dispatch(gpu: &Gpu, op: &mut Op) -> Result<()> {
    let Some(run) = op.run.as_ref().filter(|run| run.is_joined()) else {
        return Ok(());
    };
    let (spec, params, grid) = copy::dispatch(run)?;
    op.grid = gpu.split(&spec, grid)?;
    op.spec = spec;
    op.set_params(bytemuck::bytes_of(&params));
    Ok(())
}
