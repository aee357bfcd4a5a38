//! Test helpers: run ops with fusion rules and without, each on its own device, and compare results and dispatches.

use crate::device::adapter::{choose, DOT4, SOFTWARE};
use crate::device::Device;
use crate::dtype::quant::Quant;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::quantized::Blocks;
use crate::memory::buffer::Value;
use crate::memory::split::contiguous_strides;
use crate::memory::view::View;

/// A tensor.
#[derive(Clone)]
pub(crate) struct T {
    pub value: Value,
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl T {
    pub fn new(value: Value, dtype: DType, dims: &[usize]) -> T {
        T {
            value,
            dtype,
            dims: dims.to_vec(),
            strides: contiguous_strides(dims).to_vec(),
            offset: 0,
        }
    }

    pub fn v(&self) -> View<'_> {
        View {
            value: &self.value,
            dtype: self.dtype,
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

/// A device, with shorthands for ops on it.
pub(crate) struct Bench {
    pub device: Device,
    seed: std::cell::Cell<u32>,
}

impl Bench {
    pub fn new(rules: &str) -> Bench {
        let (adapter, mut report) = pollster::block_on(choose(0)).expect("an adapter");
        // The rules and kernels for GPUs are tested on software adapters, too.
        report.features.push(DOT4);
        report.features.retain(|f| *f != SOFTWARE);
        let device = pollster::block_on(Device::open(&adapter, &report, rules));
        Bench {
            device: device.expect("a device"),
            seed: std::cell::Cell::new(1),
        }
    }

    /// Pseudo-random f32 values in [-2, 2), new ones at each call.
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
        T::new(value, DType::F32, dims)
    }

    /// The same, cast to `dtype`. The cast is submitted, so that rules do not see it.
    pub fn of(&self, dtype: DType, dims: &[usize]) -> T {
        let x = self.floats(dims);
        let y = T::new(self.device.cast(x.v(), dtype).expect("a cast"), dtype, dims);
        self.device.synchronize().expect("no error");
        y
    }

    /// RoPE of queries or keys (b, h, t, d) by cosines and sines (t, d / 2).
    pub fn turned(&self, x: &T, [cos, sin]: &[T; 2]) -> T {
        let y = self.device.rope(x.v(), cos.v(), sin.v());
        T::new(y.expect("rope"), x.dtype, &x.dims)
    }

    pub fn unary(&self, op: &'static str, x: &T) -> T {
        let y = self.device.unary(op, x.v(), [1.5, 0.25]).expect(op);
        T::new(y, x.dtype, &x.dims)
    }

    pub fn binary(&self, op: &'static str, a: &T, b: &T) -> T {
        let y = self.device.binary(op, a.v(), b.v()).expect(op);
        let bool = ["eq", "ne", "le", "ge", "lt", "gt"].contains(&op);
        T::new(y, if bool { DType::U8 } else { a.dtype }, &a.dims)
    }

    /// Concatenates (g, t, d) along t.
    pub fn cat(&self, parts: &[&T]) -> T {
        let [g, _, d] = parts[0].dims[..].try_into().expect("three dims");
        let all: usize = parts.iter().map(|part| part.dims[1]).sum();
        let dtype = parts[0].dtype;
        let y = self
            .device
            .output("cat", g * all * d, dtype)
            .expect("memory");
        let y = T::new(y, dtype, &[g, all, d]);
        let mut at = 0;
        for part in parts {
            let run = part.dims[1] * d;
            let from = part.shown(&[g, run], &[run, 1], 0);
            let to = y.shown(&[g, run], &[all * d, 1], at);
            self.device.copy_into(from.v(), to.v()).expect("copy");
            at += run;
        }
        y
    }

    /// a (b0, b1, m, k) times b (b0, b1, k, n).
    pub fn matmul(&self, a: &T, b: &T) -> T {
        let [d0, d1, m, k] = a.dims[..].try_into().expect("four dims");
        let n = b.dims[3];
        let y = self.device.matmul(a.v(), b.v(), (d0 * d1, m, n, k));
        T::new(y.expect("matmul"), a.dtype, &[d0, d1, m, n])
    }

    /// x (m, k) times w (k, n).
    pub fn product(&self, x: &T, w: &T) -> T {
        let (m, k, n) = (x.dims[0], w.dims[0], w.dims[1]);
        let y = self.device.matmul(x.v(), w.v(), (1, m, n, k));
        T::new(y.expect("matmul"), x.dtype, &[m, n])
    }

    /// x (m, k) times the transpose of w (n, k).
    pub fn linear(&self, x: &T, w: &T) -> T {
        let (n, k) = (w.dims[0], w.dims[1]);
        self.product(x, &w.shown(&[k, n], &[1, k], 0))
    }

    /// A quantized matrix (n, k).
    pub fn blocks(&self, quant: Quant, n: usize, k: usize) -> T {
        let row = quant.info();
        let bytes: Vec<u8> = (0..n * k / row.block_len * row.bytes)
            .map(|i| ((i + n) * 37 % 113) as u8 & 0x3b)
            .collect();
        let value = self.device.upload_blocks(quant, &bytes).expect("blocks");
        T::new(value, DType::F32, &[n, k])
    }

    /// x (m, k) times the transpose of a quantized w (n, k).
    pub fn by_blocks(&self, x: &T, quant: Quant, w: &T) -> T {
        let (m, n, k, value) = (x.dims[0], w.dims[0], w.dims[1], &w.value);
        let w = Blocks { value, quant };
        let y = self.device.matmul_blocks(x.v(), w, (n, k));
        T::new(y.expect("matmul"), x.dtype, &[m, n])
    }

    pub fn scaled(&self, x: &T, scale: f64) -> T {
        let y = self.device.unary("affine", x.v(), [scale, 0.0]);
        T::new(y.expect("affine"), x.dtype, &x.dims)
    }

    pub fn softmax(&self, x: &T) -> T {
        let y = self.device.softmax_last_dim(x.v()).expect("softmax");
        T::new(y, x.dtype, &x.dims)
    }

    /// Repeats each head of (b, g, t, d) `n` times, as candle-transformers' `repeat_kv` does.
    pub fn repeat(&self, x: &T, n: usize) -> T {
        let [b, g, t, d] = x.dims[..].try_into().expect("four dims");
        let count = b * g * t * d * n;
        let y = T::new(
            self.device.output("cat", count, x.dtype).expect("memory"),
            x.dtype,
            &[b, g * n, t, d],
        );
        for i in 0..n {
            let rows = [b * g, t * d];
            let from = x.shown(&rows, &[t * d, 1], 0);
            let to = y.shown(&rows, &[n * t * d, 1], i * t * d);
            self.device.copy_into(from.v(), to.v()).expect("copy");
        }
        y
    }

    pub fn cast(&self, x: &T, to: DType) -> T {
        T::new(self.device.cast(x.v(), to).expect("cast"), to, &x.dims)
    }
}

/// The results of ops with rules and without, and the dispatches that they took.
struct Both {
    bytes: [Vec<Vec<u8>>; 2],
    dtypes: Vec<DType>,
    counts: (u64, u64),
}

fn both(run: impl Fn(&Bench) -> Vec<T>) -> Both {
    let [(bytes, dtypes, with), (plain, _, without)] = ["+dead_code", "-all"].map(|rules| {
        let bench = Bench::new(rules);
        let before = bench.device.stats().dispatches;
        let made = run(&bench);
        let read = |t: &T| bench.device.read(&t.value, 0, t.value.bytes());
        let bytes: Result<Vec<_>> = made.iter().map(read).collect();
        let dtypes = made.iter().map(|t| t.dtype).collect::<Vec<_>>();
        let count = bench.device.stats().dispatches - before;
        (bytes.expect("no error"), dtypes, count)
    });
    Both {
        bytes: [bytes, plain],
        dtypes,
        counts: (with, without),
    }
}

/// Runs ops with rules and without, and asserts the same bits. Returns the dispatches: (with, without).
pub(crate) fn same_bits(run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let Both { bytes, counts, .. } = both(run);
    assert!(bytes[0] == bytes[1], "other bits");
    counts
}

/// The same, but results may differ by up to `bound`.
pub(crate) fn near(bound: f32, run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let Both {
        bytes,
        dtypes,
        counts,
    } = both(run);
    for ((a, b), dtype) in bytes[0].iter().zip(&bytes[1]).zip(dtypes) {
        for (i, (a, b)) in floats(a, dtype)
            .into_iter()
            .zip(floats(b, dtype))
            .enumerate()
        {
            let same = (a - b).abs() <= bound || a.is_nan() && b.is_nan();
            assert!(same, "element {i}: {a}, {b} without rules");
        }
    }
    counts
}

fn floats(bytes: &[u8], dtype: DType) -> Vec<f32> {
    let half = |f: fn(u16) -> f32| -> Vec<f32> {
        let words = bytemuck::pod_collect_to_vec::<u8, u16>(bytes);
        words.into_iter().map(f).collect()
    };
    match dtype {
        DType::F16 => half(|w| half::f16::from_bits(w).to_f32()),
        DType::Bf16 => half(|w| half::bf16::from_bits(w).to_f32()),
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

/// The dispatches that rules save.
pub(crate) fn saved((with, without): (u64, u64)) -> u64 {
    without - with
}
