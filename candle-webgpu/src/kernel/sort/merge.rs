//! argsort of rows larger than a binding. Runs that fit are sorted separately, then merged in pairs: first mirrored, so that all runs may
//! be ascending, then at half the distance each time.

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::sort::{key_slots, keys_of, keys_spec, Runs, OP, SORT_WORKGROUP};
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{params, Kernel};

pub static SORT_PAIR: Kernel = Kernel {
    workgroup: SORT_WORKGROUP,
    slots: |spec, text| key_slots(keys_of(spec), text),
    ..kernel!("sort", "sort_pair", Params::LAYOUT; write keys_a, write ids_a, write keys_b, write ids_b)
};

params! {
    struct Params {
        n: u32,
        mirrored: u32,
    }
}

impl Recorder {
    /// argsort of `rows` rows of `length` elements, one by one; `x` is contiguous.
    pub(crate) fn argsort_long(
        &self,
        x: View<'_>,
        (rows, length, padded): (usize, usize, usize),
        ascending: bool,
    ) -> Result<Value> {
        let y = self.output(OP, rows * length, DType::U32)?;
        let order = Part::all(&y, DType::U32, &[rows * length]);
        let line = Part::from(x).flatten();
        // The largest power of two that fits in a binding.
        let run = (self.sortable(x.dtype) / 2 + 1).next_power_of_two();
        for row in 0..rows {
            let sort = |base: usize| {
                // Runs past the end are all padding, but a binding must not be empty.
                let from = base.min(length - 1);
                let shown = run.min(length - from);
                let x = line.clone().narrow(0, row * length + from, shown);
                Runs::new(self, x.view(), (1, length, run), base, ascending)
            };
            let runs: Vec<Runs> = (0..padded).step_by(run).map(sort).collect::<Result<_>>()?;
            self.merge_runs(&runs, run)?;
            for (runs, base) in runs.iter().zip((0..length).step_by(run)) {
                let shown = run.min(length - base);
                let ids = Part::all(&runs.ids, DType::U32, &[run]).narrow(0, 0, shown);
                let to = order.clone().narrow(0, row * length + base, shown);
                self.copy_into(ids.view(), to.view())?;
            }
        }
        Ok(y)
    }

    fn merge_runs(&self, runs: &[Runs], run: usize) -> Result<()> {
        let mut group = 2;
        while group <= runs.len() {
            for all in runs.chunks(group) {
                for i in 0..group / 2 {
                    self.pair(&all[i], &all[group - 1 - i], run, true)?;
                }
            }
            let mut apart = group / 4;
            while apart > 0 {
                for i in (0..runs.len()).filter(|i| i & apart == 0) {
                    self.pair(&runs[i], &runs[i + apart], run, false)?;
                }
                apart /= 2;
            }
            for runs in runs {
                runs.merge(self, 2 * run)?;
            }
            group *= 2;
        }
        Ok(())
    }

    fn pair(&self, a: &Runs, b: &Runs, run: usize, mirrored: bool) -> Result<()> {
        let params = Params {
            n: to_u32(OP, run)?,
            mirrored: mirrored.into(),
        };
        let windows = [&a.keys, &a.ids, &b.keys, &b.ids].map(Into::into);
        let grid = Grid::Linear((run as u64).div_ceil(u64::from(SORT_WORKGROUP)));
        self.record(keys_spec(&SORT_PAIR, a.op), &windows, &params, grid)
    }
}
