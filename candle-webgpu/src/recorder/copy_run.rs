//! Joins consecutive copies with equal steps into one op during recording. `cat` and `repeat` record many such copies.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::memory::binding_range::BindingRange;
use crate::memory::merge::{to_u32, MAX_RANK};
use crate::memory::split::Dims;
use crate::memory::view::View;
use crate::recorder::op::Op;

const OP: &str = "copy";

/// A strided copy between two views of the same dims, or several such copies with equal steps.
#[derive(Debug, Clone)]
pub(crate) struct CopyRun {
    pub dtype: DType,
    pub dims: Dims,
    /// Strides of source and destination, in elements.
    pub strides: [Dims; 2],
    pub offsets: [usize; 2],
    /// Whether the first dim counts joined copies.
    joined: bool,
}

impl CopyRun {
    pub fn new(x: View<'_>, y: View<'_>) -> Self {
        CopyRun {
            dtype: x.dtype,
            dims: x.dims.into(),
            strides: [x.strides.into(), y.strides.into()],
            offsets: [x.offset, y.offset],
            joined: false,
        }
    }

    /// Appends `next`, a copy between the same values, if it continues the run with equal steps, writes no element twice, and one kernel
    /// can copy both. Returns whether it was appended.
    pub fn join(&mut self, next: &CopyRun) -> bool {
        let inner = usize::from(self.joined);
        let same = self.dtype.size() == next.dtype.size()
            && !next.joined
            && self.dims[inner..] == next.dims[..]
            && (0..2).all(|i| self.strides[i][inner..] == next.strides[i][..]);
        let step = |i: usize| next.offsets[i].checked_sub(self.offsets[i]);
        let (true, Some(x), Some(y)) = (same, step(0), step(1)) else {
            return false;
        };
        let steps = [x, y];
        if !self.joined {
            if self.dims.len() == MAX_RANK {
                return false;
            }
            self.dims.insert(0, 1);
            (0..2).for_each(|i| self.strides[i].insert(0, steps[i]));
        }
        let even = (0..2).all(|i| steps[i] == self.dims[0] * self.strides[i][0]);
        self.dims[0] += 1;
        let small = to_u32(OP, self.dims.iter().product()).is_ok();
        if even && small && distinct(&self.dims, &self.strides[1]) {
            self.joined = true;
            return true;
        }
        self.dims[0] -= 1;
        if !self.joined {
            self.dims.remove(0);
            for strides in &mut self.strides {
                strides.remove(0);
            }
        }
        false
    }

    /// Whether this run consists of several copies.
    pub fn is_joined(&self) -> bool {
        self.joined
    }
}

/// Whether no two indices of a layout address the same element. Tests a sufficient condition: each stride exceeds the reach of all smaller
/// ones.
fn distinct(dims: &[usize], strides: &[usize]) -> bool {
    let mut steps: SmallVec<[(usize, usize); 8]> = strides
        .iter()
        .copied()
        .zip(dims.iter().copied())
        .filter(|(_, dim)| *dim > 1)
        .collect();
    steps.sort_unstable();
    let mut reach = 0;
    steps.into_iter().all(|(stride, dim)| {
        let over = stride > reach;
        reach += stride * (dim - 1);
        over
    })
}

/// Joins a copy to the preceding op if both are between the same values. The executor selects the kernel of the joined copy later.
pub(crate) fn join(last: &mut Op, next: &CopyRun, operands: &[BindingRange<'_>]) -> bool {
    let same = |((a, from), b): (&(_, u64), &BindingRange<'_>)| b.value.same(a) && *from == b.start;
    match &mut last.run {
        Some(run) => last.operands.iter().zip(operands).all(same) && run.join(next),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offsets: [usize; 2]) -> CopyRun {
        CopyRun {
            dtype: DType::F32,
            dims: [2, 4].into_iter().collect(),
            strides: [[4, 1], [40, 1]].map(|s| s.into_iter().collect()),
            offsets,
            joined: false,
        }
    }

    #[test]
    fn copies_with_equal_steps_join() {
        let mut three = run([4, 8]);
        assert!(three.join(&run([4, 12])) && three.join(&run([4, 16])));
        assert_eq!(three.dims.as_slice(), [3, 2, 4]);
        assert_eq!(three.strides[0].as_slice(), [0, 4, 1]);
        assert_eq!(three.strides[1].as_slice(), [4, 40, 1]);
        assert!(!three.join(&run([4, 24])), "a step of two");
        assert!(!three.join(&run([5, 20])), "another source");
        assert_eq!(three.dims.as_slice(), [3, 2, 4]);
    }

    #[test]
    fn overlapping_copies_do_not_join() {
        assert!(!run([0, 0]).join(&run([4, 2])), "half of a row");
        assert!(!run([0, 0]).join(&run([4, 0])), "the same place");
        assert!(!run([0, 0]).join(&run([4, 40])), "its second row");
        assert!(!run([0, 8]).join(&run([4, 4])), "backwards");
        assert!(run([0, 0]).join(&run([4, 80])));
        let mut alone = run([0, 0]);
        assert!(!alone.join(&run([4, 2])) && !alone.is_joined());
        assert_eq!(alone.dims.as_slice(), [2, 4]);
    }
}
