//! Copies that follow each other in equal steps become one, as soon as they are recorded.

use crate::device::Inner;
use crate::error::Result;
use crate::kernel::copy::Run;
use crate::memory::binding_range::BindingRange;
use crate::recorder::op::Op;

/// Takes a copy into the one before it, if they are between the same values and make one loop. The op's kernel and parameters stay
/// what they were until [`dispatch`] is called.
pub(crate) fn join(last: &mut Op, next: &Run, operands: &[BindingRange<'_>]) -> bool {
    let same = |((a, from), b): (&(_, u64), &BindingRange<'_>)| b.value.same(a) && *from == b.start;
    match &mut last.run {
        Some(run) => last.operands.iter().zip(operands).all(same) && run.join(next),
        None => false,
    }
}

/// Decides how an op does the copies that were taken into it.
pub(crate) fn dispatch(device: &Inner, op: &mut Op) -> Result<()> {
    let Some(run) = op.run.as_ref().filter(|run| run.is_joined()) else {
        return Ok(());
    };
    let (spec, params, grid) = run.dispatch()?;
    op.grid = device.split(&spec, grid)?;
    op.spec = spec;
    op.set_params(bytemuck::bytes_of(&params));
    Ok(())
}
