//! sort: the order of the elements of rows, by bitonic sorting: blocks in shared memory, then merges.

use crate::buffer::Value;
use crate::device::Device;
use crate::elem::{Compute, Elem};
use crate::error::{Error, Result};
use crate::layout::{to_u32, View};
use crate::link::{read, write, Access, Kernel, Spec, Text};
use crate::queue::Grid;

/// Elements that one workgroup sorts: `BLOCK` of the shaders.
const BLOCK: usize = 1024;
const SORT_WORKGROUP: u32 = 256;

pub static SORT_BLOCK: Kernel = Kernel {
    name: "sort_block",
    source: include_str!("../../wgsl/kernel/sort_block.wgsl"),
    bindings: &[read("x"), write("keys"), write("ids")],
    workgroup: SORT_WORKGROUP,
    shared: |spec| shared(spec.row(0).map(|row| row.compute)),
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        let compute = spec.row(0)?.compute;
        text.ops(compute);
        key_slots(compute, text);
        Ok(())
    },
};

pub static SORT_MERGE: Kernel = Kernel {
    name: "sort_merge",
    source: include_str!("../../wgsl/kernel/sort_merge.wgsl"),
    bindings: &[write("keys"), write("ids")],
    workgroup: SORT_WORKGROUP,
    shared: |spec| shared(Ok(keys_of(spec))),
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        key_slots(keys_of(spec), text);
        Ok(())
    },
};

pub static SORT_STEP: Kernel = Kernel {
    name: "sort_step",
    source: include_str!("../../wgsl/kernel/sort_step.wgsl"),
    bindings: &[write("keys"), write("ids")],
    workgroup: SORT_WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        key_slots(keys_of(spec), text);
        Ok(())
    },
};

/// Keys of the merging kernels, which see no elements: the op names them.
const NARROW: &str = "u32";
const WIDE: &str = "i64";

fn keys_of(spec: &Spec) -> Compute {
    if spec.op == WIDE {
        Compute::I64
    } else {
        Compute::U32
    }
}

fn shared(keys: Result<Compute>) -> u32 {
    let key = if matches!(keys, Ok(Compute::I64 | Compute::F64)) {
        8
    } else {
        4
    };
    BLOCK as u32 * (key + 4)
}

fn key_slots(compute: Compute, text: &mut Text) {
    text.line(match compute {
        Compute::I64 | Compute::F64 => {
            "alias K = vec2<u32>;
fn key_less(a: K, b: K) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }"
        }
        _ => {
            "alias K = u32;
fn key_less(a: K, b: K) -> bool { return a < b; }"
        }
    });
}

const ELEMS: [Elem; 10] = [
    Elem::F32,
    Elem::F16,
    Elem::Bf16,
    Elem::F8E4M3,
    Elem::F64,
    Elem::U8,
    Elem::U32,
    Elem::I16,
    Elem::I32,
    Elem::I64,
];
const RAW: (Elem, Access) = (Elem::U32, Access::Raw);

fn block_spec(elem: Elem) -> Spec {
    Spec::new(&SORT_BLOCK, "", &[(elem, Access::Words), RAW, RAW])
}

pub fn catalogue() -> Vec<Spec> {
    let mut all: Vec<Spec> = ELEMS.into_iter().map(block_spec).collect();
    for kernel in [&SORT_MERGE, &SORT_STEP] {
        all.extend([NARROW, WIDE].map(|keys| Spec::new(kernel, keys, &[RAW, RAW])));
    }
    all
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    items: u32,
    length: u32,
    padded: u32,
    block: u32,
    k: u32,
    j: u32,
    x_offset: u32,
    descending: u32,
}

impl Device {
    /// The order (u32) of the elements of each row of `length` elements. Equal ones keep their order; NaN
    /// counts as the greatest.
    pub fn argsort(&self, x: View<'_>, length: usize, ascending: bool) -> Result<Value> {
        const OP: &str = "argsort";
        if !ELEMS.contains(&x.elem) {
            return Err(Error::Unsupported {
                op: OP,
                elem: x.elem,
            });
        }
        let count = x.count();
        if count == 0 {
            return self.output(OP, 0, Elem::U32);
        }
        if length == 0 || !count.is_multiple_of(length) {
            return Err(Error::Invalid {
                op: OP,
                message: format!("{count} elements in rows of {length}"),
            });
        }
        if !x.is_contiguous() {
            let copy = self.contiguous(x)?;
            let row = View {
                value: &copy,
                dims: &[count],
                strides: &[1],
                offset: 0,
                ..x
            };
            return self.argsort(row, length, ascending);
        }
        let padded = length.next_power_of_two().max(2);
        let block = padded.min(BLOCK);
        let all = count / length * padded;
        let wide = x.elem.size() == 8;
        let one = padded == block;
        let key = if wide { Elem::I64 } else { Elem::U32 };
        let keys = self.output(OP, if one { 1 } else { all }, key)?;
        let ids = self.output(OP, if one { count } else { all }, Elem::U32)?;
        let mut params = Params {
            items: to_u32(OP, all / block)?,
            length: to_u32(OP, length)?,
            padded: to_u32(OP, padded)?,
            block: block as u32,
            k: 0,
            j: 0,
            x_offset: to_u32(OP, x.offset)?,
            descending: u32::from(!ascending),
        };
        to_u32(OP, all)?;
        let blocks = Grid::Linear((all / block) as u64);
        self.record(block_spec(x.elem), &[x.value, &keys, &ids], &params, blocks)?;
        if one {
            return Ok(ids);
        }
        let op = if wide { WIDE } else { NARROW };
        let pairs = Grid::Linear((all as u64 / 2).div_ceil(u64::from(SORT_WORKGROUP)));
        let mut k = 2 * block;
        while k <= padded {
            params.k = k as u32;
            params.items = (all / 2) as u32;
            let mut j = k / 2;
            while j >= block {
                params.j = j as u32;
                let spec = Spec::new(&SORT_STEP, op, &[RAW, RAW]);
                self.record(spec, &[&keys, &ids], &params, pairs)?;
                j /= 2;
            }
            params.items = (all / block) as u32;
            let spec = Spec::new(&SORT_MERGE, op, &[RAW, RAW]);
            self.record(spec, &[&keys, &ids], &params, blocks)?;
            k *= 2;
        }
        if padded == length {
            return Ok(ids);
        }
        self.contiguous(View {
            value: &ids,
            elem: Elem::U32,
            dims: &[count / length, length],
            strides: &[padded, 1],
            offset: 0,
        })
    }
}
