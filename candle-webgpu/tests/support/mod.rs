//! What the kernel tests share: an array in host and device memory, seen through any strides.

use candle_webgpu::{DType, Device, Value, View};
use half::{bf16, f16};

pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

pub fn device() -> Device {
    Device::new(0).expect("an adapter (a software one will do)")
}

/// Numbers in -1..1 that differ and do not repeat soon.
pub fn noise(seed: u64, n: usize) -> Vec<f64> {
    let one = |i: u64| {
        let mut x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd134_2543);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n as u64).map(one).collect()
}

/// The relative step of a dtype.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        _ => f64::from(f32::EPSILON),
    }
}

pub fn encode(dtype: DType, x: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F32 => x.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        DType::F16 => x
            .iter()
            .flat_map(|v| f16::from_f64(*v).to_le_bytes())
            .collect(),
        _ => x
            .iter()
            .flat_map(|v| bf16::from_f64(*v).to_le_bytes())
            .collect(),
    }
}

pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let two = |c: &[u8]| [c[0], c[1]];
    match dtype {
        DType::F32 => bytes
            .chunks(4)
            .map(|c| f64::from(f32::from_le_bytes([c[0], c[1], c[2], c[3]])))
            .collect(),
        DType::F16 => bytes
            .chunks(2)
            .map(|c| f16::from_le_bytes(two(c)).to_f64())
            .collect(),
        _ => bytes
            .chunks(2)
            .map(|c| bf16::from_le_bytes(two(c)).to_f64())
            .collect(),
    }
}

/// A strided view and the memory it shows.
pub struct Array {
    value: Value,
    host: Vec<f64>,
    dtype: DType,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl Array {
    /// Memory of `data`, seen as `dims` by `strides` from `offset`.
    pub fn new(
        d: &Device,
        dtype: DType,
        data: &[f64],
        (dims, strides, offset): (&[usize], &[usize], usize),
    ) -> Self {
        let bytes = encode(dtype, data);
        Array {
            value: d.upload(&bytes).expect("memory"),
            host: decode(dtype, &bytes),
            dtype,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            offset,
        }
    }

    /// Noise laid out with the dims in the order of `order` from the outermost, each row of the innermost
    /// one followed by `gap` elements that are not part of it.
    pub fn noise(
        d: &Device,
        dtype: DType,
        seed: u64,
        dims: &[usize],
        (order, gap, offset): (&[usize], usize, usize),
    ) -> Self {
        let mut strides = vec![0; dims.len()];
        let mut step = 1;
        for (i, &dim) in order.iter().rev().enumerate() {
            strides[dim] = step;
            step *= dims[dim] + if i == 0 { gap } else { 0 };
        }
        let data = noise(seed, offset + step);
        Self::new(d, dtype, &data, (dims, &strides, offset))
    }

    pub fn contiguous(d: &Device, dtype: DType, seed: u64, dims: &[usize]) -> Self {
        let order: Vec<usize> = (0..dims.len()).collect();
        Self::noise(d, dtype, seed, dims, (&order, 0, 0))
    }

    pub fn view(&self) -> View<'_> {
        let layout = (&self.dims[..], &self.strides[..], self.offset);
        View::new("test", &self.value, self.dtype, layout).expect("within its memory")
    }

    pub fn at(&self, index: &[usize]) -> f64 {
        let steps = index.iter().zip(&self.strides).map(|(i, s)| i * s);
        self.host[self.offset + steps.sum::<usize>()]
    }

    /// The logical elements in order.
    pub fn elements(&self) -> Vec<f64> {
        let count: usize = self.dims.iter().product();
        let mut index = vec![0; self.dims.len()];
        (0..count)
            .map(|i| {
                let mut rest = i;
                for (at, size) in index.iter_mut().zip(&self.dims).rev() {
                    *at = rest % size;
                    rest /= size;
                }
                self.at(&index)
            })
            .collect()
    }
}

pub fn read(d: &Device, dtype: DType, value: &Value, count: usize) -> Vec<f64> {
    let bytes = d
        .read(value, 0, (count * dtype.size()) as u64)
        .expect("a readback");
    decode(dtype, &bytes)
}

/// `bound(i)` is the largest error that element i may have.
pub fn close(what: &str, got: &[f64], expected: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let fine = g == e || (g - e).abs() <= bound(i) || (g.is_nan() && e.is_nan());
        assert!(fine, "{what}: element {i} is {g}, not {e}");
    }
}
