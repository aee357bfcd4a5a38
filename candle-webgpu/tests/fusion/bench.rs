//! Test helpers: run ops with fusion rules and without, and compare results and dispatches.

use std::fmt::Debug;
use std::sync::{Mutex, Once};

use candle_webgpu::kernel::matmul::quantized::Blocks;
use candle_webgpu::{DType, Device, Quant, Result, Value, View, DISABLE_VAR, ENABLE_VAR};

pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

pub fn contiguous_strides(dims: &[usize]) -> Vec<usize> {
    let inner = (1..=dims.len()).map(|d| dims[d..].iter().product());
    inner.collect()
}

/// A tensor.
#[derive(Clone)]
pub struct T {
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
            strides: contiguous_strides(dims),
            offset: 0,
        }
    }

    pub fn v(&self) -> View<'_> {
        let layout = (&self.dims[..], &self.strides[..], self.offset);
        View::new("test", &self.value, self.dtype, layout).expect("a view of the value")
    }

    /// The result of an op, of this dtype and these dims.
    pub fn like(&self, y: Result<Value>) -> T {
        T::new(y.expect("recorded"), self.dtype, &self.dims)
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

/// Devices for the next [`Bench`]: opening one takes longer than most tests.
static IDLE: Mutex<Vec<Device>> = Mutex::new(Vec::new());

/// A device of its own, with shorthands for ops on it.
pub struct Bench {
    pub device: Device,
    seed: std::cell::Cell<u32>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Ok(mut idle) = IDLE.lock() {
            idle.push(self.device.clone());
        }
    }
}

impl Bench {
    pub fn new(rules: &str) -> Bench {
        // The rules and kernels for GPUs are tested on software adapters, too.
        static AS_GPU: Once = Once::new();
        AS_GPU.call_once(|| {
            std::env::set_var(DISABLE_VAR, "software");
            std::env::set_var(ENABLE_VAR, "dot4");
        });
        let idle = IDLE.lock().ok().and_then(|mut idle| idle.pop());
        let device = idle.unwrap_or_else(|| Device::separate(0).expect("an adapter"));
        device.rewrite_by(rules).expect("rules");
        Bench {
            device,
            seed: std::cell::Cell::new(1),
        }
    }

    /// Pseudo-random f32 values in [-2, 2), new ones at each call.
    pub fn floats(&self, dims: &[usize]) -> T {
        let values: Vec<f32> = (0..dims.iter().product())
            .map(|_| {
                let next = self.seed.get().wrapping_mul(1_664_525);
                let next = next.wrapping_add(1_013_904_223);
                self.seed.set(next);
                (next >> 8) as f32 / (1 << 22) as f32 - 2.0
            })
            .collect();
        let value = self.device.upload(bytemuck::cast_slice(&values));
        T::new(value.expect("an upload"), DType::F32, dims)
    }

    /// The same, cast to `dtype`. The cast is submitted, so that rules do not see it.
    pub fn of(&self, dtype: DType, dims: &[usize]) -> T {
        let y = self.cast(&self.floats(dims), dtype);
        self.device.synchronize().expect("no error");
        y
    }

    /// RoPE of queries or keys (b, h, t, d) by cosines and sines (t, d / 2).
    pub fn turned(&self, x: &T, [cos, sin]: &[T; 2]) -> T {
        x.like(self.device.rope(x.v(), cos.v(), sin.v()))
    }

    /// The same for neighboring pairs.
    pub fn turned_i(&self, x: &T, [cos, sin]: &[T; 2]) -> T {
        x.like(self.device.rope_i(x.v(), cos.v(), sin.v()))
    }

    pub fn rms_norm(&self, x: &T, alpha: &T) -> T {
        x.like(self.device.rms_norm(x.v(), alpha.v(), 1e-5))
    }

    pub fn layer_norm(&self, x: &T, [alpha, beta]: [&T; 2]) -> T {
        x.like(self.device.layer_norm(x.v(), alpha.v(), beta.v(), 1e-5))
    }

    pub fn copy(&self, x: &T, y: &T) {
        self.device.copy_into(x.v(), y.v()).expect("copy");
    }

    pub fn where_cond(&self, c: &T, t: &T, f: &T) -> T {
        f.like(self.device.where_cond(c.v(), t.v(), f.v()))
    }

    pub fn unary(&self, op: &'static str, x: &T) -> T {
        x.like(self.device.unary(op, x.v(), [1.5, 0.25]))
    }

    pub fn binary(&self, op: &'static str, a: &T, b: &T) -> T {
        let mut y = a.like(self.device.binary(op, a.v(), b.v()));
        if ["eq", "ne", "le", "ge", "lt", "gt"].contains(&op) {
            y.dtype = DType::U8;
        }
        y
    }

    /// A reduction of the rows of `x` (rows, m), then `after`, as a view that repeats each value along its row.
    pub fn along(&self, op: &'static str, x: &T, after: impl Fn(&T) -> T) -> T {
        let (rows, m) = (x.dims[0], x.dims[1]);
        let value = self.device.reduce(op, x.v(), &[1]).expect("recorded");
        after(&T::new(value, x.dtype, &[rows, 1])).shown(&[rows, m], &[1, 0], 0)
    }

    /// Memory for a tensor.
    pub fn output(&self, dtype: DType, dims: &[usize]) -> T {
        let count = dims.iter().product();
        let y = self.device.output("test", count, dtype);
        T::new(y.expect("memory"), dtype, dims)
    }

    /// Concatenates (g, t, d) along t.
    pub fn cat(&self, parts: &[&T]) -> T {
        let [g, _, d] = parts[0].dims[..].try_into().expect("three dims");
        let all: usize = parts.iter().map(|part| part.dims[1]).sum();
        let y = self.output(parts[0].dtype, &[g, all, d]);
        let mut at = 0;
        for part in parts {
            let run = part.dims[1] * d;
            let from = part.shown(&[g, run], &[run, 1], 0);
            self.copy(&from, &y.shown(&[g, run], &[all * d, 1], at));
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
        let value = self
            .device
            .upload(&quant.info().pack(&bytes))
            .expect("blocks");
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
        x.like(self.device.unary("affine", x.v(), [scale, 0.0]))
    }

    pub fn softmax(&self, x: &T) -> T {
        x.like(self.device.softmax_last_dim(x.v()))
    }

    /// Repeats each head of (b, g, t, d) `n` times, as candle-transformers' `repeat_kv` does.
    pub fn repeat(&self, x: &T, n: usize) -> T {
        let [b, g, t, d] = x.dims[..].try_into().expect("four dims");
        let y = self.output(x.dtype, &[b, g * n, t, d]);
        for i in 0..n {
            let rows = [b * g, t * d];
            let from = x.shown(&rows, &[t * d, 1], 0);
            self.copy(&from, &y.shown(&rows, &[n * t * d, 1], i * t * d));
        }
        y
    }

    pub fn cast(&self, x: &T, to: DType) -> T {
        T::new(self.device.cast(x.v(), to).expect("cast"), to, &x.dims)
    }
}

/// The results of ops and their dtypes, and the dispatches that they took.
type Results = (Vec<Vec<u8>>, Vec<DType>, u64);

/// Runs ops with rules and without.
fn both(run: impl Fn(&Bench) -> Vec<T>) -> [Results; 2] {
    compared(["+dead_code", "-all"], run)
}

/// Runs ops with two sets of rules.
fn compared(sets: [&str; 2], run: impl Fn(&Bench) -> Vec<T>) -> [Results; 2] {
    sets.map(|rules| {
        let bench = Bench::new(rules);
        let before = bench.device.stats().dispatches;
        let made = run(&bench);
        let read = |t: &T| bench.device.read(&t.value, 0, t.value.bytes());
        let bytes: Result<Vec<_>> = made.iter().map(read).collect();
        let dtypes = made.iter().map(|t| t.dtype).collect();
        let count = bench.device.stats().dispatches - before;
        (bytes.expect("no error"), dtypes, count)
    })
}

/// Runs ops with rules and without, and asserts the same bits. Returns the dispatches: (with, without).
pub fn same_bits(run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let [(bytes, _, with), (plain, _, without)] = both(run);
    assert!(bytes == plain, "other bits");
    (with, without)
}

/// Runs ops with all rules and without one of them, and asserts the same bits. Returns the dispatches: (with, without).
pub fn same_bits_without(rule: &str, run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    same_bits_by(["", &format!("-{rule}")], run)
}

/// The same with two sets of rules.
pub fn same_bits_by(sets: [&str; 2], run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let [(bytes, _, first), (other, _, second)] = compared(sets, run);
    assert!(bytes == other, "other bits");
    (first, second)
}

/// The same as [`same_bits`], but results may differ by up to `bound`.
pub fn near(bound: f32, run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    near_by(["+dead_code", "-all"], bound, run)
}

/// The same as [`same_bits_by`], but results may differ by up to `bound`.
pub fn near_by(sets: [&str; 2], bound: f32, run: impl Fn(&Bench) -> Vec<T>) -> (u64, u64) {
    let [(bytes, dtypes, with), (plain, _, without)] = compared(sets, run);
    for ((a, b), dtype) in bytes.iter().zip(&plain).zip(dtypes) {
        let pairs = floats(a, dtype).into_iter().zip(floats(b, dtype));
        for (i, (a, b)) in pairs.enumerate() {
            let same = (a - b).abs() <= bound || a.is_nan() && b.is_nan();
            assert!(same, "element {i}: {a}, {b} without rules");
        }
    }
    (with, without)
}

/// Whether the adapter multiplies with cooperative matrices.
pub fn cooperative() -> bool {
    Bench::new("").device.cooperative()
}

/// `dispatches` with cooperative matrices, none without.
pub fn if_cooperative(dispatches: u64) -> u64 {
    match cooperative() {
        true => dispatches,
        false => 0,
    }
}

/// Asserts the same bits, and dispatches (with, without) rules.
pub fn takes(counts: (u64, u64), what: impl Debug, run: impl Fn(&Bench) -> Vec<T>) {
    assert_eq!(same_bits(run), counts, "{what:?}");
}

/// Asserts the same bits, and how many dispatches rules save.
pub fn saves(dispatches: u64, what: impl Debug, run: impl Fn(&Bench) -> Vec<T>) {
    let (with, without) = same_bits(run);
    assert_eq!(without - with, dispatches, "{what:?}");
}

/// The same, but results may differ by up to `bound`.
pub fn saves_near(bound: f32, dispatches: u64, what: impl Debug, run: impl Fn(&Bench) -> Vec<T>) {
    let (with, without) = near(bound, run);
    assert_eq!(without - with, dispatches, "{what:?}");
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
