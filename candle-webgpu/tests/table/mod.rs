//! A tensor of any dtype in host and device memory, with any strides. Values are f64 on the host.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use candle_webgpu::{DType, Device, Value, View};
use float8::F8E4M3;
use half::{bf16, f16};

pub const ALL: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F8E4M3,
    DType::F64,
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
];

pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

pub fn device() -> Device {
    Device::new(0).expect("an adapter (a software one will do)")
}

pub fn encode(dtype: DType, x: &[f64]) -> Vec<u8> {
    let one = |&v: &f64| match dtype {
        DType::F32 => (v as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(v).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(v).to_le_bytes().to_vec(),
        DType::U8 => vec![v as u8],
        DType::U32 => (v as u32).to_le_bytes().to_vec(),
        DType::I16 => (v as i16).to_le_bytes().to_vec(),
        DType::I32 => (v as i32).to_le_bytes().to_vec(),
        DType::F64 => v.to_le_bytes().to_vec(),
        DType::F8E4M3 => vec![F8E4M3::from_f64(v).to_bits()],
        _ => (v as i64).to_le_bytes().to_vec(),
    };
    x.iter().flat_map(one).collect()
}

pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let one = |c: &[u8]| {
        let mut w = [0; 8];
        w[..c.len()].copy_from_slice(c);
        let bits = u64::from_le_bytes(w);
        match dtype {
            DType::F32 => f64::from(f32::from_bits(bits as u32)),
            DType::F16 => f16::from_bits(bits as u16).to_f64(),
            DType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            DType::I64 => bits as i64 as f64,
            DType::I16 => f64::from(bits as i16),
            DType::I32 => f64::from(bits as i32),
            DType::F64 => f64::from_bits(bits),
            DType::F8E4M3 => F8E4M3::from_bits(bits as u8).to_f64(),
            _ => bits as f64,
        }
    };
    bytes.chunks(dtype.size()).map(one).collect()
}

/// Small whole numbers, negative ones where the dtype has them: exact in every dtype.
pub fn whole(dtype: DType, seed: u64, n: usize, most: u64) -> Vec<f64> {
    let signed = !matches!(dtype, DType::U8 | DType::U32);
    // f8e4m3 is exact up to 16, so small sums are, too.
    let most = if dtype == DType::F8E4M3 {
        most.min(2)
    } else {
        most
    };
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    (0..n)
        .map(|_| {
            let v = (next() % (most + 1)) as f64;
            if signed && next() % 2 == 0 {
                -v
            } else {
                v
            }
        })
        .collect()
}

/// Pseudorandom numbers in -1..1.
pub fn noise(seed: u64, n: usize) -> Vec<f64> {
    let one = |i: u64| {
        let mut x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd134_2543);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n as u64).map(one).collect()
}

/// The machine epsilon of a dtype.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        _ => f64::from(f32::EPSILON),
    }
}

/// A strided view and its memory.
pub struct Table {
    pub value: Value,
    pub host: Vec<f64>,
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl Table {
    pub fn new(d: &Device, dtype: DType, dims: &[usize], data: &[f64]) -> Self {
        let mut strides = vec![1; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * dims[i];
        }
        let bytes = encode(dtype, data);
        Table {
            value: d.upload(&bytes).unwrap(),
            host: decode(dtype, &bytes),
            dtype,
            dims: dims.to_vec(),
            strides,
            offset: 0,
        }
    }

    pub fn whole(d: &Device, dtype: DType, seed: u64, dims: &[usize], most: u64) -> Self {
        Self::new(
            d,
            dtype,
            dims,
            &whole(dtype, seed, dims.iter().product(), most),
        )
    }

    /// Noise with the dims in the order of `order`, outermost first; each innermost row is followed by a gap of `gap` elements.
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
        Table {
            dims: dims.to_vec(),
            strides,
            offset,
            ..Self::new(d, dtype, &[data.len()], &data)
        }
    }

    pub fn contiguous(d: &Device, dtype: DType, seed: u64, dims: &[usize]) -> Self {
        let order: Vec<usize> = (0..dims.len()).collect();
        Self::noise(d, dtype, seed, dims, (&order, 0, 0))
    }

    pub fn transposed(mut self, a: usize, b: usize) -> Self {
        self.dims.swap(a, b);
        self.strides.swap(a, b);
        self
    }

    pub fn narrowed(mut self, dim: usize, start: usize, len: usize) -> Self {
        self.offset += start * self.strides[dim];
        self.dims[dim] = len;
        self
    }

    pub fn repeated(mut self, dim: usize, times: usize) -> Self {
        self.dims.insert(dim, times);
        self.strides.insert(dim, 0);
        self
    }

    pub fn view(&self) -> View<'_> {
        let layout = (&self.dims[..], &self.strides[..], self.offset);
        View::new("test", &self.value, self.dtype, layout).unwrap()
    }

    pub fn at(&self, index: &[usize]) -> f64 {
        let at: usize = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
        self.host[self.offset + at]
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

/// All indices of `dims` in row-major order.
pub fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut out = vec![vec![]];
    for &dim in dims {
        let longer = |i: Vec<usize>| {
            (0..dim).map(move |k| {
                let mut i = i.clone();
                i.push(k);
                i
            })
        };
        out = out.into_iter().flat_map(longer).collect();
    }
    out
}

pub fn read(d: &Device, dtype: DType, value: &Value) -> Vec<f64> {
    decode(dtype, &d.read(value, 0, value.bytes()).unwrap())
}

/// `bound(i)` is the largest error that element i may have.
pub fn close(what: &str, got: &[f64], expected: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let fine = g == e || (g - e).abs() <= bound(i) || (g.is_nan() && e.is_nan());
        assert!(fine, "{what}: element {i} is {g}, not {e}");
    }
}
