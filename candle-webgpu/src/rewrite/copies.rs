//! Copies that follow each other in equal steps become one, as soon as they are recorded.

use crate::device::Inner;
use crate::queue::{New, Op};

/// Takes a copy into the one before it, if they are between the same values and make one loop.
pub(crate) fn join(device: &Inner, last: &mut Op, new: &New<'_>) -> bool {
    let joined = || {
        let run = last.run.as_ref()?.join(new.run.as_ref()?)?;
        let same = last
            .operands
            .iter()
            .zip(new.operands)
            .all(|((a, from), b)| a.same(b.value) && *from == b.start);
        let (spec, params, grid) = run.dispatch().ok().filter(|_| same)?;
        let grid = device.split(&spec, grid).ok()?;
        Some((run, spec, params, grid))
    };
    let Some((run, spec, params, grid)) = joined() else {
        return false;
    };
    last.set_params(bytemuck::bytes_of(&params));
    last.spec = spec;
    last.grid = grid;
    last.run = Some(run);
    true
}
