//! Ops whose operands are larger than one binding: run part by part.

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::Result;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::pool::GRAIN;
use crate::memory::split::{Loops, Part};
use crate::memory::view::View;
use crate::recorder::Recorder;

impl Recorder {
    /// Runs an op on parts that all fit, in the order of its loops.
    pub(crate) fn each<'a>(
        &self,
        op: &'static str,
        parts: &[Part<'a>],
        loops: usize,
        run: &mut dyn FnMut(&[Part<'a>]) -> Result<()>,
    ) -> Result<()> {
        if parts.iter().all(|part| self.fits(part.view())) {
            return run(parts);
        }
        for half in self.pool.halve(op, parts, loops)?.parts {
            self.each(op, &half, loops, run)?;
        }
        Ok(())
    }

    /// `y = run(reads)`, contiguous, of the dims `dims`, whole or in pieces. The loops are the first dims of y
    /// and of every operand; `run` gets the operands of a piece and where it goes, contiguous.
    pub(crate) fn in_parts<const N: usize>(
        &self,
        op: &'static str,
        reads: [View<'_>; N],
        (out, dims): (DType, &[usize]),
        loops: Loops,
        mut run: impl FnMut([View<'_>; N], BindingRange<'_>) -> Result<()>,
    ) -> Result<Value> {
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let y = self.output(op, count.unwrap_or(usize::MAX), out)?;
        if y.bytes() == 0 {
            return Ok(y);
        }
        if y.bytes() <= self.binding_limit() && reads.iter().all(|v| self.fits(*v)) {
            run(reads, (&y).into())?;
            return Ok(y);
        }
        let mut parts: Vec<Part<'_>> = reads.map(Part::from).into();
        parts.push(Part::all(&y, out, dims));
        let loops = match loops {
            Loops::First(n) => n,
            Loops::Elements if parts.iter().all(|part| part.view().is_contiguous()) => {
                parts = parts.into_iter().map(Part::flatten).collect();
                1
            }
            Loops::Elements => dims.len(),
        };
        self.each(op, &parts, loops, &mut |parts| {
            let reads = std::array::from_fn(|i| parts[i].view());
            self.write(op, parts[N].view(), |window| run(reads, window))
        })?;
        Ok(y)
    }

    /// [`in_parts`](Recorder::in_parts) with bound operands: `run` gets views relative to their binding ranges, and the ranges, that of
    /// y last.
    pub(crate) fn in_bound_parts<const N: usize>(
        &self,
        op: &'static str,
        reads: [View<'_>; N],
        out: (DType, &[usize]),
        loops: Loops,
        mut run: impl FnMut([View<'_>; N], &[BindingRange<'_>]) -> Result<()>,
    ) -> Result<Value> {
        self.in_parts(op, reads, out, loops, |mut reads, y| {
            let mut ranges = SmallVec::<[_; 5]>::new();
            for view in &mut reads {
                let (range, relative) = self.binding_range(op, *view)?;
                ranges.push(range);
                *view = relative;
            }
            ranges.push(y);
            run(reads, &ranges)
        })
    }

    /// Lets `record` write a contiguous piece of a result: in place where a window can start there and its
    /// last quad belongs to the piece, else in memory of its own, which is copied.
    pub(crate) fn write(
        &self,
        op: &'static str,
        y: View<'_>,
        record: impl FnOnce(BindingRange<'_>) -> Result<()>,
    ) -> Result<()> {
        let size = y.dtype.size() as u64;
        let window = BindingRange {
            value: y.value,
            start: y.offset as u64 * size,
            bytes: y.count() as u64 * size,
        };
        let ends = y.count().is_multiple_of(4) || window.start + window.bytes == y.value.bytes();
        if y.is_contiguous() && window.start.is_multiple_of(GRAIN) && ends {
            return record(window);
        }
        let piece = self.output(op, y.count(), y.dtype)?;
        record((&piece).into())?;
        self.paste(&piece, y)
    }

    /// Copies a contiguous piece to its place in `y`.
    pub(crate) fn paste(&self, piece: &Value, y: View<'_>) -> Result<()> {
        self.copy_into(Part::all(piece, y.dtype, y.dims).view(), y)
    }
}
