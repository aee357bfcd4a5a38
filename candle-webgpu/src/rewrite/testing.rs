//! Runs ops by the rules and without them, on devices of their own.

use crate::adapter::choose;
use crate::buffer::Value;
use crate::cut::contiguous_strides;
use crate::device::Device;
use crate::elem::Elem;
use crate::error::Result;
use crate::layout::View;
use crate::rewrite::Rewrites;

/// A tensor.
#[derive(Clone)]
pub(crate) struct T {
    pub value: Value,
    pub elem: Elem,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl T {
    pub fn new(value: Value, elem: Elem, dims: &[usize]) -> T {
        T {
            value,
            elem,
            dims: dims.to_vec(),
            strides: contiguous_strides(dims).to_vec(),
            offset: 0,
        }
    }

    pub fn v(&self) -> View<'_> {
        View {
            value: &self.value,
            elem: self.elem,
            dims: &self.dims,
            strides: &self.strides,
            offset: self.offset,
        }
    }

    pub fn shown(&self, dims: &[usize], strides: &[usize], offset: usize) -> T {
        T {
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            offset,
            ..self.clone()
        }
    }
}

/// A device, and tensors of values that do not repeat.
pub(crate) struct Bench {
    pub device: Device,
    seed: std::cell::Cell<u32>,
}

impl Bench {
    pub fn new(rules: &str) -> Bench {
        let (adapter, report) = pollster::block_on(choose(0)).expect("an adapter");
        let rewrites = Rewrites::parse(rules).expect("names of rules");
        let device = pollster::block_on(Device::open(adapter, report, rewrites));
        Bench {
            device: device.expect("a device"),
            seed: std::cell::Cell::new(1),
        }
    }

    /// f32 values from -2 to 2.
    pub fn floats(&self, dims: &[usize]) -> T {
        let values: Vec<f32> = (0..dims.iter().product())
            .map(|_| {
                let next = self
                    .seed
                    .get()
                    .wrapping_mul(1_664_525)
                    .wrapping_add(1_013_904_223);
                self.seed.set(next);
                (next >> 8) as f32 / (1 << 22) as f32 - 2.0
            })
            .collect();
        let value = self
            .device
            .upload(bytemuck::cast_slice(&values))
            .expect("an upload");
        T::new(value, Elem::F32, dims)
    }

    /// The same in a dtype; made by an op that has been submitted.
    pub fn of(&self, elem: Elem, dims: &[usize]) -> T {
        let x = self.floats(dims);
        let y = T::new(self.device.cast(x.v(), elem).expect("a cast"), elem, dims);
        self.device.synchronize().expect("no error");
        y
    }

    pub fn map(&self, op: &'static str, x: &T) -> T {
        let y = self.device.map(op, x.v(), [1.5, 0.25]).expect(op);
        T::new(y, x.elem, &x.dims)
    }

    pub fn zip(&self, op: &'static str, a: &T, b: &T) -> T {
        let y = self.device.zip(op, a.v(), b.v()).expect(op);
        let bool = ["eq", "ne", "le", "ge", "lt", "gt"].contains(&op);
        T::new(y, if bool { Elem::U8 } else { a.elem }, &a.dims)
    }

    pub fn cast(&self, x: &T, to: Elem) -> T {
        T::new(self.device.cast(x.v(), to).expect("cast"), to, &x.dims)
    }
}

/// Runs ops by the rules and without them; gives the dispatches that they took. What is returned must have the same bits.
pub(crate) fn same_bits(run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let (results, counts): (Vec<_>, Vec<_>) = ["", "-all"]
        .into_iter()
        .map(|rules| {
            let bench = Bench::new(rules);
            let before = bench.device.stats().dispatches;
            let made = run(&bench);
            let read = |t: &T| bench.device.read(&t.value, 0, t.value.bytes());
            let bytes: Result<Vec<_>> = made.iter().map(read).collect();
            (
                bytes.expect("no error"),
                bench.device.stats().dispatches - before,
            )
        })
        .unzip();
    assert!(results[0] == results[1], "other bits");
    (counts[0], counts[1])
}
