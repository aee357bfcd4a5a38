//! argsort of rows: a bitonic sort of blocks in workgroup memory, then merges.

pub mod merge;

use crate::dtype::{Compute, DType, NUMBERS};
use crate::error::{Error, Result};
use crate::kernel::sort::merge::SORT_PAIR;
use crate::kernel::RAW;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::pool::GRAIN;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization, Text};

pub(crate) const OP: &str = "argsort";

/// Elements that a workgroup sorts; `BLOCK` in the shaders.
const BLOCK: usize = 1024;
pub(crate) const SORT_WORKGROUP: u32 = 256;

pub static SORT_BLOCK: Kernel = Kernel {
    workgroup: SORT_WORKGROUP,
    shared: |spec| shared(spec.info(0).compute),
    slots: |spec, text| {
        let compute = spec.info(0).compute;
        text.ops(compute);
        key_slots(compute, text)
    },
    ..kernel!("sort", "sort_block", Params::LAYOUT; read x, write keys, write ids)
};

pub static SORT_MERGE: Kernel = Kernel {
    workgroup: SORT_WORKGROUP,
    shared: |spec| shared(keys_of(spec)),
    slots: |spec, text| key_slots(keys_of(spec), text),
    ..kernel!("sort", "sort_merge", Params::LAYOUT; write keys, write ids)
};

pub static SORT_STEP: Kernel = Kernel {
    workgroup: SORT_WORKGROUP,
    slots: |spec, text| key_slots(keys_of(spec), text),
    ..kernel!("sort", "sort_step", Params::LAYOUT; write keys, write ids)
};

/// Key types of the merging kernels, which do not see the elements; given as their op.
pub(crate) const NARROW: &str = "u32";
pub(crate) const WIDE: &str = "i64";

pub(crate) fn keys_of(spec: &Specialization) -> Compute {
    if spec.op == WIDE {
        Compute::I64
    } else {
        Compute::U32
    }
}

fn shared(keys: Compute) -> u32 {
    BLOCK as u32 * (keys.size() as u32 + 4)
}

/// The type of keys and their order.
pub(crate) fn key_slots(compute: Compute, text: &mut Text) -> Result<()> {
    let (key, less) = match compute.size() {
        8 => ("vec2<u32>", "a.y < b.y || (a.y == b.y && a.x < b.x)"),
        _ => ("u32", "a < b"),
    };
    text.line(format!("alias K = {key};"));
    text.line(format!(
        "fn key_less(a: K, b: K) -> bool {{ return {less}; }}"
    ));
    Ok(())
}

/// A kernel that does not see the elements.
pub(crate) fn keys_spec(kernel: &'static Kernel, keys: &'static str) -> Specialization {
    Specialization::new(kernel, keys, &[RAW; 4][..kernel.bindings.len()])
}

fn block_spec(dtype: DType) -> Specialization {
    Specialization::new(&SORT_BLOCK, "", &[(dtype, Access::Words), RAW, RAW])
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = NUMBERS.map(block_spec).to_vec();
    for kernel in [&SORT_MERGE, &SORT_STEP, &SORT_PAIR] {
        all.extend([NARROW, WIDE].map(|keys| keys_spec(kernel, keys)));
    }
    all
}

params! {
    struct Params {
        items: u32,
        length: u32,
        padded: u32,
        block: u32,
        k: u32,
        j: u32,
        x_offset: u32,
        descending: u32,
        base: u32,
    }
}

impl Recorder {
    /// The number of elements whose keys and ids fit in a binding.
    pub(crate) fn sortable(&self, dtype: DType) -> usize {
        (self.binding_limit() - GRAIN) as usize / dtype.size().max(4)
    }

    /// The stable order (u32 indices) of each row of `length` elements. NaN is the greatest.
    pub fn argsort(&self, x: View<'_>, length: usize, ascending: bool) -> Result<Value> {
        x.dtype.one_of(&NUMBERS, OP)?;
        let count = x.count();
        if count == 0 {
            return self.output(OP, 0, DType::U32);
        }
        if length == 0 || !count.is_multiple_of(length) {
            let (op, message) = (OP, format!("{count} elements in rows of {length}"));
            return Err(Error::Invalid { op, message });
        }
        if !x.is_contiguous() {
            let copy = self.contiguous(x)?;
            let row = Part::all(&copy, x.dtype, &[count]);
            return self.argsort(row.view(), length, ascending);
        }
        let (rows, padded) = (count / length, length.next_power_of_two().max(2));
        let most = self.sortable(x.dtype) / padded;
        if most == 0 {
            return self.argsort_long(x, (rows, length, padded), ascending);
        }
        if rows > most {
            let y = self.output(OP, count, DType::U32)?;
            let [line, all] = [Part::from(x).flatten(), Part::all(&y, DType::U32, &[count])];
            for from in (0..count).step_by(most * length) {
                let some = (most * length).min(count - from);
                let x = line.clone().narrow(0, from, some);
                let order = self.argsort(x.view(), length, ascending)?;
                let to = all.clone().narrow(0, from, some);
                self.paste(&order, to.view())?;
            }
            return Ok(y);
        }
        let runs = Runs::new(self, x, (rows, length, padded), 0, ascending)?;
        if padded <= BLOCK || padded == length {
            return Ok(runs.ids);
        }
        let ids = Part::all(&runs.ids, DType::U32, &[rows, padded]);
        self.contiguous(ids.narrow(1, 0, length).view())
    }
}

/// Sorted rows, or runs of one row: keys and ids, padded to a power of two.
pub(crate) struct Runs {
    pub keys: Value,
    pub ids: Value,
    /// The key type: `NARROW` or `WIDE`.
    pub op: &'static str,
    params: Params,
}

impl Runs {
    /// Sorts `rows` rows of `length` elements, or one run of `padded` elements, which `x` holds from element `base` of its row on.
    pub fn new(
        device: &Recorder,
        x: View<'_>,
        (rows, length, padded): (usize, usize, usize),
        base: usize,
        ascending: bool,
    ) -> Result<Self> {
        let (window, x) = device.binding_range(OP, x)?;
        let (block, all) = (padded.min(BLOCK), rows * padded);
        let (op, key) = match x.dtype.size() {
            8 => (WIDE, DType::I64),
            _ => (NARROW, DType::U32),
        };
        // A row of one block is written without padding, and its keys are not needed.
        let (keys, ids) = if padded == block {
            (1, rows * length)
        } else {
            (all, all)
        };
        let runs = Runs {
            keys: device.output(OP, keys, key)?,
            ids: device.output(OP, ids, DType::U32)?,
            op,
            params: Params {
                items: to_u32(OP, all / block)?,
                length: to_u32(OP, length)?,
                padded: to_u32(OP, padded)?,
                block: block as u32,
                k: 0,
                j: 0,
                x_offset: x.offset as u32,
                descending: u32::from(!ascending),
                base: to_u32(OP, base)?,
            },
        };
        let windows = [window, (&runs.keys).into(), (&runs.ids).into()];
        let blocks = Grid::Linear((all / block) as u64);
        device.record(block_spec(x.dtype), &windows, &runs.params, blocks)?;
        let mut k = 2 * block;
        while k <= padded {
            runs.merge(device, k)?;
            k *= 2;
        }
        Ok(runs)
    }

    /// Merges runs of k / 2 elements to runs of k. With k of twice the padded length, a bitonic row becomes ascending.
    pub fn merge(&self, device: &Recorder, k: usize) -> Result<()> {
        let block = self.params.block as usize;
        let all = self.params.items as usize * block;
        let windows = [(&self.keys).into(), (&self.ids).into()];
        let mut params = Params {
            k: to_u32(OP, k)?,
            items: (all / 2) as u32,
            ..self.params
        };
        let mut j = (k / 2).min(self.params.padded as usize / 2);
        while j >= block {
            params.j = j as u32;
            let spec = keys_spec(&SORT_STEP, self.op);
            let pairs = (all as u64 / 2).div_ceil(u64::from(SORT_WORKGROUP));
            device.record(spec, &windows, &params, Grid::Linear(pairs))?;
            j /= 2;
        }
        params.items = self.params.items;
        let spec = keys_spec(&SORT_MERGE, self.op);
        let blocks = Grid::Linear(params.items.into());
        device.record(spec, &windows, &params, blocks)
    }
}
