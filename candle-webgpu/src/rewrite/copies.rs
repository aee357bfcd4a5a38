//! Copies that follow each other in equal steps become one, as soon as they are recorded.

use crate::device::Inner;
use crate::queue::Op;

/// Takes a copy into the one before it, if they are between the same values and make one loop.
pub(crate) fn join(device: &Inner, last: &mut Op, op: &Op) -> bool {
    let joined = || {
        let run = last.run.as_ref()?.join(op.run.as_ref()?)?;
        let same = last
            .operands
            .iter()
            .zip(&op.operands)
            .all(|((a, from), (b, start))| a.same(b) && from == start);
        let (spec, params, grid) = run.dispatch().ok().filter(|_| same)?;
        let grid = device.split(&spec, grid).ok()?;
        Some((run, spec, params, grid))
    };
    let Some((run, spec, params, grid)) = joined() else {
        return false;
    };
    last.set_params(&params);
    last.spec = spec;
    last.grid = grid;
    last.run = Some(run);
    true
}
